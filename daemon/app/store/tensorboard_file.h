/* TensorBoard event files on disk: STATE_DIR/jobs/NAME/tb/events.out.tfevents.SECONDS.HOST.PID, a
 * new one for each start of the daemon, because the last record of an old one may be torn.
 *
 * Purity:  shell (files).
 * Threads: any, one call at a time for one job.
 */
#ifndef HSP_TENSORBOARD_FILE_H
#define HSP_TENSORBOARD_FILE_H
#include "proto/base/buf.h"
#include "proto/base/err.h"

/* Appends records. @job: a valid name. @start_s: Unix time of the daemon's start, in the file's
 * name. HSP_EIO, HSP_ENOSPC, HSP_EPERM; what was begun is then cut off again. */
enum hsp_status hsp_tb_append(const char *state_dir, const char *job, int64_t start_s,
                              const struct hsp_buf *records, struct hsp_err *err);

#endif
