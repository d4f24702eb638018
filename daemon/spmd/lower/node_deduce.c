#include "daemon/spmd/lower/node_deduce.h"

#include <string.h>

#include "daemon/spmd/lower/ring_attention.h"
#include "daemon/spmd/lower/tensor_versions.h"
#include "daemon/spmd/sharding/activation_rest.h"

enum hsp_status hsp_node_deduce(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                                const struct hsp_node *n, struct hsp_layout *in, bool values,
                                struct hsp_deduced *ret, bool *ret_ring, struct hsp_err *err)
{
    struct hsp_layout rest[HSP_MAX_IN];
    const struct hsp_layout *rests[HSP_MAX_IN] = {NULL};
    struct hsp_question q = {.op = (enum hsp_op)n->op,
                             .at = &n->at,
                             .n_in = n->n_in,
                             .n_out = n->n_out,
                             .in = in,
                             .rest = rests,
                             .values = values,
                             .tiers = hsp_stage_tiers(s->group)};
    enum hsp_status rc = HSP_OK;
    for (uint8_t i = 0; rc == HSP_OK && i < n->n_in; i++) {
        q.uses |= (c->g->tensors[n->in[i]].kind == HSP_TENSOR_PARAM ? 1u : 0u) << i;
        q.reads |= (hsp_tensor_is_read(c, n->in[i]) ? 1u : 0u) << i;
        if (hsp_layout_partial(&in[i])) {
            rests[i] = &rest[i];
            rc = hsp_tensor_rest(c->g, s->group, n->in[i], s->bound, c->arena, &rest[i], err);
        }
    }
    uint32_t grad = n->out[0] != HSP_NONE ? c->grad_of[n->out[0]] : HSP_NONE;
    if (rc == HSP_OK && grad != HSP_NONE) {
        q.want = &s->value[s->version[c->g->params[grad].tensor]].at;
    }
    if (rc == HSP_OK) {
        rc = hsp_ring_open(c, s, n, in, ret_ring, err);
    }
    return rc == HSP_OK ? hsp_deduce(&q, c->arena, ret, err) : rc;
}

static enum hsp_status gather(struct hsp_layout *l, const struct hsp_forced *f,
                              const struct hsp_tiers *tiers, struct hsp_arena *arena,
                              struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint8_t d = 0; rc == HSP_OK && f->name != 0 && d < l->rank; d++) {
        bool over = (f->gather & HSP_OVER_GROUPS) != 0 && l->split[d] == f->name;
        if (over || ((f->gather & HSP_IN_GROUPS) != 0 && l->cut[d] == f->name)) {
            rc = hsp_layout_uncut(l, d, over, tiers, arena, err);
        }
    }
    return rc;
}

enum hsp_status hsp_operands_force(const struct hsp_compiler *c, const struct hsp_stagecode *s,
                                   const struct hsp_node *n, const struct hsp_forced *f,
                                   struct hsp_layout *in, struct hsp_err *err)
{
    struct hsp_tiers tiers = hsp_stage_tiers(s->group);
    const struct hsp_layout *to = f->slice;
    enum hsp_status rc = HSP_OK;
    for (uint8_t i = 0; rc == HSP_OK && i < n->n_in; i++) {
        bool use = c->g->tensors[n->in[i]].kind == HSP_TENSOR_PARAM;
        if (use || hsp_layout_partial(&in[i])) {
            continue;
        }
        rc = gather(&in[i], f, &tiers, c->arena, err);
        if (to != NULL && to->n == in[i].n && to->rank == in[i].rank &&
            memcmp(to->extent, in[i].extent, sizeof to->extent) == 0 &&
            hsp_layout_inside(to, &in[i])) {
            in[i] = *to;
        }
    }
    return rc;
}
