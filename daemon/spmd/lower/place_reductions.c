/* Finds the sums of a pipeline, the ops that may take them on, and the cost of completing them:
 * layouts of all tensors as they are when every sum goes as far as it can. */
#include "daemon/spmd/lower/place_reductions.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/lower/node_deduce.h"
#include "daemon/spmd/lower/node_place.h"
#include "daemon/spmd/lower/reduction_mincut.h"
#include "daemon/spmd/sharding/activation_rest.h"
#include "proto/base/vec.h"

#define MAX_USES ((size_t)HSP_MAX_INSTRS * HSP_MAX_IN)

struct placing {
    struct hsp_compiler *c;
    uint32_t pipeline;
    struct hsp_layout *at; /* [tensor]: on the stage that makes it */
    uint32_t *sum_of;      /* [tensor]: HSP_NONE */
    uint32_t *op_of;       /* [node]: number among those that may take sums on, HSP_NONE */
    uint32_t n_ops;
    struct hsp_sum_place *sum; /* owned */
    size_t n_sums, cap_sums;
    struct hsp_sum_use *use; /* owned */
    size_t n_uses, cap_uses;
};

/* How stage @s holds operand @tensor. */
static enum hsp_status operand(struct placing *x, const struct hsp_stagecode *s, uint32_t tensor,
                               struct hsp_layout *ret, struct hsp_err *err)
{
    const struct hsp_tensor *t = &x->c->g->tensors[tensor];
    uint32_t part;
    if (t->kind == HSP_TENSOR_PARAM) {
        *ret = s->value[s->version[tensor]].at;
        return HSP_OK;
    }
    bool here = t->producer != HSP_NONE &&
                hsp_node_place(x->c, x->pipeline, &x->c->g->nodes[t->producer], &part) == s;
    if (here) {
        *ret = x->at[tensor];
        return HSP_OK;
    }
    if (x->sum_of[tensor] != HSP_NONE) { /* it is complete when it leaves its stage */
        x->sum[x->sum_of[tensor]].needed = true;
    }
    return hsp_tensor_rest(x->c->g, s->group, tensor, s->bound, x->c->arena, ret, err);
}

static int64_t bytes_of(const struct placing *x, const struct hsp_stagecode *s, uint32_t tensor)
{
    const struct hsp_tensor *t = &x->c->g->tensors[tensor];
    int64_t ext[HSP_MAX_RANK], n = (int64_t)hsp_dtype_size((enum hsp_dtype)t->dtype);
    hsp_tensor_extents(x->c->g, tensor, s->bound, ext);
    for (uint8_t d = 0; d < t->rank; d++) {
        n *= ext[d];
    }
    return n;
}

/* Result @tensor of an op is a sum; @maker as in hsp_sum_place. */
static enum hsp_status add_sum(struct placing *x, const struct hsp_stagecode *s, uint32_t tensor,
                               uint32_t maker, struct hsp_err *err)
{
    if (!hsp_grow(&x->sum, &x->cap_sums, x->n_sums + 1, sizeof *x->sum, HSP_MAX_TENSORS)) {
        return hsp_grow_error(x->n_sums + 1, HSP_MAX_TENSORS, "sums of a pipeline", err);
    }
    struct hsp_sum_place *sum = &x->sum[x->n_sums];
    uint32_t param = x->c->grad_of[tensor];
    bool several = param != HSP_NONE && hsp_grads_here(x->c, s, param) > 1;
    *sum = (struct hsp_sum_place){.maker = maker, .needed = several};
    sum->complete = bytes_of(x, s, tensor) * x->c->p->pipelines[x->pipeline].micro_batches;
    x->sum_of[tensor] = (uint32_t)x->n_sums++;
    return HSP_OK;
}

static enum hsp_status add_use(struct placing *x, uint32_t tensor, uint32_t op, struct hsp_err *err)
{
    if (!hsp_grow(&x->use, &x->cap_uses, x->n_uses + 1, sizeof *x->use, MAX_USES)) {
        return hsp_grow_error(x->n_uses + 1, MAX_USES, "uses of sums", err);
    }
    x->use[x->n_uses++] = (struct hsp_sum_use){x->sum_of[tensor], op};
    return HSP_OK;
}

/* Notes the readers of the sums among the operands of @node. *ret_taken: tiers of the sum it may
 * take on. */
static enum hsp_status read_sums(struct placing *x, uint32_t node, const struct hsp_layout *in,
                                 const struct hsp_layout *need, uint8_t *ret_taken,
                                 struct hsp_err *err)
{
    const struct hsp_node *n = &x->c->g->nodes[node];
    enum hsp_status rc = HSP_OK;
    bool kept = true;
    *ret_taken = 0;
    for (uint8_t i = 0; i < n->n_in; i++) {
        *ret_taken |= in[i].partial;
        kept = kept && need[i].partial == in[i].partial;
    }
    *ret_taken = kept ? *ret_taken : 0;
    x->op_of[node] = *ret_taken != 0 ? x->n_ops++ : HSP_NONE;
    for (uint8_t i = 0; rc == HSP_OK && i < n->n_in; i++) {
        if (in[i].partial != 0 && *ret_taken != 0) {
            rc = add_use(x, n->in[i], x->op_of[node], err);
        } else if (in[i].partial != 0) {
            x->sum[x->sum_of[n->in[i]]].needed = true;
        }
    }
    return rc;
}

