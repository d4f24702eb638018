#include "daemon/spmd/codegen/device_schedule.h"

#include <math.h>
#include <string.h>

#include "daemon/spmd/schedule/queue_hazards.h"

struct builder {
    struct hsp_program *p;
    struct hsp_waits *w;
    struct hsp_sched *s;
    uint32_t cap[HSP_N_QUEUES];
    const struct hsp_rank_timeline *rank_timeline;
    uint32_t served; /* of them done */
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
            return hsp_err_nomem(b->err, "the schedule");
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

/* Adds the work due for other pipelines up to time @at: also work at that time, but not behind
 * it. */
static enum hsp_status serve_until(struct builder *b, double at)
{
    const struct hsp_rank_timeline *a = b->rank_timeline;
    enum hsp_status rc = HSP_OK;
    for (; rc == HSP_OK && b->served < a->n; b->served++) {
        const struct hsp_service_slot *v = &a->service_slot[b->served];
        if (v->at > at || (v->at == at && v->after)) {
            break;
        }
        for (uint32_t k = 0; rc == HSP_OK && k < v->n; k++) {
            rc = add_entry(b, v->first + k, 0);
        }
    }
    return rc;
}

/* @interval: when the pass runs; NULL: nothing is done for others meanwhile. */
static enum hsp_status add_segment(struct builder *b, const struct hsp_pass *u,
                                   const struct hsp_interval *interval)
{
    const struct hsp_rank_timeline *a = b->rank_timeline;
    enum hsp_status rc =
        interval != NULL ? serve_until(b, hsp_interval_begins(interval, a->end_us)) : HSP_OK;
    for (uint32_t i = 0; i < b->p->tpl.n_segments; i++) {
        const struct hsp_segment *s = &b->p->tpl.segments[i];
        bool here = s->kind == u->kind && s->chunk == u->chunk;
        for (uint32_t k = 0; rc == HSP_OK && here && k < s->n_pieces; k++) {
            uint32_t piece = s->first_piece + k, meets = interval != NULL ? a->meets[piece] : 0;
            if (meets != 0) {
                rc = serve_until(
                    b, hsp_rendezvous_find(&a->rendezvous_at[meets - 1], interval, a->end_us));
            }
            rc = rc == HSP_OK ? add_entry(b, piece, u->micro) : rc;
        }
    }
    return rc;
}

static enum hsp_status add_passes(struct builder *b, const struct hsp_pass *u, uint32_t n)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        rc = add_segment(
            b, &u[i], b->rank_timeline->interval != NULL ? &b->rank_timeline->interval[i] : NULL);
    }
    return rc == HSP_OK ? serve_until(b, INFINITY) : rc;
}

static enum hsp_status make_train(struct builder *b, const struct hsp_pipeline_order *o)
{
    enum hsp_status rc = add_segment(b, &(const struct hsp_pass){.kind = HSP_SEG_PRE}, NULL);
    if (rc == HSP_OK) {
        rc = add_passes(b, o->train, o->n_train);
    }
    return rc == HSP_OK ? add_segment(b, &(const struct hsp_pass){.kind = HSP_SEG_POST}, NULL) : rc;
}

static enum hsp_status make_eval(struct builder *b, const struct hsp_pipeline_order *o)
{
    if (b->p->bind.data.validation_every == 0 || b->p->bind.data.eval_seqs == 0) {
        return HSP_OK;
    }
    enum hsp_status rc = add_segment(b, &(const struct hsp_pass){.kind = HSP_SEG_PRE}, NULL);
    return rc == HSP_OK ? add_passes(b, o->eval, o->n_eval) : rc;
}

enum hsp_status hsp_schedule_make(struct hsp_program *p, const struct hsp_pipeline_order *o,
                                  const struct hsp_rank_timeline *train,
                                  const struct hsp_rank_timeline *eval, struct hsp_arena *arena,
                                  struct hsp_err *err)
{
    struct builder b = {
        .p = p, .s = &p->bind.train, .rank_timeline = train, .arena = arena, .err = err};
    enum hsp_status rc = hsp_waits_new(p, &b.w, err);
    if (rc != HSP_OK) {
        return rc;
    }
    rc = make_train(&b, o);
    if (rc == HSP_OK) { /* eval is a schedule of its own: nothing before it to wait for */
        hsp_waits_reset(b.w);
        b.s = &p->bind.eval;
        b.rank_timeline = eval;
        b.served = 0;
        memset(b.cap, 0, sizeof b.cap);
        rc = make_eval(&b, o);
    }
    b.w = hsp_waits_free(b.w);
    return rc;
}
