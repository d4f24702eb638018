/* Writes the files of a checkpoint on a thread of its own (disk_thread.h), so that a file system
 * that does not answer makes the checkpoint fail and does not stop the training.
 *
 * Example:   the replication thread passes its part to the disk thread slab by slab, and waits for
 *            each slab. The tenth slab is not written within 120 s, so the call returns
 *            HSP_ETIMEDOUT, "/srv/ckpt does not answer since 120 s". The disk thread has a copy of
 *            that slab and of all other data of the write, and uses no memory of the epoch, which
 *            may end now.
 * Purity:    shell (files, a thread).
 * Threads:   the replication thread.
 * Ownership: call hsp_ckpt_writer_end, also after an error. After HSP_ETIMEDOUT the disk thread
 *            owns the data of the writer, and frees them when the file system answers.
 * Bounds:    one slab in memory (HSP_GATHER_BYTES).
 */
#ifndef HSP_CKPT_WRITER_H
#define HSP_CKPT_WRITER_H
#include "worker/executor/epoch.h"
#include "worker/state/ckpt.h"

struct hsp_ckpt_writer {
    struct hsp_ex_epoch *e;
    struct hsp_disk_thread *disk;  /* NULL: not open */
    struct hsp_ckpt_writing *work; /* owned by the disk thread; NULL: a call of that thread hangs */
};

/* Describes the files to write; the first fields are arguments of hsp_ckpt_stream_open. */
struct hsp_ckpt_order {
    const struct hsp_ckpt_info *info;
    uint32_t rank;
    const struct hsp_ckpt_piece *p; /* copied, with names and extents */
    size_t n;
    /* Before writing, the left-overs of failed attempts are deleted: of all attempts at versions
     * below @sweeps, and of attempts by earlier epochs at version @sweeps. 0: none are deleted. */
    uint64_t sweeps;
    /* No other rank writes files of this checkpoint. So hsp_ckpt_writer_end deletes the files
     * unless the checkpoint was committed. */
    bool whole;
};
/* Each of these calls returns when its work is done. Returns HSP_ETIMEDOUT if the file system does
 * not answer this call or an earlier call, and errors of ckpt_shard.h, ckpt.h and ckpt_steps.h. */
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
/* Deletes old checkpoints; only hsp_ckpt_writer_end may follow. Returns HSP_OK if the deletion is
 * done, or goes on on the disk thread. */
enum hsp_status hsp_ckpt_writer_prune(struct hsp_ckpt_writer *w, struct hsp_err *err);
/* Ends the writer, which need not be open. @abandon: deletes the files of all ranks of this
 * attempt; no rank may write to it any more. */
void hsp_ckpt_writer_end(struct hsp_ckpt_writer *w, bool abandon);

#endif
