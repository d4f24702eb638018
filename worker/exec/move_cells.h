/* Moves cells between tensors, pack buffers and the memory that a transport reads and writes. */
#ifndef HSP_MOVE_CELLS_H
#define HSP_MOVE_CELLS_H
#include "worker/exec/moves_impl.h"

/* The box of a cell of a micro-batch with @n_seq sequences. */
struct hsp_box hsp_cell_running(const struct hsp_cell *c, int64_t n_seq);
/* The same for the running micro-batch of the move. */
struct hsp_box hsp_move_cell(const struct hsp_move_run *r, const struct hsp_cell *c);
/* Input @k of the instruction. */
struct hsp_cell_view hsp_move_source(const struct hsp_move_run *r, uint8_t k);
/* How the move reduces: a sum, or the maximum. */
enum hsp_reduce hsp_move_how(const struct hsp_move_run *r);
/* dst <- the move's source on this cell. */
enum hsp_status hsp_move_fetch(const struct hsp_move_run *r, const struct hsp_cell_view *dst,
                               const struct hsp_box *cell, struct hsp_err *err);
/* Packs the source of a cell into @buf + *at, or unpacks it into the output; @buf has room for the
 * cell, and *at moves on by its bytes. */
enum hsp_status hsp_move_pack(const struct hsp_move_run *r, const struct hsp_box *cell,
                              uint8_t *buf, size_t *at, struct hsp_err *err);
enum hsp_status hsp_move_unpack(const struct hsp_move_run *r, const struct hsp_box *cell,
                                uint8_t *buf, size_t *at, struct hsp_err *err);
/* The same for all cells of the move, one behind the other. */
enum hsp_status hsp_move_pack_all(const struct hsp_move_run *r, uint8_t *buf, struct hsp_err *err);
enum hsp_status hsp_move_unpack_all(const struct hsp_move_run *r, uint8_t *buf,
                                    struct hsp_err *err);
/* Sets HSP_ENOMEM: no @bytes for a move. */
enum hsp_status hsp_move_no_memory(struct hsp_err *err, size_t bytes);
/* An staging copy is a staging copy in host memory, for a transport that cannot reach the device's
 * memory. *ret: memory of @bytes for the transport, @buf itself where no staging copy is needed.
 * Either side may write the staging copy from now on. */
enum hsp_status hsp_staging_of(const struct hsp_move_run *r, struct hsp_staging_buffer *p,
                               void *buf, size_t bytes, uint8_t **ret, struct hsp_err *err);
/* The device copies to an staging copy; not done before hsp_staging_ready. */
enum hsp_status hsp_staging_write(const struct hsp_move_run *r, void *staging, const void *buf,
                                  size_t bytes, struct hsp_err *err);
/* Waits until the device has written the staging copies, so that the transport may read them. */
enum hsp_status hsp_staging_ready(const struct hsp_move_run *r, struct hsp_err *err);
/* The device copies from an staging copy. */
enum hsp_status hsp_staging_read(const struct hsp_move_run *r, void *buf, const void *staging,
                                 size_t bytes, struct hsp_err *err);

#endif
