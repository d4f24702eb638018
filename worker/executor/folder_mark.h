/* Marks the folder of a job as a folder in which the job has begun (worker/state/ckpt_sign.h),
 * before this member sends STARTED. A file system that does not answer holds up no epoch
 * (disk_thread.h).
 *
 * Purity:  shell (files).
 * Threads: the run thread.
 */
#ifndef HSP_FOLDER_MARK_H
#define HSP_FOLDER_MARK_H
#include <limits.h>

#include "worker/executor/epoch.h"

#define HSP_MARK_MS 2000

/* Writes to @out the folder of the job's checkpoints and of its final model. */
void hsp_epoch_ckpt_dir(const struct hsp_ex_epoch *e, char out[PATH_MAX]);
/* Returns true if this member makes the folder of the job and marks it. Rank 0 alone makes a shared
 * folder, where the job begins. Each member makes a folder that is not shared. */
bool hsp_epoch_marks_folder(const struct hsp_ex_epoch *e);
/* Marks the folder. A folder that cannot be marked, or that does not answer within HSP_MARK_MS, is
 * logged and stops no training; where the job begins it is also reported to hspmdd. */
void hsp_epoch_mark_folder(struct hsp_ex_epoch *e);

#endif
