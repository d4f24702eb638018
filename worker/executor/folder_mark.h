/* Marks the checkpoint folder of a job before this member sends STARTED (worker/state/ckpt_sign.h).
 * By the mark hspmdd later knows that the path is mounted, also if the folder has no checkpoint. A
 * file system that does not answer does not stop the epoch (disk_thread.h).
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
/* Returns true if this member makes the folder of the job and marks it. Only rank 0 makes a shared
 * folder, and only when the job begins. Each member makes its own folder if the folder is not
 * shared. */
bool hsp_epoch_marks_folder(const struct hsp_ex_epoch *e);
/* Marks the folder, if this member has to. If the folder cannot be marked, or does not answer
 * within HSP_MARK_MS, the function logs that and the training goes on. When the job begins, rank 0
 * also reports a folder that cannot be marked to hspmdd. */
void hsp_epoch_mark_folder(struct hsp_ex_epoch *e);

#endif
