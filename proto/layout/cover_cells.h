/* Cuts the index space of a tensor into cells, so that within a cell all holders and receivers are
 * the same. Resolution, state transfer and owners work cell by cell.
 *
 * Purity:    pure; the cells come in a fixed order.
 * Ownership: covers are borrowed for the call; a cell is valid during its callback.
 *
 * Example: rank 0 holds rows 0..4 and rank 1 rows 2..8 of a tensor of 8 rows. The cells are rows
 * 0..2 (held by 0), 2..4 (held by 0 and 1) and 4..8 (held by 1).
 */
#ifndef HSP_COVER_CELLS_H
#define HSP_COVER_CELLS_H
#include "proto/layout/cover.h"

/* The holders and receivers of one cell. Arrays are valid during the callback only. */
struct hsp_region {
    struct hsp_box box;
    uint32_t n_src, n_dst;
    const uint32_t *src; /* indices of items of the source cover that contain the cell, ascending */
    const uint32_t *dst; /* the same of the target cover */
};
typedef enum hsp_status (*hsp_region_fn)(void *ctx, const struct hsp_region *r,
                                         struct hsp_err *err);

/* Calls @fn for each cell, in ascending order of its first corner; neighbours with equal holders
 * and receivers along the last dims are one cell. Cells that nobody holds and nobody needs are
 * skipped.
 * @dst may be NULL. Stops at the first status that is not HSP_OK and returns it. */
enum hsp_status hsp_regions(const struct hsp_cover *src, const struct hsp_cover *dst,
                            hsp_region_fn fn, void *ctx, struct hsp_err *err);

#endif
