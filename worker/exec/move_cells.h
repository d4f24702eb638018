/* @@SENTENCE@@ move_cells: purpose to be written. */
#ifndef HSP_MOVE_CELLS_H
#define HSP_MOVE_CELLS_H
#include "worker/exec/moves_impl.h"

/* A cell with its running extents: @n_seq sequences. */
struct hsp_box hsp_cell_running(const struct hsp_cell *c, int64_t n_seq);
/* The cell with its running extents. */
struct hsp_box hsp_move_cell(const struct hsp_move_run *r, const struct hsp_cell *c);
/* Input @k of the instruction. */
struct hsp_cell_view hsp_move_source(const struct hsp_move_run *r, uint8_t k);
enum hsp_reduce hsp_move_how(const struct hsp_move_run *r);
/* dst <- the move's source on this cell. */
enum hsp_status hsp_move_fetch(const struct hsp_move_run *r, const struct hsp_cell_view *dst,
                               const struct hsp_box *cell, struct hsp_err *err);
/* Between the tensors and @buf + *at, where there is room for the cell; *at moves on by its bytes. */
enum hsp_status hsp_move_pack(const struct hsp_move_run *r, const struct hsp_box *cell,
                              uint8_t *buf, size_t *at, struct hsp_err *err);
enum hsp_status hsp_move_unpack(const struct hsp_move_run *r, const struct hsp_box *cell,
                                uint8_t *buf, size_t *at, struct hsp_err *err);
/* All cells of the move, one after the other. */
enum hsp_status hsp_move_pack_all(const struct hsp_move_run *r, uint8_t *buf, struct hsp_err *err);
enum hsp_status hsp_move_unpack_all(const struct hsp_move_run *r, uint8_t *buf,
                                    struct hsp_err *err);
enum hsp_status hsp_move_no_memory(struct hsp_err *err, size_t bytes);
/* Memory of @bytes that the transport uses in place of @buf, *ret: @buf itself where no image is
 * needed. An image may be written by either side from now on. */
enum hsp_status hsp_image_of(const struct hsp_move_run *r, struct hsp_staging_buffer *p, void *buf,
                             size_t bytes, uint8_t **ret, struct hsp_err *err);
/* The device copies to an image; not done before hsp_images_ready. */
enum hsp_status hsp_image_write(const struct hsp_move_run *r, void *image, const void *buf,
                                size_t bytes, struct hsp_err *err);
enum hsp_status hsp_images_ready(const struct hsp_move_run *r, struct hsp_err *err);
/* The device copies from an image. */
enum hsp_status hsp_image_read(const struct hsp_move_run *r, void *buf, const void *image,
                               size_t bytes, struct hsp_err *err);

#endif
