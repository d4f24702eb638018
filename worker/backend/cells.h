/* Copies and adds cells, blocks of a tensor in global coordinates, between tensors and pack
 * buffers. A view is a dense row-major array that holds a box of global coordinates; a pack buffer
 * is the view whose box is the cell itself.
 *
 * Purity: pure.
 * Bounds: A wrong program can damage only its own memory: if it places two tensors over each other,
 *         the bytes are moved as memmove moves them, and the values of both tensors mean nothing
 *         then. */
#ifndef HSP_CELLS_H
#define HSP_CELLS_H
#include <stddef.h>
#include "proto/layout/cover.h"

struct hsp_cell_view {
    void *data;
    struct hsp_box box; /* the rank may be 0: one element */
    enum hsp_dtype dtype;
};

/* Copies src[cell] to dst[cell]. The cell lies in both boxes, and the types are equal. */
void hsp_cell_copy(const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                   const struct hsp_box *cell);
/* Adds src[cell] to dst[cell], or writes the larger of the two; a NaN is larger than any number. */
void hsp_cell_reduce(const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                     const struct hsp_box *cell, enum hsp_reduce how);
/* Returns the address of the cell in @v if the cell is contiguous there, else NULL. */
void *hsp_cell_run(const struct hsp_cell_view *v, const struct hsp_box *cell);
size_t hsp_cell_bytes(const struct hsp_box *cell, enum hsp_dtype t);

#endif
