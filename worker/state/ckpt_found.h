/* Lists the complete checkpoints that one job has on disk, for a coordinator that does not know
 * them all: its store was lost, or put back, or has room for fewer.
 *
 * Example: job 7 of cluster A, in DIR: step-40 and step-60 of that job, step-80 of job 9,
 * step-20.job-7 that job 9 has moved aside, step-100 whose second shard is missing. The list is
 * 60, 40, 20.
 *
 * Purity:  shell (reads manifests and the heads of shards; contents are compared by who reads
 *          them).
 * Threads: any; a file system that hangs hangs the caller.
 */
#ifndef HSP_CKPT_FOUND_H
#define HSP_CKPT_FOUND_H
#include "worker/state/ckpt.h"

struct hsp_ckpt_found {
    uint64_t step, term, epoch;
    uint64_t content; /* hsp_ckpt_content */
};

struct hsp_ckpts_found {
    size_t n;
    struct hsp_ckpt_found *item; /* newest first; free() */
    struct hsp_err damage;       /* of the newest step, if it is damaged; code HSP_OK: it is not */
};

/* The newest @max checkpoints in @dir of the job of @us (job, job_id, whose.cluster). A step is
 * listed once for each content. Steps that are damaged or cannot be read are passed over. None
 * where there is no @dir.
 *
 * HSP_ENOMEM: want of memory or of descriptors, so nothing is known; HSP_EPERM: also a link;
 * HSP_ELIMIT, HSP_EIO: the folder cannot be read. */
enum hsp_status hsp_ckpt_find_all(const char *dir, const struct hsp_ckpt_info *us, size_t max,
                                  struct hsp_ckpts_found *ret, struct hsp_err *err);

#endif
