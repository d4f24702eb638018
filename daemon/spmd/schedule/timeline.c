#include "daemon/spmd/schedule/timeline.h"

#include <math.h>
#include <stdlib.h>

/* A stage where it stands: passes done, and since when it is idle. */
struct runner {
    uint32_t done;
    double at_us;
};

struct clockwork {
    const struct hsp_pipeline *s;
    const struct hsp_pass_costs *costs;
    struct hsp_timeline *t;
    struct runner *stage;
    uint32_t chain, n_micro; /* chain: chunks * stages */
    double
        *end[2]; /* [forward, backward][place in the chain * micro-batches + micro]: -1 if open */
    struct hsp_err *err;
};

static bool is_backward(const struct hsp_pass *u)
{
    return u->kind == HSP_SEG_BACKWARD || u->kind == HSP_SEG_INPUT_GRAD;
}

/* The time at which stage @stage has the inputs of @u from another pass; -1: not yet. */
static double ready_us(const struct clockwork *x, uint32_t stage, const struct hsp_pass *u)
{
    uint32_t n = x->s->n_stages, place = u->chunk * n + stage;
    bool back = is_backward(u);
    if (u->kind == HSP_SEG_WEIGHT_GRAD || place == (back ? x->chain - 1 : 0)) {
        return 0; /* its inputs are earlier in the order of its own stage */
    }
    place = back ? place + 1 : place - 1;
    struct hsp_pass before = {.kind = u->kind, .chunk = place / n, .micro = u->micro};
    double end = x->end[back][(size_t)place * x->n_micro + u->micro];
    return end < 0              ? -1
           : place % n == stage ? end
                                : end + x->costs->hop_us(x->costs->ctx, place % n, stage, &before);
}

/* Runs passes of a stage until one must wait. True: it ran some. */
static bool run_stage(struct clockwork *x, uint32_t stage)
{
    struct runner *r = &x->stage[stage];
    bool moved = false;
    for (; r->done < x->t->n_passes; r->done++, moved = true) {
        struct hsp_interval *at = &x->t->at[(size_t)stage * x->t->n_passes + r->done];
        double ready = ready_us(x, stage, &at->pass);
        if (ready < 0) {
            break;
        }
        at->from_us = fmax(r->at_us, ready);
        at->to_us = at->from_us + x->costs->pass_us(x->costs->ctx, stage, &at->pass);
        r->at_us = at->to_us;
        if (at->pass.kind != HSP_SEG_WEIGHT_GRAD) {
            size_t place = (size_t)at->pass.chunk * x->s->n_stages + stage;
            x->end[is_backward(&at->pass)][place * x->n_micro + at->pass.micro] = at->to_us;
        }
    }
    x->t->end_us = fmax(x->t->end_us, r->at_us);
    return moved;
}

static enum hsp_status run(struct clockwork *x)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < x->s->n_stages; i++) {
            moved = run_stage(x, i) || moved;
        }
    }
    for (uint32_t i = 0; i < x->s->n_stages; i++) {
        if (x->stage[i].done < x->t->n_passes) {
            return hsp_err_set(x->err, HSP_EINVAL, 0, "order of stage %u never ends: pass %u of %u",
                               i, x->stage[i].done, x->t->n_passes);
        }
    }
    return HSP_OK;
}

/* The passes of every stage, in the order in which it runs them. */
static enum hsp_status list_units(struct clockwork *x, uint32_t n_eval)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < x->s->n_stages; i++) {
        struct hsp_pipeline_order o = {0};
        rc = hsp_order_make(x->s, i, n_eval, &o, x->err);
        const struct hsp_pass *pass = n_eval > 0 ? o.eval : o.train;
        for (uint32_t k = 0; rc == HSP_OK && k < x->t->n_passes; k++) {
            x->t->at[(size_t)i * x->t->n_passes + k].pass = pass[k];
        }
        hsp_order_fini(&o);
    }
    return rc;
}

/* @n_eval: micro-batches of validation; 0: training. */
static enum hsp_status make(const struct hsp_pipeline *s, uint32_t n_eval,
                            const struct hsp_pass_costs *costs, struct hsp_arena *arena,
                            struct hsp_timeline *ret, struct hsp_err *err)
{
    struct hsp_timeline t = {.n_stages = s->n_stages, .n_passes = hsp_order_count(s)};
    struct clockwork x = {.s = s, .costs = costs, .t = &t, .err = err};
    x.chain = hsp_pipeline_chunks(s) * s->n_stages;
    x.n_micro = n_eval > 0 ? n_eval : s->micro_batches;
    t.n_passes = n_eval > 0 ? n_eval * hsp_pipeline_chunks(s) : t.n_passes;
    size_t n = (size_t)x.chain * x.n_micro;
    t.at = hsp_arena_array(arena, (size_t)t.n_stages * t.n_passes, sizeof *t.at);
    x.stage = calloc(s->n_stages, sizeof *x.stage);
    x.end[0] = calloc(2 * n, sizeof *x.end[0]);
    enum hsp_status rc = HSP_OK;
    if (t.at == NULL || x.stage == NULL || x.end[0] == NULL) {
        rc = hsp_err_nomem(err, "timeline of %u passes", t.n_passes);
    } else {
        x.end[1] = x.end[0] + n;
        for (size_t i = 0; i < 2 * n; i++) {
            x.end[0][i] = -1;
        }
        rc = list_units(&x, n_eval);
        rc = rc == HSP_OK ? run(&x) : rc;
    }
    free(x.stage);
    free(x.end[0]);
    if (rc == HSP_OK) {
        *ret = t;
    }
    return rc;
}

enum hsp_status hsp_timeline_make(const struct hsp_pipeline *s, const struct hsp_pass_costs *costs,
                                  struct hsp_arena *arena, struct hsp_timeline *ret,
                                  struct hsp_err *err)
{
    return make(s, 0, costs, arena, ret, err);
}

enum hsp_status hsp_timeline_eval(const struct hsp_pipeline *s, uint32_t n_micro,
                                  const struct hsp_pass_costs *costs, struct hsp_arena *arena,
                                  struct hsp_timeline *ret, struct hsp_err *err)
{
    *ret = (struct hsp_timeline){.n_stages = s->n_stages};
    return n_micro > 0 ? make(s, n_micro, costs, arena, ret, err) : HSP_OK;
}
