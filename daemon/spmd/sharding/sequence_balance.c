#include "daemon/spmd/sharding/sequence_balance.h"

#include "daemon/spmd/sharding/pipeline_units.h"
#include "proto/op/op.h"

/* Operations of a stage on one sequence. */
struct work {
    double position; /* for each position */
    double pair;     /* for each query and a key before it */
    int64_t length;
};

/* Of the first @n positions. */
static double work_until(const struct work *w, int64_t n)
{
    return w->position * (double)n + w->pair * hsp_causal_pairs(0, n, 0, n);
}

/* Adds node @n on one sequence. */
static enum hsp_status add_node(const struct hsp_graph *g, const struct hsp_node *n, struct work *w,
                                struct hsp_err *err)
{
    enum hsp_op op = (enum hsp_op)n->op;
    bool attention = op == HSP_OP_ATTENTION || op == HSP_OP_ATTENTION_BWD ||
                     op == HSP_OP_PACKED_ATTENTION || op == HSP_OP_PACKED_ATTENTION_BWD;
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES];
    struct hsp_axes ax;
    for (uint8_t i = 0; i < n->n_in; i++) {
        hsp_tensor_extents(g, n->in[i], 1, in[i]);
    }
    uint8_t rank = g->tensors[n->in[op == HSP_OP_BROADCAST ? 1 : 0]].rank;
    enum hsp_status rc = hsp_op_axes(op, &n->at, rank, &ax, err);
    if (rc == HSP_OK) {
        rc = hsp_op_extents(op, &n->at, &ax, in, axis, err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    double flops = hsp_op_flops(op, &n->at, axis, &ax);
    if (attention && n->at.i[1] != 0) {
        w->pair += flops / hsp_causal_pairs(0, w->length, 0, w->length);
    } else {
        w->position += flops / (double)w->length;
    }
    return HSP_OK;
}

static enum hsp_status stage_work(const struct hsp_graph *g, const struct hsp_pipeline *s,
                                  uint32_t stage, struct work *ret, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    *ret = (struct work){.length = g->spec.sequence};
    for (uint32_t i = 0; rc == HSP_OK && i < g->n_nodes; i++) {
        uint32_t at, chunk;
        hsp_place_of_unit(s, g->nodes[i].layer, &at, &chunk);
        rc = at == stage ? add_node(g, &g->nodes[i], ret, err) : HSP_OK;
    }
    return rc;
}

/* The first positions whose work comes closest to @want. */
static int64_t cut_at(const struct work *w, double want)
{
    int64_t lo = 0, hi = w->length; /* work_until(lo) <= want < work_until(hi), or the end */
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (work_until(w, mid) <= want) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return want - work_until(w, lo) <= work_until(w, hi) - want ? lo : hi;
}

/* Lengths in place of the weights of @t. */
static enum hsp_status set_lengths(const struct work *w, struct hsp_stage *t,
                                   struct hsp_arena *arena, struct hsp_err *err)
{
    int64_t *length = hsp_arena_array(arena, t->n_groups, sizeof *length);
    double sum = 0, before = 0;
    if (length == NULL) {
        return hsp_err_nomem(err, "lengths of groups");
    }
    for (uint32_t i = 0; i < t->n_groups; i++) {
        sum += (double)t->group_shares[i];
    }
    int64_t at = 0;
    for (uint32_t i = 0; i < t->n_groups; i++) {
        before += (double)t->group_shares[i];
        int64_t end =
            before < sum ? cut_at(w, work_until(w, w->length) * (before / sum)) : w->length;
        length[i] = end - at;
        at = end;
    }
    t->group_shares = length;
    t->by_work = false;
    return HSP_OK;
}

static bool by_work(const struct hsp_plan *p)
{
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        for (uint32_t j = 0; j < p->pipelines[i].n_stages; j++) {
            if (p->pipelines[i].stages[j].by_work) {
                return true;
            }
        }
    }
    return false;
}

enum hsp_status hsp_plan_lengths(const struct hsp_plan *p, const struct hsp_graph *g,
                                 struct hsp_arena *arena, const struct hsp_plan **ret,
                                 struct hsp_err *err)
{
    *ret = p;
    if (!by_work(p)) {
        return HSP_OK;
    }
    struct hsp_plan *q = hsp_arena_memdup(arena, p, sizeof *q);
    struct hsp_pipeline *s = hsp_arena_memdup(arena, p->pipelines, p->n_pipelines * sizeof *s);
    enum hsp_status rc = HSP_OK;
    if (q == NULL || s == NULL) {
        return hsp_err_nomem(err, "lengths of groups");
    }
    q->pipelines = s;
    for (uint32_t i = 0; i < q->n_pipelines; i++) {
        struct hsp_stage *t = hsp_arena_memdup(arena, s[i].stages, s[i].n_stages * sizeof *t);
        if (t == NULL) {
            return hsp_err_nomem(err, "lengths of groups");
        }
        s[i].stages = t;
        for (uint32_t j = 0; rc == HSP_OK && j < s[i].n_stages; j++) {
            struct work w;
            if (t[j].by_work) {
                rc = stage_work(g, &s[i], j, &w, err);
                rc = rc == HSP_OK ? set_lengths(&w, &t[j], arena, err) : rc;
            }
        }
    }
    *ret = q;
    return rc;
}
