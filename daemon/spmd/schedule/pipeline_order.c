#include "daemon/spmd/schedule/pipeline_order.h"

#include <stdlib.h>

#include "proto/base/check.h"

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* Micro-batches pass through the chunks in groups. */
struct groups {
    uint32_t n_micro, n_chunks;
    uint32_t n; /* groups; the first n_micro % n of them have one micro-batch more */
};

static uint32_t group_first(const struct groups *g, uint32_t group)
{
    return group * (g->n_micro / g->n) + least(group, g->n_micro % g->n);
}

static uint32_t group_size(const struct groups *g, uint32_t group)
{
    return group_first(g, group + 1) - group_first(g, group);
}

/* Where the passes of one direction stand: chunk by chunk through the group. */
struct walk {
    uint32_t group, chunk, at;
};

/* The next pass; @back: the last chunk comes first. */
static struct hsp_pass next_pass(const struct groups *g, struct walk *w, uint8_t kind, bool back)
{
    struct hsp_pass u = {.kind = kind,
                         .chunk = back ? g->n_chunks - 1 - w->chunk : w->chunk,
                         .micro = group_first(g, w->group) + w->at};
    if (++w->at == group_size(g, w->group)) {
        w->at = 0;
        if (++w->chunk == g->n_chunks) {
            w->chunk = 0;
            w->group++;
        }
    }
    return u;
}

static struct groups groups_of(const struct hsp_pipeline *s, uint32_t n_micro)
{
    struct groups g = {.n_micro = n_micro, .n_chunks = hsp_pipeline_chunks(s), .n = n_micro};
    if (g.n_chunks > 1) {
        g.n = n_micro < s->n_stages ? 1 : n_micro / s->n_stages;
    }
    return g;
}

/* Forward passes before the first backward one. */
static uint32_t passes_ahead(const struct hsp_pipeline *s, uint32_t stage, const struct groups *g)
{
    uint64_t behind = s->n_stages - 1 - stage, all = (uint64_t)g->n_micro * g->n_chunks;
    if (s->schedule == HSP_SCHED_GPIPE) {
        return (uint32_t)all;
    }
    return g->n_chunks == 1
               ? least(behind, all)
               : least(2 * behind + (uint64_t)(g->n_chunks - 1) * group_size(g, 0), all);
}

uint32_t hsp_order_count(const struct hsp_pipeline *s)
{
    uint32_t passes = s->schedule == HSP_SCHED_ZERO_BUBBLE ? 3 : 2;
    return passes * s->micro_batches * hsp_pipeline_chunks(s);
}

/* Calls @put for each pass in order. */
static void play(const struct hsp_pipeline *s, uint32_t stage, void *ctx,
                 void (*put)(void *ctx, struct hsp_pass u))
{
    bool split = s->schedule == HSP_SCHED_ZERO_BUBBLE;
    struct groups g = groups_of(s, s->micro_batches);
    struct walk forward = {0}, backward = {0}, weights = {0};
    uint32_t all = g.n_micro * g.n_chunks, ahead = passes_ahead(s, stage, &g);
    for (uint32_t i = 0; i < ahead; i++) {
        put(ctx, next_pass(&g, &forward, HSP_SEG_FORWARD, false));
    }
    for (uint32_t i = 0; i < all; i++) {
        if (ahead + i < all) {
            put(ctx, next_pass(&g, &forward, HSP_SEG_FORWARD, false));
        }
        put(ctx, next_pass(&g, &backward, split ? HSP_SEG_INPUT_GRAD : HSP_SEG_BACKWARD, true));
        if (split && i >= stage) {
            put(ctx, next_pass(&g, &weights, HSP_SEG_WEIGHT_GRAD, true));
        }
    }
    for (uint32_t i = least(all, stage); split && i > 0; i--) {
        put(ctx, next_pass(&g, &weights, HSP_SEG_WEIGHT_GRAD, true));
    }
}

struct list {
    struct hsp_pass *pass;
    uint32_t n;
};

static void put_unit(void *ctx, struct hsp_pass u)
{
    struct list *l = ctx;
    l->pass[l->n++] = u;
}

void hsp_order_passes(const struct hsp_pipeline *s, uint32_t stage, struct hsp_pass *ret)
{
    struct list l = {.pass = ret};
    play(s, stage, &l, put_unit);
    HSP_ASSERT(l.n == hsp_order_count(s));
}

struct living {
    uint32_t chunk, n, most;
    uint8_t last; /* kind of pass that ends a life */
};

static void count_life(void *ctx, struct hsp_pass u)
{
    struct living *l = ctx;
    if (u.chunk != l->chunk) {
        return;
    }
    l->n += u.kind == HSP_SEG_FORWARD ? 1 : 0;
    l->most = l->n > l->most ? l->n : l->most;
    l->n -= u.kind == l->last ? 1 : 0;
}

uint32_t hsp_order_alive(const struct hsp_pipeline *s, uint32_t stage, uint32_t chunk)
{
    bool split = s->schedule == HSP_SCHED_ZERO_BUBBLE;
    struct living l = {.chunk = chunk, .last = split ? HSP_SEG_WEIGHT_GRAD : HSP_SEG_BACKWARD};
    play(s, stage, &l, count_life);
    return l.most;
}

uint32_t hsp_order_waiting(const struct hsp_pipeline *s, uint32_t stage)
{
    bool none = s->schedule != HSP_SCHED_ZERO_BUBBLE || stage == 0;
    return none ? 0 : least(s->micro_batches, (uint64_t)stage + 1);
}

uint32_t hsp_order_room(const struct hsp_pipeline *s)
{
    return s->n_stages * hsp_pipeline_chunks(s) + 1;
}

uint32_t hsp_order_kept(const struct hsp_pipeline *s, uint32_t stage, bool back)
{
    struct groups g = groups_of(s, s->micro_batches);
    uint64_t all = (uint64_t)g.n_micro * g.n_chunks;
    uint64_t ahead = back && s->schedule != HSP_SCHED_GPIPE ? 1 : passes_ahead(s, stage, &g);
    return least(least(ahead + 1, all), hsp_order_room(s));
}

enum hsp_status hsp_order_make(const struct hsp_pipeline *s, uint32_t stage, uint32_t eval_n_micro,
                               struct hsp_pipeline_order *ret, struct hsp_err *err)
{
    struct groups g = groups_of(s, eval_n_micro);
    struct walk w = {0};
    struct hsp_pipeline_order o = {.n_train = hsp_order_count(s),
                                   .n_eval = eval_n_micro * g.n_chunks};
    o.train = calloc((size_t)o.n_train + 1, sizeof *o.train);
    o.eval = calloc((size_t)o.n_eval + 1, sizeof *o.eval);
    if (o.train == NULL || o.eval == NULL) {
        hsp_order_fini(&o);
        return hsp_err_nomem(err, "order of %u passes", o.n_train);
    }
    hsp_order_passes(s, stage, o.train);
    for (uint32_t i = 0; i < o.n_eval; i++) {
        o.eval[i] = next_pass(&g, &w, HSP_SEG_EVAL, false);
    }
    *ret = o;
    return HSP_OK;
}

void hsp_order_fini(struct hsp_pipeline_order *o)
{
    free(o->train);
    free(o->eval);
    *o = (struct hsp_pipeline_order){0};
}