/* Attention by blocks adds up its result of each block: results are held as the operands are. */
static void settle_ring(const struct hsp_node *n, const struct hsp_layout *in,
                        struct hsp_deduced *d)
{
    for (uint8_t o = 0; o < n->n_out; o++) {
        for (uint8_t i = 0; d->out[o].partial != 0 && i < n->n_in; i++) {
            if (in[i].rank == d->out[o].rank &&
                memcmp(in[i].extent, d->out[o].extent, sizeof in[i].extent) == 0) {
                d->out[o] = in[i];
            }
        }
    }
}

static enum hsp_status take_node(struct placing *x, uint32_t node, struct hsp_err *err)
{
    const struct hsp_node *n = &x->c->g->nodes[node];
    struct hsp_layout in[HSP_MAX_IN], held[HSP_MAX_IN];
    struct hsp_deduced d;
    uint32_t part;
    uint8_t taken = 0;
    bool ring = false;
    const struct hsp_stagecode *s = hsp_node_place(x->c, x->pipeline, n, &part);
    enum hsp_status rc = HSP_OK;
    for (uint8_t i = 0; rc == HSP_OK && i < n->n_in; i++) {
        rc = operand(x, s, n->in[i], &in[i], err);
        held[i] = in[i];
    }
    if (rc == HSP_OK) {
        rc = hsp_node_deduce(x->c, s, n, in, false, &d, &ring, err);
    }
    if (rc == HSP_OK && ring) {
        settle_ring(n, held, &d);
    }
    if (rc == HSP_OK) {
        rc = read_sums(x, node, in, d.need, &taken, err);
    }
    for (uint8_t o = 0; rc == HSP_OK && o < n->n_out; o++) {
        if (n->out[o] == HSP_NONE) {
            continue;
        }
        x->at[n->out[o]] = d.out[o];
        if (d.out[o].partial != 0) {
            bool passed = taken != 0 && (d.out[o].partial & ~taken) == 0;
            rc = add_sum(x, s, n->out[o], passed ? x->op_of[node] : HSP_NONE, err);
        }
    }
    return rc;
}

static enum hsp_status place(struct placing *x, bool *first, struct hsp_err *err)
{
    const struct hsp_graph *g = x->c->g;
    struct hsp_arena *arena = x->c->arena;
    enum hsp_status rc = HSP_OK;
    x->at = hsp_arena_array(arena, g->n_tensors, sizeof *x->at);
    x->sum_of = hsp_arena_array(arena, g->n_tensors, sizeof *x->sum_of);
    x->op_of = hsp_arena_array(arena, g->n_nodes, sizeof *x->op_of);
    bool *cut = hsp_arena_array(arena, g->n_nodes, sizeof *cut);
    if (x->at == NULL || x->sum_of == NULL || x->op_of == NULL || cut == NULL) {
        return hsp_err_nomem(err, "places of sums");
    }
    memset(x->sum_of, 0xff, g->n_tensors * sizeof *x->sum_of); /* HSP_NONE */
    for (uint32_t i = 0; rc == HSP_OK && i < g->n_nodes; i++) {
        rc = take_node(x, i, err);
    }
    const struct hsp_sums sums = {x->n_ops, (uint32_t)x->n_sums, (uint32_t)x->n_uses, x->sum,
                                  x->use};
    if (rc == HSP_OK) {
        rc = hsp_sums_cut(&sums, cut, err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < g->n_nodes; i++) {
        first[i] = x->op_of[i] != HSP_NONE && cut[x->op_of[i]];
    }
    return rc;
}

enum hsp_status hsp_sums_place(struct hsp_compiler *c, uint32_t pipeline, const bool **ret_first,
                               struct hsp_err *err)
{
    struct placing x = {.c = c, .pipeline = pipeline};
    bool *first = hsp_arena_array(c->arena, c->g->n_nodes, sizeof *first), sums = false;
    if (first == NULL) {
        return hsp_err_nomem(err, "places of sums");
    }
    for (uint32_t i = 0; i < c->p->pipelines[pipeline].n_stages; i++) {
        sums = sums || c->p->pipelines[pipeline].stages[i].n > 1;
    }
    struct hsp_arena_position m = hsp_arena_mark(c->arena);
    enum hsp_status rc = sums ? place(&x, first, err) : HSP_OK;
    hsp_arena_rewind(c->arena, m);
    free(x.sum);
    free(x.use);
    if (rc == HSP_OK) {
        *ret_first = first;
    }
    return rc;
}
