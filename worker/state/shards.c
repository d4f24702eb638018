#include "worker/state/shards.h"

#include <stdlib.h>

#include "proto/base/check.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"

static enum hsp_status full_list(struct hsp_err *err)
{
    return hsp_err_nomem(err, "the pieces of a transfer");
}

/* Cuts row @row of @seg out of the boxes that are still wanted. */
static enum hsp_status take(const struct hsp_state_segment *seg, uint32_t row,
                            struct hsp_boxes *left, struct hsp_shard_pieces *ret,
                            struct hsp_err *err)
{
    const struct hsp_box *have = &hsp_segment_row_at(seg, row)->box;
    bool any = false;
    for (size_t i = 0; i < left->n; i++) {
        struct hsp_box cut;
        if (left->b[i].rank != have->rank) {
            return hsp_err_set(err, HSP_EINVAL, 0, "tensor %u has rank %u, not %u",
                               hsp_segment_row_at(seg, row)->tensor, have->rank, left->b[i].rank);
        }
        if (!hsp_box_cut(&left->b[i], have, &cut)) {
            continue;
        }
        if (!hsp_grow(&ret->p, &ret->cap, ret->n + 1, sizeof(*ret->p), HSP_MAX_BOXES)) {
            return full_list(err);
        }
        ret->p[ret->n++] = (struct hsp_shard_piece){seg, row, cut};
        any = true;
    }
    return !any || hsp_boxes_minus(left, have) ? HSP_OK : full_list(err);
}

enum hsp_status hsp_shards_locate(const struct hsp_shards *s, uint32_t tensor, uint8_t kind,
                                  const struct hsp_box *want, struct hsp_shard_pieces *ret,
                                  struct hsp_boxes *missing, struct hsp_err *err)
{
    struct hsp_boxes left = {0};
    enum hsp_status st = HSP_OK;
    if (hsp_box_empty(want)) {
        return HSP_OK;
    }
    if (!hsp_boxes_add(&left, want)) {
        return full_list(err);
    }
    for (size_t i = 0; st == HSP_OK && i < s->n && left.n > 0; i++) {
        if (hsp_segment_version(s->seg[i]) != s->version) {
            continue;
        }
        for (uint32_t r = 0; st == HSP_OK && r < hsp_segment_n(s->seg[i]); r++) {
            const struct hsp_segment_row *row = hsp_segment_row_at(s->seg[i], r);
            if (row->tensor == tensor && row->kind == kind) {
                st = take(s->seg[i], r, &left, ret, err);
            }
        }
    }
    for (size_t i = 0; st == HSP_OK && i < left.n; i++) {
        st = hsp_boxes_add(missing, &left.b[i]) ? HSP_OK : full_list(err);
    }
    hsp_boxes_fini(&left);
    return st;
}
