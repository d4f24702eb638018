/* Writes the files of a checkpoint on a thread of its own (disk_thread.h), so that a file system
 * that does not answer ends the checkpoint and not the training.
 *
 * Example:   the keeper thread hands over slab after slab of its part and waits for each. The tenth
 *            is not written within 120 s: HSP_ETIMEDOUT, "/srv/ckpt does not answer since 120 s".
 *            The thread keeps a copy of that slab and all else it needs, and no memory of the
 *            epoch.
 * Purity:    shell (files, a thread).
 * Threads:   the keeper thread.
 * Ownership: end, also after an error. After HSP_ETIMEDOUT its thread has the files, and drops them
 *            when it has an answer.
 * Bounds:    a slab in memory (HSP_GATHER_BYTES).
 */
#ifndef HSP_CKPT_WRITER_H
#define HSP_CKPT_WRITER_H
#include "worker/executor/epoch.h"
#include "worker/state/ckpt.h"

struct hsp_ckpt_writer {
    struct hsp_ex_epoch *e;
    struct hsp_disk_thread *disk;  /* NULL: not open */
    struct hsp_ckpt_writing *work; /* its thread has it; NULL: alone, for there was no answer */
};

/* What is to be written: as hsp_ckpt_stream_open. */
struct hsp_ckpt_order {
    const struct hsp_ckpt_info *info;
    uint32_t rank;
    const struct hsp_ckpt_piece *p; /* copied, with names and extents */
    size_t n;
    /* Left-overs are deleted first: of attempts at versions below it, and of earlier epochs
     * at it. 0: none. */
    uint64_t sweeps;
    bool whole; /* nobody else writes to this attempt: unless it is committed it goes at the end */
};
/* Each is done when it returns. HSP_ETIMEDOUT: there is no answer, now or from an earlier one;
 * errors of ckpt_shard.h, ckpt.h and ckpt_steps.h. */
enum hsp_status hsp_ckpt_writer_open(struct hsp_ex_epoch *e, const struct hsp_ckpt_order *o,
                                     struct hsp_ckpt_writer *ret, struct hsp_err *err);
/* The part @slab of piece @i, of @data, which is dense in @held. */
enum hsp_status hsp_ckpt_writer_put(struct hsp_ckpt_writer *w, size_t i, const struct hsp_box *slab,
                                    const struct hsp_box *held, const void *data,
                                    struct hsp_err *err);
enum hsp_status hsp_ckpt_writer_close(struct hsp_ckpt_writer *w, uint64_t *ret_bytes,
                                      struct hsp_err *err);
enum hsp_status hsp_ckpt_writer_commit(struct hsp_ckpt_writer *w,
                                       const struct hsp_data_cursor *data,
                                       struct hsp_ckpt_done *ret, struct hsp_err *err);
/* The last of all. HSP_OK: it is done, or goes on alone. */
enum hsp_status hsp_ckpt_writer_prune(struct hsp_ckpt_writer *w, struct hsp_err *err);
/* @abandon: the whole attempt goes, for nobody writes to it any more. Not open is fine. */
void hsp_ckpt_writer_end(struct hsp_ckpt_writer *w, bool abandon);

#endif
