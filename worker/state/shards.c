#include "worker/state/shards.h"

#include <stdlib.h>

#include "proto/base/check.h"
#include "proto/base/vec.h"

static enum hsp_status full_list(struct hsp_err *err)
{
    return hsp_err_nomem(err, "the pieces of a transfer");
}

/* Cuts row @row of @seg out of what is still wanted. */
static enum hsp_status take(const struct hsp_state_segment *seg, uint32_t row,
                            struct hsp_boxes *left, struct hsp_shard_pieces *ret,
                            struct hsp_err *err)
{
    const struct hsp_box *have = &hsp_segment_row(seg, row)->box;
    bool any = false;
    for (size_t i = 0; i < left->n; i++) {
        struct hsp_box cut;
        if (left->b[i].rank != have->rank) {
            return hsp_err_set(err, HSP_EINVAL, 0, "tensor %u has rank %u, not %u",
                               hsp_segment_row(seg, row)->tensor, have->rank, left->b[i].rank);
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
            const struct hsp_segment_row *row = hsp_segment_row(s->seg[i], r);
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

enum hsp_status hsp_shards_gather(const struct hsp_shards *s, uint32_t tensor, uint8_t kind,
                                  enum hsp_dtype dtype, const struct hsp_box *want,
                                  const struct hsp_box *dst_box, void *dst,
                                  struct hsp_boxes *missing, struct hsp_err *err)
{
    struct hsp_shard_pieces pieces = {0};
    enum hsp_status st = hsp_shards_locate(s, tensor, kind, want, &pieces, missing, err);
    for (size_t i = 0; st == HSP_OK && i < pieces.n; i++) {
        const struct hsp_shard_piece *p = &pieces.p[i];
        const struct hsp_segment_row *row = hsp_segment_row(p->seg, p->row);
        if (row->dtype != dtype) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "tensor %u is %s, not %s", tensor,
                             hsp_dtype_name(row->dtype), hsp_dtype_name(dtype));
            break;
        }
        const uint8_t *src = (const uint8_t *)hsp_segment_area(p->seg) + row->offset;
        hsp_region_copy(hsp_dtype_size(dtype), &p->box, &row->box, src, dst_box, dst);
    }
    free(pieces.p);
    return st;
}

enum hsp_status hsp_shards_fill(const struct hsp_shards *s, struct hsp_state_segment *target,
                                struct hsp_shard_gap **ret_gaps, size_t *ret_n, struct hsp_err *err)
{
    struct hsp_shard_gap *gaps = NULL;
    size_t n = 0, cap = 0;
    enum hsp_status st = HSP_OK;
    HSP_ASSERT(hsp_segment_version(target) == HSP_NO_VERSION);
    for (uint32_t r = 0; st == HSP_OK && r < hsp_segment_n(target); r++) {
        const struct hsp_segment_row *row = hsp_segment_row(target, r);
        struct hsp_boxes missing = {0};
        st = hsp_shards_gather(s, row->tensor, row->kind, row->dtype, &row->box, &row->box,
                               (uint8_t *)hsp_segment_area(target) + row->offset, &missing, err);
        for (size_t i = 0; st == HSP_OK && i < missing.n; i++) {
            if (!hsp_grow(&gaps, &cap, n + 1, sizeof(*gaps), HSP_MAX_BOXES)) {
                st = full_list(err);
                break;
            }
            gaps[n++] = (struct hsp_shard_gap){r, missing.b[i]};
        }
        hsp_boxes_fini(&missing);
    }
    if (st != HSP_OK) {
        free(gaps);
        return st;
    }
    *ret_gaps = gaps;
    *ret_n = n;
    return HSP_OK;
}
