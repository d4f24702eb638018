/* Lists the complete checkpoints that one job has on disk, for a coordinator that does not know
 * them all: its store was lost, or put back, or has room for fewer.
 *
 * Example: job 7 of cluster A, in DIR: step-40 and step-60 of that job, step-80 of job 9,
 * step-20.job-7 that job 9 has moved aside, step-100 whose second shard is missing. The list is
 * 60, 40, 20; `damage` tells of 100.
 *
 * Example: steps 40 and 60 are on record, and the disk has an I/O error in step-60. The list is 40;
 * `unread` tells that step 60 cannot be read. The step may be there: it must not count as gone.
 *
 * Purity:  shell (reads manifests and the heads of shards; readers compare the contents).
 * Threads: any; a file system that hangs hangs the caller.
 * Bounds:  four descriptors at a time, and the heads of the shards of one step in memory.
 */
#ifndef HSP_CKPT_FOUND_H
#define HSP_CKPT_FOUND_H
#include "worker/state/ckpt.h"

struct hsp_ckpts_asked {
    struct hsp_ckpt_info us; /* job, job_id, whose.cluster */
    size_t n;
    /* Steps on record. Each is opened by its name, as the folder may not list it yet (NFS). */
    const uint64_t *step;
    size_t max; /* of the list */
};

struct hsp_ckpt_found {
    uint64_t step, term, epoch;
    uint64_t content; /* hsp_ckpt_content */
};

struct hsp_ckpts_found {
    size_t n;
    struct hsp_ckpt_found *item; /* newest first; free() */
    /* Nothing in @dir shows that the job began there, not even its file (ckpt_sign.h): the path
     * may not be mounted, or the job never ran here. */
    bool absent;
    /* The damage of the newest damaged step that is newer than those of the list, on record or not.
     * Code HSP_OK: there is none. */
    struct hsp_err damage;
    /* A step that is or may be there and cannot be read now; or the folder cannot be read. A later
     * question may find the step. If its owner cannot be read either, the message says so. */
    struct hsp_err unread;
};

/* Finds the newest checkpoints in @dir of the job of @q. A step is listed once for each content.
 * The list is empty if there is no @dir. A step that is known to be another job's is ignored, with
 * all its faults.
 *
 * HSP_ENOMEM: memory or descriptors are short, so the result is unknown. Errors of
 * hsp_ckpt_is_signed, if nothing else shows that the job began in @dir. */
enum hsp_status hsp_ckpt_find_all(const char *dir, const struct hsp_ckpts_asked *q,
                                  struct hsp_ckpts_found *ret, struct hsp_err *err);

#endif
