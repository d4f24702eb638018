/* Plans pools of lengths. Where samples are documents a step has sequences as long as its longest
 * document. The plan for the job's longest sequences takes every step. Halves, quarters and so on
 * of that length get plans of their own where one is worth it: the planner's best plan for the
 * class, against the time of the plan for the next longer class for the same sequences. All run on
 * the devices of the longest. */
#include "daemon/planner/lengths.h"

#include "daemon/plan/pool_view.h"
#include "daemon/planner/planner.h"

#define SHORTEST 32   /* tokens: below that a step is hardly work */
#define CLASSES  6    /* shorter ones, at most */
#define WORTH    0.97 /* of the longer plan's time */

/* The devices of @p in the order of its ranks. */
static enum hsp_status own_cluster(const struct hsp_cluster_desc *c, const struct hsp_planned *p,
                                   struct hsp_arena *arena, struct hsp_cluster_desc *ret,
                                   struct hsp_err *err)
{
    uint32_t n = p->plan->n_ranks;
    struct hsp_device_desc *dev = hsp_arena_array(arena, n, sizeof(*dev));
    if (dev == NULL) {
        return hsp_err_nomem(err, "the plans of a pool");
    }
    for (uint32_t r = 0; r < n; r++) {
        dev[r] = c->dev[p->device[r]];
    }
    *ret = *c;
    ret->n = n;
    ret->dev = dev;
    return HSP_OK;
}

/* Rank r of the plan becomes device[r]: its place among the devices of the pool. */
static enum hsp_status renumber(struct hsp_planned *p, struct hsp_arena *arena, struct hsp_err *err)
{
    struct hsp_plan *plan = p->plan;
    int64_t *memory = hsp_arena_array(arena, plan->n_ranks, sizeof(*memory));
    if (memory == NULL) {
        return hsp_err_nomem(err, "the plans of a pool");
    }
    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        memory[p->device[r]] = plan->memory_bytes[r];
    }
    plan->memory_bytes = memory;
    for (uint32_t s = 0; s < plan->n_pipelines; s++) {
        for (uint32_t k = 0; k < plan->pipelines[s].n_stages; k++) {
            struct hsp_stage *g = &plan->pipelines[s].stages[k];
            for (uint32_t i = 0; i < g->n; i++) {
                g->ranks[i] = p->device[g->ranks[i]];
            }
        }
    }
    return HSP_OK;
}

/* A rank has memory for every plan of the pool, one at a time. */
static void raise_memory(struct hsp_planned *p, const struct hsp_plan *other)
{
    for (uint32_t r = 0; r < p->plan->n_ranks; r++) {
        int64_t need = other->memory_bytes[r];
        if (need > p->plan->memory_bytes[r]) {
            p->plan->memory_bytes[r] = p->cost.rank[r].total_bytes = need;
        }
    }
}

/* Gives each rank of @c the larger host memory of the two plans. */
static void raise_host(struct hsp_cost *c, const struct hsp_cost *other)
{
    for (uint32_t r = 0; r < c->n; r++) {
        int64_t need = other->rank[r].host_bytes;
        c->rank[r].host_bytes = need > c->rank[r].host_bytes ? need : c->rank[r].host_bytes;
    }
}

struct classes {
    const struct hsp_graph *g;
    const struct hsp_train_spec *t;
    const struct hsp_cluster_desc *c; /* the pool's devices, by rank */
    const struct hsp_plan_options *opts;
    struct hsp_arena *arena;
};

/* The plan for sequences of @length; *ret NULL: @longer does as well. */
static enum hsp_status plan_class(const struct classes *x, uint32_t length,
                                  const struct hsp_plan *longer, struct hsp_plan **ret,
                                  struct hsp_err *err)
{
    struct hsp_pool_view v;
    struct hsp_planned best, same;
    struct hsp_plan copy = *longer;
    copy.n_shorter = 0;
    copy.max_length = length;
    *ret = NULL;
    hsp_pool_view_make(x->g, x->t, &copy, NULL, &v);
    enum hsp_status st = hsp_make_one(&v.g, &v.t, x->c, x->opts, x->arena, &best, err);
    if (st == HSP_OK) {
        st = hsp_adopt_one(&v.g, &v.t, x->c, x->opts, &copy, x->arena, &same, err);
    }
    if (st == HSP_EINFEASIBLE || st == HSP_ENODEV) {
        return HSP_OK; /* none of its own */
    }
    if (st != HSP_OK || best.plan->n_ranks != longer->n_ranks ||
        best.cost.step_us > WORTH * same.cost.step_us) {
        return st;
    }
    best.plan->max_length = length;
    *ret = best.plan;
    return renumber(&best, x->arena, err);
}

