/* Strided copies between tensors and pack buffers. A view is a dense row-major array that holds a
 * box of global coordinates; a pack buffer is the view whose box is the cell itself.
 *
 * Purity: pure.
 * Bounds: errors of a program stay inside its memory: tensors that it laid over each other are
 *         moved byte by byte as memmove does, and their values mean nothing then. */
#ifndef HSP_CELLS_H
#define HSP_CELLS_H
#include <stddef.h>
#include "proto/layout/cover.h"

struct hsp_cell_view {
    void *data;
    struct hsp_box box; /* rank may be 0: one element */
    enum hsp_dtype dtype;
};

/* dst[cell] <- src[cell]; the cell lies in both boxes, types are equal. */
void hsp_cell_copy(const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                   const struct hsp_box *cell);
/* dst[cell] += src[cell], or the larger of the two; a NaN is larger than any. */
void hsp_cell_reduce(const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                     const struct hsp_box *cell, enum hsp_reduce how);
/* Where the cell lies in @v when it is one run of bytes there, NULL otherwise. */
void *hsp_cell_run(const struct hsp_cell_view *v, const struct hsp_box *cell);
size_t hsp_cell_bytes(const struct hsp_box *cell, enum hsp_dtype t);

#endif
