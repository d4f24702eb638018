/* Writes TensorBoard event files to disk:
 * STATE_DIR/jobs/NAME-ID/tb/events.out.tfevents.SECONDS.HOST.PID (ID: the number of the job), a new
 * one for each start of the daemon, because the last record of an old one may be torn.
 *
 * Purity:  shell (files).
 * Threads: any, one call at a time for one job.
 */
#ifndef HSP_TENSORBOARD_FILE_H
#define HSP_TENSORBOARD_FILE_H
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/wire/msg.h"

#define HSP_TB_FOLDER (HSP_NAME_MAX + 12) /* NAME-ID and a NUL */

/* Appends records. @job: NAME-ID. @start_s: Unix time of the daemon's start, in the file's
 * name. HSP_EIO, HSP_ENOSPC, HSP_EPERM; an unfinished record is then cut off again. */
enum hsp_status hsp_tb_append(const char *state_dir, const char *job, int64_t start_s,
                              const struct hsp_buf *records, struct hsp_err *err);

#endif