enum hsp_status hsp_plan_make(const struct hsp_graph *g, const struct hsp_train_spec *t,
                              const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                              struct hsp_arena *arena, struct hsp_planned *ret, struct hsp_err *err)
{
    struct hsp_planned one;
    struct hsp_cluster_desc own;
    struct hsp_plan_options o = opts != NULL ? *opts : (struct hsp_plan_options){0};
    enum hsp_status st = hsp_make_one(g, t, c, opts, arena, &one, err);
    if (st != HSP_OK) {
        return st;
    }
    if (t->data.samples != HSP_SAMPLES_DOCUMENTS) {
        *ret = one;
        return HSP_OK;
    }
    o.excluded = NULL;
    o.homes = &one.cost;
    st = own_cluster(c, &one, arena, &own, err);
    const struct classes x = {.g = g, .t = t, .c = &own, .opts = &o, .arena = arena};
    struct hsp_plan *found[CLASSES], **list = hsp_arena_array(arena, CLASSES, sizeof(*list));
    const struct hsp_plan *longer = one.plan;
    uint32_t n = 0, length = t->data.sequence / 2;
    if (list == NULL) {
        return hsp_err_nomem(err, "the plans of a pool");
    }
    for (int k = 0; st == HSP_OK && k < CLASSES && length >= SHORTEST; k++, length /= 2) {
        st = plan_class(&x, length, longer, &found[n], err);
        if (st == HSP_OK && found[n] != NULL) {
            longer = found[n++];
            raise_memory(&one, longer);
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        list[k] = found[n - 1 - k];
    }
    if (st == HSP_OK) {
        one.plan->max_length = n > 0 ? t->data.sequence : 0;
        one.plan->n_shorter = n;
        one.plan->shorter = list;
        *ret = one;
    }
    return st;
}

enum hsp_status hsp_plan_adopt(const struct hsp_graph *g, const struct hsp_train_spec *t,
                               const struct hsp_cluster_desc *c,
                               const struct hsp_plan_options *opts, struct hsp_plan *plan,
                               struct hsp_arena *arena, struct hsp_planned *ret,
                               struct hsp_err *err)
{
    struct hsp_planned one;
    struct hsp_plan_options o = opts != NULL ? *opts : (struct hsp_plan_options){0};
    enum hsp_status st = hsp_adopt_one(g, t, c, opts, plan, arena, &one, err);
    struct hsp_plan *copy = hsp_arena_array(arena, plan->n_shorter, sizeof(*copy));
    struct hsp_plan **list = hsp_arena_array(arena, plan->n_shorter, sizeof(*list));
    if (st == HSP_OK && (copy == NULL || list == NULL)) {
        return hsp_err_nomem(err, "the plans of a pool");
    }
    for (uint32_t k = 0; st == HSP_OK && k < plan->n_shorter; k++) {
        struct hsp_pool_view v;
        struct hsp_planned other;
        o.homes = &one.cost;
        copy[k] = *plan->shorter[k];
        list[k] = &copy[k];
        hsp_pool_view_make(g, t, &copy[k], NULL, &v);
        st = hsp_adopt_one(&v.g, &v.t, c, &o, &copy[k], arena, &other, err);
        if (st == HSP_OK) {
            raise_memory(&one, &copy[k]);
            raise_host(&one.cost, &other.cost);
        } else {
            st = hsp_err_wrap(err, "plan for %u tokens", copy[k].max_length);
        }
    }
    if (st == HSP_OK) {
        plan->shorter = list;
        *ret = one;
    }
    return st;
}
