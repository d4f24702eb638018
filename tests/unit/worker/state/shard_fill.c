#include "tests/unit/worker/state/shard_fill.h"

#include <stdlib.h>

#include "proto/base/vec.h"

/* Copies the parts of @row that are here to @dst; adds the rest to @missing. */
static enum hsp_status gather(const struct hsp_shards *s, const struct hsp_segment_row *to,
                              uint8_t *dst, struct hsp_boxes *missing, struct hsp_err *err)
{
    struct hsp_shard_pieces pieces = {0};
    enum hsp_status st =
        hsp_shards_locate(s, to->tensor, to->kind, &to->box, &pieces, missing, err);
    for (size_t i = 0; st == HSP_OK && i < pieces.n; i++) {
        const struct hsp_shard_piece *p = &pieces.p[i];
        const struct hsp_segment_row *row = hsp_segment_row_at(p->seg, p->row);
        const uint8_t *src = (const uint8_t *)hsp_segment_area(p->seg) + row->offset;
        if (row->dtype != to->dtype) {
            st = hsp_err_set(err, HSP_EINVAL, 0, "tensor %u has another type", to->tensor);
        } else {
            hsp_region_copy(hsp_dtype_size(to->dtype), &p->box, &row->box, src, &to->box, dst);
        }
    }
    free(pieces.p);
    return st;
}

enum hsp_status shards_fill(const struct hsp_shards *s, struct hsp_state_segment *target,
                            struct shard_gap **ret_gaps, size_t *ret_n, struct hsp_err *err)
{
    struct shard_gap *gaps = NULL;
    size_t n = 0, cap = 0;
    enum hsp_status st = HSP_OK;
    for (uint32_t r = 0; st == HSP_OK && r < hsp_segment_n(target); r++) {
        const struct hsp_segment_row *row = hsp_segment_row_at(target, r);
        struct hsp_boxes missing = {0};
        st = gather(s, row, (uint8_t *)hsp_segment_area(target) + row->offset, &missing, err);
        for (size_t i = 0; st == HSP_OK && i < missing.n; i++) {
            if (!hsp_grow(&gaps, &cap, n + 1, sizeof(*gaps), HSP_MAX_BOXES)) {
                st = hsp_err_nomem(err, "the gaps");
                break;
            }
            gaps[n++] = (struct shard_gap){r, missing.b[i]};
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
