#include "daemon/spmd/sharding/activation_rest.h"

#include "daemon/plan/stage_groups.h"
#include "proto/layout/cut_shares.h"

struct hsp_tiers hsp_stage_tiers(const struct hsp_stage *s)
{
    return (struct hsp_tiers){.n = s->n, .n_groups = hsp_stage_groups(s), .first = s->first};
}

/* Cuts dim @d of @l at @unit times the positions of the stage's split and of sequence parallelism.
 */
static enum hsp_status cut_rows(const struct hsp_stage *s, uint8_t d, int64_t unit, bool split,
                                bool rows, struct hsp_arena *arena, struct hsp_layout *l,
                                struct hsp_err *err)
{
    uint32_t groups = hsp_stage_groups(s);
    int64_t *outer = hsp_arena_array(arena, groups + 1, sizeof *outer);
    int64_t *inner = hsp_arena_array(arena, s->n + 1, sizeof *inner);
    int64_t whole = l->extent[d] / unit;
    if (outer == NULL || inner == NULL) {
        return hsp_err_nomem(err, "cuts of a stage");
    }
    if (split) {
        hsp_cut_shares(whole, groups, s->group_shares, outer);
        l->split[d] = HSP_CUT_STAGE;
    }
    for (uint32_t g = 0, first, end; g < groups; g++) {
        int64_t lo = split ? outer[g] : 0, n = (split ? outer[g + 1] : whole) - lo;
        hsp_stage_group(s, g, &first, &end);
        if (rows) {
            hsp_cut_shares(n, end - first, &s->shares[first], inner);
            l->cut[d] = end - first > 1 ? HSP_CUT_ROWS : l->cut[d];
        }
        for (uint32_t j = first; j < end; j++) {
            l->box[j].lo[d] = (lo + (rows ? inner[j - first] : 0)) * unit;
            l->box[j].hi[d] = (lo + (rows ? inner[j - first + 1] : n)) * unit;
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_tensor_rest(const struct hsp_graph *g, const struct hsp_stage *s,
                                uint32_t tensor, int64_t batch, struct hsp_arena *arena,
                                struct hsp_layout *ret, struct hsp_err *err)
{
    const struct hsp_tensor *t = &g->tensors[tensor];
    int64_t ext[HSP_MAX_RANK];
    hsp_tensor_extents(g, tensor, batch, ext);
    enum hsp_status rc = hsp_layout_whole(t->rank, ext, s->n, arena, ret, err);
    for (uint8_t d = 0; rc == HSP_OK && d < t->rank; d++) {
        bool seq = t->ext[d].sym == HSP_EXT_SEQ, row = t->ext[d].sym == HSP_EXT_BATCH;
        bool split =
            (seq && s->split == HSP_SPLIT_SEQUENCE) || (row && s->split == HSP_SPLIT_BATCH);
        bool rows = seq && s->sequence_parallel;
        if (split || rows) {
            rc = cut_rows(s, d, t->ext[d].k, split, rows, arena, ret, err);
        }
    }
    return rc;
}
