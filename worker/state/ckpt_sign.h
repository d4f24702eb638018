/* Marks the folder of a job with an empty file at the first step of the job, so that a folder
 * without checkpoints is told from a path that is not mounted.
 *
 * Example: job 7 of cluster 0123..ef is called mist, and begins.
 *
 *   DIR = /srv/ckpt/mist holds                  meaning for job 7
 *   begun.job-7.0123..ef, no step               it began here, and has no checkpoint here
 *   nothing, or there is no DIR                 not known: /srv/ckpt may not be mounted
 *   begun.job-3.0123..ef                        not known: job 3 had the name before
 *
 * Only the process that marks DIR makes it, or a person. Any later writer finds DIR there, or the
 * file system is not mounted. A folder made in its place would fill the disk below with files that
 * no reader finds again.
 *
 * Purity: shell (files). DIR is not followed where it is a link (folder.h).
 */
#ifndef HSP_CKPT_SIGN_H
#define HSP_CKPT_SIGN_H
#include "worker/state/ckpt.h"
#include "worker/state/folder.h"

/* Makes @dir, and the file of the job of @us (job_id, whose.cluster) in it, and syncs both; any
 * number of processes may do so at a time. @shared: the folder above @dir is one of all nodes, so
 * it is a mount or in one, and is not made: HSP_ENOENT names the remedy. Errors as
 * hsp_folder_open. */
enum hsp_status hsp_ckpt_sign(const char *dir, const struct hsp_ckpt_info *us, bool shared,
                              struct hsp_err *err);
/* Opens @dir to write to it; as hsp_folder_open, but never makes it: HSP_ENOENT names the
 * remedy. */
enum hsp_status hsp_ckpt_open_folder(const char *dir, struct hsp_folder *ret, struct hsp_err *err);
/* *ret: whether the file of the job of @us is in @dir; false where there is no @dir. An error means
 * that this is not known: errors of hsp_folder_open but HSP_ENOENT. */
enum hsp_status hsp_ckpt_is_signed(const char *dir, const struct hsp_ckpt_info *us, bool *ret,
                                   struct hsp_err *err);

#endif
