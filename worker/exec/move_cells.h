/* Moves cells between tensors, pack buffers and the memory that a transport reads and writes. A
 * cell is a box of a tensor that one move of a Reshard copies, sends or sums
 * (proto/program/program.h). */
#ifndef HSP_MOVE_CELLS_H
#define HSP_MOVE_CELLS_H
#include "worker/exec/moves_impl.h"

/* Returns the box of a cell for a micro-batch with @n_seq sequences. */
struct hsp_box hsp_cell_running(const struct hsp_cell *c, int64_t n_seq);
/* Returns the box of a cell for the running micro-batch of the move. */
struct hsp_box hsp_move_cell(const struct hsp_move_run *r, const struct hsp_cell *c);
/* Returns the view of input @k of the Reshard. */
struct hsp_cell_view hsp_move_source(const struct hsp_move_run *r, uint8_t k);
/* Returns how the move reduces: by the sum, or by the maximum. */
enum hsp_reduce hsp_move_how(const struct hsp_move_run *r);
/* Copies the move's source to @dst on the box @cell. If the source is the sum of all inputs, adds
 * up (or takes the maximum of) the inputs that hold the cell. */
enum hsp_status hsp_move_fetch(const struct hsp_move_run *r, const struct hsp_cell_view *dst,
                               const struct hsp_box *cell, struct hsp_err *err);
/* Packs the source of a cell into @buf + *at, or unpacks a cell from there into the output. @buf
 * has room for the cell. Advances *at by the bytes of the cell. */
enum hsp_status hsp_move_pack(const struct hsp_move_run *r, const struct hsp_box *cell,
                              uint8_t *buf, size_t *at, struct hsp_err *err);
enum hsp_status hsp_move_unpack(const struct hsp_move_run *r, const struct hsp_box *cell,
                                uint8_t *buf, size_t *at, struct hsp_err *err);
/* Packs, or unpacks, all cells of the move, which lie contiguously at @buf. */
enum hsp_status hsp_move_pack_all(const struct hsp_move_run *r, uint8_t *buf, struct hsp_err *err);
enum hsp_status hsp_move_unpack_all(const struct hsp_move_run *r, uint8_t *buf,
                                    struct hsp_err *err);
/* Returns HSP_ENOMEM with a message that a move found no memory for @bytes. */
enum hsp_status hsp_move_no_memory(struct hsp_err *err, size_t bytes);
/* A staging copy is a copy of packed cells in host memory, for a transport that cannot reach the
 * device's memory. hsp_staging_of gives in *ret memory of @bytes for the transport: a staging copy
 * in @p, or @buf itself if no staging copy is needed. The function waits until the device has read
 * the older staging copies, so either side may write the staging copy from now on. */
enum hsp_status hsp_staging_of(const struct hsp_move_run *r, struct hsp_staging_buffer *p,
                               void *buf, size_t bytes, uint8_t **ret, struct hsp_err *err);
/* Makes the device copy @buf to a staging copy. The copy is done only after hsp_staging_ready. */
enum hsp_status hsp_staging_write(const struct hsp_move_run *r, void *staging, const void *buf,
                                  size_t bytes, struct hsp_err *err);
/* Waits until the device has written the staging copies, so that the transport may read them. */
enum hsp_status hsp_staging_ready(const struct hsp_move_run *r, struct hsp_err *err);
/* Makes the device copy a staging copy to @buf. */
enum hsp_status hsp_staging_read(const struct hsp_move_run *r, void *buf, const void *staging,
                                 size_t bytes, struct hsp_err *err);

#endif
