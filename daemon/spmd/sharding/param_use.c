#include "daemon/spmd/sharding/param_use.h"

#include "daemon/plan/stage_groups.h"
#include "daemon/spmd/sharding/pipeline_units.h"
#include "proto/layout/cut_shares.h"

enum hsp_status hsp_param_units(const struct hsp_graph *g, struct hsp_arena *arena,
                                const bool **ret, struct hsp_err *err)
{
    bool *units = hsp_arena_array(arena, (size_t)g->n_params * g->n_layers, sizeof *units);
    if (units == NULL) {
        return hsp_err_nomem(err, "table of parameter uses");
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct hsp_node *n = &g->nodes[i];
        for (uint8_t k = 0; k < n->n_in; k++) {
            if (n->in[k] != HSP_NONE && g->tensors[n->in[k]].kind == HSP_TENSOR_PARAM) {
                units[(size_t)g->tensors[n->in[k]].param * g->n_layers + n->layer] = true;
            }
        }
    }
    *ret = units;
    return HSP_OK;
}

bool hsp_stage_uses_param(const struct hsp_graph *g, const bool *units,
                          const struct hsp_pipeline *s, uint32_t stage, uint32_t param)
{
    for (uint32_t c = 0; c < hsp_pipeline_chunks(s); c++) {
        uint32_t first, end;
        hsp_chunk_units(s, stage, c, &first, &end);
        for (uint32_t u = first; u < end && u < g->n_layers; u++) {
            if (units[(size_t)param * g->n_layers + u]) {
                return true;
            }
        }
    }
    return false;
}

enum hsp_status hsp_param_use(const struct hsp_graph *g, const struct hsp_stage *s, uint32_t param,
                              struct hsp_arena *arena, struct hsp_layout *ret, struct hsp_err *err)
{
    const struct hsp_param *p = &g->params[param];
    const struct hsp_tensor *t = &g->tensors[p->tensor];
    int64_t ext[HSP_MAX_RANK];
    hsp_tensor_extents(g, p->tensor, 1, ext);
    enum hsp_status rc = hsp_layout_whole(t->rank, ext, s->n, arena, ret, err);
    if (rc != HSP_OK || p->tp_dim < 0) {
        return rc;
    }
    int64_t *cut = hsp_arena_array(arena, s->n + 1, sizeof *cut);
    if (cut == NULL) {
        return hsp_err_nomem(err, "cuts of %s", t->name);
    }
    uint8_t d = (uint8_t)p->tp_dim;
    for (uint32_t i = 0, first, end; i < hsp_stage_groups(s); i++) {
        hsp_stage_group(s, i, &first, &end);
        if (end - first == 1) {
            continue;
        }
        hsp_cut_shares(ext[d] / p->tp_grain, end - first, &s->shares[first], cut);
        ret->cut[d] = p->tp_family + 1;
        for (uint32_t j = first; j < end; j++) {
            ret->box[j].lo[d] = cut[j - first] * p->tp_grain;
            ret->box[j].hi[d] = cut[j - first + 1] * p->tp_grain;
        }
    }
    return HSP_OK;
}
