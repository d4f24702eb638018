/* Marks the folder of a job as one in which it has begun (worker/state/ckpt_sign.h), before this
 * member says STARTED. A file system that does not answer holds up no epoch (disk_thread.h).
 *
 * Purity:  shell (files).
 * Threads: the run thread.
 */
#ifndef HSP_FOLDER_MARK_H
#define HSP_FOLDER_MARK_H
#include <limits.h>

#include "worker/executor/epoch.h"

#define HSP_MARK_MS 2000

/* The folder of the job's checkpoints and of its final model. */
void hsp_epoch_ckpt_dir(const struct hsp_ex_epoch *e, char out[PATH_MAX]);
/* Whether this member makes the folder of the job, and marks it. A shared one is made by rank 0
 * alone, where the job begins; of others each member makes its own. */
bool hsp_epoch_marks_folder(const struct hsp_ex_epoch *e);
/* A folder that cannot be marked, or does not answer within HSP_MARK_MS, is told in the log and
 * stops no training; where the job begins hspmdd is told, too. */
void hsp_epoch_mark_folder(struct hsp_ex_epoch *e);

#endif
