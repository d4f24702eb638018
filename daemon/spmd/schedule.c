#include "daemon/spmd/schedule.h"

#include <string.h>

#include "daemon/spmd/waits.h"

struct builder {
    struct hsp_program *p;
    struct hsp_waits *w;
    struct hsp_sched *s;
    uint32_t cap[HSP_N_QUEUES];
    struct hsp_arena *arena;
    struct hsp_err *err;
};

static enum hsp_status add_entry(struct builder *b, uint32_t piece, uint32_t micro)
{
    const struct hsp_piece *q = &b->p->tpl.pieces[piece];
    uint32_t number = b->s->n[q->queue] + 1;
    if (number > HSP_MAX_SCHED) {
        return hsp_err_set(b->err, HSP_ELIMIT, 0, "schedule of more than %d entries",
                           HSP_MAX_SCHED);
    }
    uint32_t wait = hsp_waits_next(b->w, piece, micro, number);
    struct hsp_sched_entry *e = b->s->e[q->queue];
    if (number > b->cap[q->queue]) {
        uint32_t cap = b->cap[q->queue] == 0 ? 64 : 2 * b->cap[q->queue];
        e = hsp_arena_array(b->arena, cap, sizeof *e);
        if (e == NULL) {
            return hsp_err_set(b->err, HSP_ENOMEM, 0, "schedule");
        }
        if (number > 1) {
            memcpy(e, b->s->e[q->queue], (number - 1) * sizeof *e);
        }
        b->cap[q->queue] = cap;
        b->s->e[q->queue] = e;
    }
    e[number - 1] = (struct hsp_sched_entry){.piece = piece, .micro = micro, .wait = wait};
    b->s->n[q->queue] = number;
    return HSP_OK;
}

static enum hsp_status add_segment(struct builder *b, const struct hsp_unit *u)
{
    for (uint32_t i = 0; i < b->p->tpl.n_segments; i++) {
        const struct hsp_segment *s = &b->p->tpl.segments[i];
        bool here = s->kind == u->kind && s->chunk == u->chunk;
        for (uint32_t k = 0; here && k < s->n_pieces; k++) {
            enum hsp_status rc = add_entry(b, s->first_piece + k, u->micro);
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status add_units(struct builder *b, const struct hsp_unit *u, uint32_t n)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        rc = add_segment(b, &u[i]);
    }
    return rc;
}

static enum hsp_status make_train(struct builder *b, const struct hsp_order *o)
{
    enum hsp_status rc = add_segment(b, &(const struct hsp_unit){.kind = HSP_SEG_PRE});
    if (rc == HSP_OK) {
        rc = add_units(b, o->train, o->n_train);
    }
    return rc == HSP_OK ? add_segment(b, &(const struct hsp_unit){.kind = HSP_SEG_POST}) : rc;
}

static enum hsp_status make_eval(struct builder *b, const struct hsp_order *o)
{
    if (b->p->bind.data.validation_every == 0 || b->p->bind.data.eval_seqs == 0) {
        return HSP_OK;
    }
    enum hsp_status rc = add_segment(b, &(const struct hsp_unit){.kind = HSP_SEG_PRE});
    return rc == HSP_OK ? add_units(b, o->eval, o->n_eval) : rc;
}

enum hsp_status hsp_schedule_make(struct hsp_program *p, const struct hsp_order *o,
                                  struct hsp_arena *arena, struct hsp_err *err)
{
    struct builder b = {.p = p, .s = &p->bind.train, .arena = arena, .err = err};
    enum hsp_status rc = hsp_waits_new(p, &b.w, err);
    if (rc != HSP_OK) {
        return rc;
    }
    rc = make_train(&b, o);
    if (rc == HSP_OK) { /* eval is a schedule of its own: nothing before it to wait for */
        hsp_waits_reset(b.w);
        b.s = &p->bind.eval;
        memset(b.cap, 0, sizeof b.cap);
        rc = make_eval(&b, o);
    }
    b.w = hsp_waits_free(b.w);
    return rc;
}
