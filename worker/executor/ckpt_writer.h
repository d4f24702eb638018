/* Writes the files of a checkpoint on a thread of its own (disk_thread.h), so that a file system
 * that does not answer ends the checkpoint and not the training.
 *
 * Example:   the replication thread hands over slab after slab of its part and waits for each slab.
 *            The tenth slab is not written within 120 s: HSP_ETIMEDOUT, "/srv/ckpt does not answer
 *            since 120 s". The disk thread keeps a copy of that slab and of all else that the write
 *            needs, and no memory of the epoch.
 * Purity:    shell (files, a thread).
 * Threads:   the replication thread.
 * Ownership: call hsp_ckpt_writer_end, also after an error. After HSP_ETIMEDOUT the disk thread
 *            owns the files, and drops them when the file system answers.
 * Bounds:    one slab in memory (HSP_GATHER_BYTES).
 */
#ifndef HSP_CKPT_WRITER_H
#define HSP_CKPT_WRITER_H
#include "worker/executor/epoch.h"
#include "worker/state/ckpt.h"

struct hsp_ckpt_writer {
    struct hsp_ex_epoch *e;
    struct hsp_disk_thread *disk;  /* NULL: not open */
    struct hsp_ckpt_writing *work; /* of the disk thread; NULL: that thread did not answer */
};

/* The files to write, with the terms of hsp_ckpt_stream_open. */
struct hsp_ckpt_order {
    const struct hsp_ckpt_info *info;
    uint32_t rank;
    const struct hsp_ckpt_piece *p; /* copied, with names and extents */
    size_t n;
    /* First the left-overs are deleted: of attempts at versions below @sweeps, and of attempts by
     * earlier epochs at version @sweeps. 0: none are deleted. */
    uint64_t sweeps;
    /* No other rank writes to this attempt: unless it is committed, the end deletes it. */
    bool whole;
};
/* Each of these calls returns when its work is done. HSP_ETIMEDOUT: the file system answers neither
 * this call nor an earlier one; errors of ckpt_shard.h, ckpt.h and ckpt_steps.h. */
enum hsp_status hsp_ckpt_writer_open(struct hsp_ex_epoch *e, const struct hsp_ckpt_order *o,
                                     struct hsp_ckpt_writer *ret, struct hsp_err *err);
/* Writes the part @slab of piece @i from @data, which holds the box @held densely. */
enum hsp_status hsp_ckpt_writer_put(struct hsp_ckpt_writer *w, size_t i, const struct hsp_box *slab,
                                    const struct hsp_box *held, const void *data,
                                    struct hsp_err *err);
enum hsp_status hsp_ckpt_writer_close(struct hsp_ckpt_writer *w, uint64_t *ret_bytes,
                                      struct hsp_err *err);
enum hsp_status hsp_ckpt_writer_commit(struct hsp_ckpt_writer *w,
                                       const struct hsp_data_cursor *data,
                                       struct hsp_ckpt_done *ret, struct hsp_err *err);
/* Deletes old checkpoints; the last call before the end. HSP_OK: the deletion is done, or goes on
 * on its thread. */
enum hsp_status hsp_ckpt_writer_prune(struct hsp_ckpt_writer *w, struct hsp_err *err);
/* Ends the writer, which need not be open. @abandon: the whole attempt is deleted, for no rank
 * writes to it any more. */
void hsp_ckpt_writer_end(struct hsp_ckpt_writer *w, bool abandon);

#endif
