/* Finds the owner of a step in checkpoint.path/JOB, since only its owner may delete a checkpoint.
 *
 * Two clusters may share checkpoint.path, and a new job may have the name of an ended job. Then
 * both write to the same folder. Manifest and shards name the cluster and the job by their ids.
 *
 * Example: job 7 of cluster A commits step 100.
 *
 *   step-0000000100 names          owner             job 7
 *   (there is no manifest)         NOBODY            replaces it
 *   cluster A, job 7               OURS              replaces it: it is from before a roll-back
 *   cluster A, job 3               EARLIER           renames it to step-0000000100.job-3
 *   cluster B                      FOREIGN           writes no checkpoint, and says why
 *   manifest damaged, shards say
 *     cluster A, job 7             OURS, damaged     replaces it
 *   manifest damaged, shards too   UNKNOWN           writes no checkpoint, and says why
 *
 * Purity:  shell (reads files).
 */
#ifndef HSP_CKPT_OWNER_H
#define HSP_CKPT_OWNER_H
#include "worker/state/ckpt_files.h"

enum hsp_ckpt_owner_kind {
    HSP_CKPT_NOBODY,  /* the folder is not there, or has no manifest: it is half deleted */
    HSP_CKPT_OURS,    /* of this job; or a readable manifest that names neither cluster nor job */
    HSP_CKPT_EARLIER, /* of another job of this name, in this cluster or in none */
    HSP_CKPT_FOREIGN, /* of another cluster */
    HSP_CKPT_UNKNOWN  /* cannot be read, or is of another format */
};
struct hsp_ckpt_owner {
    enum hsp_ckpt_owner_kind kind;
    uint32_t job;       /* of EARLIER */
    bool damaged;       /* its manifest is; the shards have named the owner */
    bool later;         /* OURS, of a later epoch: the caller's epoch is over */
    uint64_t epoch;     /* of OURS; damaged: the last one that a shard names */
    struct hsp_err why; /* of UNKNOWN */
};

/* Returns true if the manifest @step is of the job of @us: HSP_CKPT_OURS. */
bool hsp_ckpt_is_of(const struct hsp_ckpt_info *step, const struct hsp_ckpt_info *us);
/* The owner of the folder @name in the folder @job, seen from the job of @us. HSP_ENOMEM: want of
 * memory or of descriptors, so the owner is not known. */
enum hsp_status hsp_ckpt_owner_of(const struct hsp_folder *job, const char *name,
                                  const struct hsp_ckpt_info *us, struct hsp_ckpt_owner *ret,
                                  struct hsp_err *err);
/* As hsp_ckpt_owner_of, and keeps the folder open, so that the caller deletes this very folder
 * (hsp_folder_remove_open): another epoch may put another step in its place at any moment.
 * @ret_step: hsp_folder_close(); closed where there is no folder, and after a failure. */
enum hsp_status hsp_ckpt_owner_open(const struct hsp_folder *job, const char *name,
                                    const struct hsp_ckpt_info *us, struct hsp_ckpt_owner *ret,
                                    struct hsp_folder *ret_step, struct hsp_err *err);

#endif
