#include "daemon/spmd/lower/lower_pipeline.h"

#include <string.h>

#include "daemon/spmd/lower/node_deduce.h"
#include "daemon/spmd/lower/node_place.h"
#include "daemon/spmd/lower/place_reductions.h"
#include "daemon/spmd/lower/recompute.h"
#include "daemon/spmd/lower/ring_attention.h"
#include "daemon/spmd/lower/tensor_versions.h"
#include "daemon/spmd/sharding/activation_rest.h"
#include "proto/base/check.h"

/* Completes @v, a sum, where it is needed as a value: the result lies as its tensor rests. */
static enum hsp_status completed(struct hsp_compiler *c, const struct hsp_stagecode *s, uint32_t v,
                                 struct hsp_layout *ret, struct hsp_err *err)
{
    struct hsp_layout rest;
    struct hsp_tiers tiers = hsp_stage_tiers(s->group);
    enum hsp_status rc =
        hsp_tensor_rest(c->g, s->group, s->value[v].tensor, s->bound, c->arena, &rest, err);
    return rc == HSP_OK ? hsp_layout_complete(&s->value[v].at, &rest, &tiers, c->arena, ret, err)
                        : rc;
}

/* Sends the tensor to stage @to, for part @part, from its version on stage @from. It leaves in the
 * part that made it. */
static enum hsp_status send_tensor(struct hsp_compiler *c, struct hsp_stagecode *from,
                                   struct hsp_stagecode *to, uint32_t part, uint32_t tensor,
                                   uint32_t *ret, struct hsp_err *err)
{
    uint32_t v = hsp_version_best(from, tensor), made = hsp_part_making(from, v);
    struct hsp_layout at;
    struct hsp_cover src, dst;
    struct hsp_step st = hsp_step_make(HSP_I_RESHARD, HSP_QUEUE_COMM);
    enum hsp_status rc = HSP_OK;
    if (hsp_layout_partial(&from->value[v].at)) {
        rc = completed(c, from, v, &at, err);
        if (rc == HSP_OK) {
            rc = hsp_version_want(c, from, made, tensor, &at, &v, err);
        }
    }
    if (rc == HSP_OK) {
        rc = hsp_tensor_rest(c->g, to->group, tensor, to->bound, c->arena, &at, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_value_version(c, to, tensor, "", &at, ret, err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    const struct hsp_value *f = &from->value[v];
    hsp_cover_init(&src, at.rank, at.extent);
    hsp_cover_init(&dst, at.rank, at.extent);
    rc = hsp_value_cover(from, f, false, &src, err);
    if (rc == HSP_OK) {
        rc = hsp_value_cover(to, &to->value[*ret], false, &dst, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_reshard_add(c, f->name, f->batch_dim0, false, &src, &dst, &st.arg, err);
    }
    hsp_cover_fini(&src);
    hsp_cover_fini(&dst);
    struct hsp_step recv = st;
    st.n_in = recv.n_out = 1;
    st.in[0] = v;
    recv.out[0] = *ret;
    if (rc == HSP_OK) {
        rc = hsp_step_add(from, made, hsp_step_after(from, made, v), &st, err);
    }
    return rc == HSP_OK ? hsp_step_add(to, part, SIZE_MAX, &recv, err) : rc;
}

/* The layout of @tensor on stage @s: its first complete version, which is sent there if need be. A
 * tensor that is read rests in the stage's layout, until it is needed in another one. */
static enum hsp_status held(struct hsp_compiler *c, uint32_t pipeline, struct hsp_stagecode *s,
                            uint32_t part, uint32_t tensor, struct hsp_layout *ret,
                            struct hsp_err *err)
{
    uint32_t v = hsp_version_best(s, tensor);
    enum hsp_status rc = HSP_OK;
    if (v == HSP_NONE && hsp_tensor_is_read(c, tensor)) {
        return hsp_tensor_rest(c->g, s->group, tensor, s->bound, c->arena, ret, err);
    }
    if (v == HSP_NONE) {
        uint32_t node = c->g->tensors[tensor].producer, made;
        HSP_ASSERT(node != HSP_NONE); /* uses of parameters exist from the start */
        struct hsp_stagecode *from = hsp_node_place(c, pipeline, &c->g->nodes[node], &made);
        HSP_ASSERT(from != s);
        rc = send_tensor(c, from, s, part, tensor, &v, err);
    }
    if (rc == HSP_OK) {
        *ret = s->value[v].at;
    }
    return rc;
}

/* Several gradients of one parameter meet in the layout of its use, so that they can share the
 * accumulator; between groups it stays a sum. */
static enum hsp_status meet(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                            uint32_t param, uint32_t *v, struct hsp_err *err)
{
    const struct hsp_value *use = &s->value[s->version[c->g->params[param].tensor]];
    struct hsp_tiers tiers = hsp_stage_tiers(s->group);
    uint8_t partial = tiers.n_groups > 1 ? HSP_OVER_GROUPS : 0;
    uint32_t tensor = s->value[*v].tensor;
    struct hsp_layout at;
    enum hsp_status rc = hsp_layout_sum(&use->at, partial, &tiers, c->arena, &at, err);
    if (rc == HSP_OK && partial != 0 && (s->value[*v].at.partial & partial) == 0) {
        rc = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s is the same on all groups of the stage",
                         s->value[*v].name);
    }
    if (rc == HSP_OK && partial == 0 && hsp_layout_partial(&s->value[*v].at)) {
        struct hsp_layout sum;
        rc = hsp_layout_complete(&s->value[*v].at, NULL, &tiers, c->arena, &sum, err);
        if (rc == HSP_OK) {
            rc = hsp_version_want(c, s, part, tensor, &sum, v, err);
        }
    }
    return rc == HSP_OK ? hsp_version_want(c, s, part, tensor, &at, v, err) : rc;
}

/* Adds gradient @v of @part to the accumulator of its parameter. */
static enum hsp_status accumulate(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                                  uint32_t v, struct hsp_err *err)
{
    uint32_t param = c->grad_of[s->value[v].tensor];
    const struct hsp_tensor *pt = &c->g->tensors[c->g->params[param].tensor];
    enum hsp_status rc = HSP_OK;
    if (hsp_grads_here(c, s, param) > 1) {
        rc = meet(c, s, part, param, &v, err);
    }
    if (rc == HSP_OK && s->acc[param] == HSP_NONE) {
        struct hsp_value acc = s->value[v];
        acc.cls = HSP_CLASS_STEP;
        acc.tensor = acc.next = HSP_NONE;
        acc.param = param;
        acc.parts = 0;
        acc.name = hsp_arena_printf(c->arena, "%s#acc", pt->name);
        if (acc.name == NULL) {
            return hsp_err_nomem(err, "accumulator of %s", pt->name);
        }
        rc = hsp_value_add(s, &acc, &s->acc[param], err);
        struct hsp_step zero = hsp_step_make(HSP_I_ZERO, HSP_QUEUE_COMPUTE);
        zero.n_out = 1;
        zero.out[0] = s->acc[param];
        if (rc == HSP_OK) {
            rc = hsp_step_add(s, HSP_PART_PRE, SIZE_MAX, &zero, err);
        }
    }
    struct hsp_step st = hsp_step_make(HSP_I_ACC, HSP_QUEUE_COMPUTE);
    st.n_in = st.n_out = 1;
    st.in[0] = v;
    st.out[0] = s->acc[param];
    return rc == HSP_OK ? hsp_step_add(s, part, SIZE_MAX, &st, err) : rc;
}

/* Values for the results of @node. */
static enum hsp_status make_results(struct hsp_compiler *c, struct hsp_stagecode *s,
                                    const struct hsp_node *n, const struct hsp_deduced *d,
                                    struct hsp_step *st, struct hsp_err *err)
{
    for (uint8_t o = 0; o < n->n_out; o++) {
        enum hsp_status rc;
        if (n->out[o] != HSP_NONE) {
            rc = hsp_value_version(c, s, n->out[o], "", &d->out[o], &st->out[o], err);
        } else { /* the kernel writes it, nobody reads it */
            const struct hsp_value *like = &s->value[st->in[0]];
            enum hsp_dtype real = hsp_node_real(c->g, n);
            uint8_t operand = (uint8_t)(n->n_in + o);
            struct hsp_value v = {.dtype = (uint8_t)hsp_op_dtype((enum hsp_op)n->op, operand, real),
                                  .cls = HSP_CLASS_MICRO,
                                  .at = d->out[o],
                                  .tensor = HSP_NONE,
                                  .next = HSP_NONE,
                                  .param = HSP_NONE,
                                  .alias = HSP_NONE,
                                  .batch_dim0 = like->batch_dim0,
                                  .batch_fixed = like->batch_fixed};
            v.name = hsp_arena_printf(c->arena, "%s#unused%u", like->name, o);
            if (v.name == NULL) {
                return hsp_err_nomem(err, "results of %s", hsp_op_name((enum hsp_op)n->op));
            }
            rc = hsp_value_add(s, &v, &st->out[o], err);
        }
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return hsp_step_origins(s, st, err);
}

/* The step of @n whose operands and results are as @d says. */
static enum hsp_status lower_step(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t part,
                                  uint32_t node, const struct hsp_deduced *d, struct hsp_err *err)
{
    const struct hsp_node *n = &c->g->nodes[node];
    struct hsp_step st = hsp_step_make(HSP_I_OP, HSP_QUEUE_COMPUTE);
    enum hsp_status rc = HSP_OK;
    for (uint8_t i = 0; rc == HSP_OK && i < n->n_in; i++) {
        rc = hsp_version_want(c, s, part, n->in[i], &d->need[i], &st.in[i], err);
    }
    st.op = n->op;
    st.n_in = n->n_in;
    st.n_out = n->n_out;
    st.node = node;
    st.at = n->at;
    if (rc == HSP_OK) {
        rc = make_results(c, s, n, d, &st, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_step_add(s, part, SIZE_MAX, &st, err);
    }
    for (uint8_t o = 0; rc == HSP_OK && o < n->n_out; o++) {
        if (n->out[o] != HSP_NONE && c->grad_of[n->out[o]] != HSP_NONE) {
            rc = accumulate(c, s, part, st.out[o], err);
        }
    }
    return rc;
}

static enum hsp_status lower_node(struct hsp_compiler *c, uint32_t pipeline, uint32_t node,
                                  struct hsp_err *err)
{
    const struct hsp_node *n = &c->g->nodes[node];
    uint32_t part;
    struct hsp_stagecode *s = hsp_node_place(c, pipeline, n, &part);
    struct hsp_layout in[HSP_MAX_IN];
    struct hsp_deduced d;
    bool ring = false;
    enum hsp_status rc = HSP_OK;
    for (uint8_t i = 0; rc == HSP_OK && i < n->n_in; i++) {
        rc = held(c, pipeline, s, part, n->in[i], &in[i], err);
    }
    if (rc == HSP_OK && c->forced != NULL) {
        rc = hsp_operands_force(c, s, n, &c->forced[node], in, err);
    }
    if (rc == HSP_OK) {
        rc = hsp_node_deduce(c, s, n, in, c->values_first[node], &d, &ring, err);
    }
    if (rc == HSP_OK) {
        rc = ring ? hsp_ring_lower(c, s, part, node, &d, err)
                  : lower_step(c, s, part, node, &d, err);
    }
    if (rc != HSP_OK) {
        (void)hsp_err_wrap(err, "pipeline %u stage %u, node %u (%s)", pipeline, s->stage, node,
                           hsp_op_name((enum hsp_op)n->op));
    }
    return rc;
}

/* A scalar of the forward pass counted once; of a sum, each addend once: by the smallest rank of
 * the stage that holds it. */
static enum hsp_status count_scalar(struct hsp_compiler *c, uint32_t pipeline, uint32_t tensor,
                                    enum hsp_stat stat, struct hsp_err *err)
{
    uint32_t part;
    const struct hsp_node *node = &c->g->nodes[c->g->tensors[tensor].producer];
    struct hsp_stagecode *s = hsp_node_place(c, pipeline, node, &part);
    struct hsp_step st = hsp_step_make(HSP_I_STAT, HSP_QUEUE_COMPUTE);
    enum hsp_status rc = HSP_OK;
    st.n_in = 1;
    st.in[0] = hsp_version_best(s, tensor);
    st.arg = stat;
    const struct hsp_layout at = s->value[st.in[0]].at;
    for (uint32_t first = 0; rc == HSP_OK && first < at.n; first++) {
        if (at.addend[first] != first) {
            continue;
        }
        st.only = first;
        for (uint32_t j = first + 1; j < at.n; j++) {
            bool less = s->group->ranks[j] < s->group->ranks[st.only];
            st.only = at.addend[j] == first && less ? j : st.only;
        }
        rc = hsp_step_add(s, part, SIZE_MAX, &st, err);
    }
    return rc;
}

/* ---- Eval: Forward again, with tensors and channels of its own ---- */

static enum hsp_status eval_value(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t *map,
                                  uint32_t *v, struct hsp_err *err)
{
    if (map[*v] == HSP_NONE) {
        struct hsp_value copy = s->value[*v];
        if (copy.cls != HSP_CLASS_MICRO) {
            map[*v] = *v; /* parameters are shared */
        } else {
            copy.parts = 0;
            copy.next = HSP_NONE;
            copy.name = hsp_arena_printf(c->arena, "%s%s", copy.name,
                                         strchr(copy.name, '#') != NULL ? ".eval" : "#eval");
            if (copy.name == NULL) {
                return hsp_err_nomem(err, "values of eval");
            }
            enum hsp_status rc = hsp_value_add(s, &copy, &map[*v], err);
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    *v = map[*v];
    return HSP_OK;
}

/* @clone: per reshard of Forward its copy, shared by the stages. @map: per value its copy. */
static enum hsp_status eval_chunk(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t chunk,
                                  uint32_t *clone, uint32_t *map, struct hsp_err *err)
{
    const struct hsp_code *from = &s->part[hsp_part_at(HSP_PART_FORWARD, chunk)];
    enum hsp_status rc = HSP_OK;
    for (size_t i = 0; rc == HSP_OK && i < from->n; i++) {
        struct hsp_step st = from->step[i];
        for (uint8_t k = 0; rc == HSP_OK && k < st.n_in; k++) {
            rc = eval_value(c, s, map, &st.in[k], err);
        }
        for (uint8_t k = 0; rc == HSP_OK && k < st.n_out; k++) {
            rc = eval_value(c, s, map, &st.out[k], err);
        }
        for (int k = 0; rc == HSP_OK && k < 2; k++) {
            if (st.origin_value[k] != HSP_NONE) {
                rc = eval_value(c, s, map, &st.origin_value[k], err);
            }
        }
        if (rc == HSP_OK && st.kind == HSP_I_RESHARD) {
            if (clone[st.arg] == HSP_NONE) {
                rc = hsp_reshard_clone(c, st.arg, &clone[st.arg], err);
            }
            st.arg = clone[st.arg];
        } else if (st.kind == HSP_I_STAT) {
            st.arg = st.arg == HSP_STAT_LOSS ? HSP_STAT_EVAL_LOSS : HSP_STAT_EVAL_TOKENS;
        }
        if (rc == HSP_OK) {
            rc = hsp_step_add(s, hsp_part_at(HSP_PART_EVAL, chunk), SIZE_MAX, &st, err);
        }
    }
    return rc;
}

static enum hsp_status make_eval(struct hsp_compiler *c, struct hsp_stagecode *s, uint32_t *clone,
                                 struct hsp_err *err)
{
    uint32_t *map = hsp_arena_array(c->arena, s->n_values, sizeof *map);
    enum hsp_status rc = HSP_OK;
    if (map == NULL) {
        return hsp_err_nomem(err, "values of eval");
    }
    memset(map, 0xff, s->n_values * sizeof *map); /* HSP_NONE */
    for (uint32_t i = 0; rc == HSP_OK && i < s->n_chunks; i++) {
        rc = eval_chunk(c, s, i, clone, map, err);
    }
    return rc;
}

enum hsp_status hsp_lower_pipeline(struct hsp_compiler *c, uint32_t pipeline, struct hsp_err *err)
{
    c->values_first = c->forced_first;
    enum hsp_status rc =
        c->values_first != NULL ? HSP_OK : hsp_sums_place(c, pipeline, &c->values_first, err);
    for (uint32_t i = 0; rc == HSP_OK && i < c->g->n_nodes; i++) {
        rc = lower_node(c, pipeline, i, err);
    }
    if (rc == HSP_OK) {
        rc = count_scalar(c, pipeline, c->g->loss_sum, HSP_STAT_LOSS, err);
    }
    if (rc == HSP_OK) {
        rc = count_scalar(c, pipeline, c->g->n_valid, HSP_STAT_TOKENS, err);
    }
    for (uint32_t j = 0; rc == HSP_OK && j < c->p->pipelines[pipeline].n_stages; j++) {
        if (c->p->pipelines[pipeline].stages[j].saved == HSP_SAVED_RECOMPUTE) {
            rc = hsp_recompute_stage(c, &c->stage[c->first_stage[pipeline] + j], err);
        }
    }
    if (rc != HSP_OK || !c->eval) {
        return rc;
    }
    size_t n = c->n_reshards;
    uint32_t *clone = hsp_arena_array(c->arena, n, sizeof *clone);
    if (clone == NULL) {
        return hsp_err_nomem(err, "reshards of eval");
    }
    memset(clone, 0xff, n * sizeof *clone); /* HSP_NONE */
    for (uint32_t j = 0; rc == HSP_OK && j < c->p->pipelines[pipeline].n_stages; j++) {
        rc = make_eval(c, &c->stage[c->first_stage[pipeline] + j], clone, err);
    }
    return rc;
}
