/* Gathers the notes of all ranks (lines with the metrics of steps, step_log.h) at rank 0, at the
 * end of a job.
 *
 * Purity: shell (files, and messages of the data mesh).
 * Bounds: one piece of 1 MiB is under way; rank 0 needs memory for the newest note of each step,
 * twice. */
#ifndef HSP_STEP_GATHER_H
#define HSP_STEP_GATHER_H
#include "worker/executor/step_log.h"

struct hsp_notes_faults {
    char damage[HSP_NOTES_DAMAGE];  /* file whose damaged lines are left out; "" none */
    char lacking[HSP_NOTES_DAMAGE]; /* steps without a line: "3 of 700 steps: 17, 30 to 31" */
};
/* Gathers the notes of all ranks over the data mesh; called by all ranks together. Rank 0 gets one
 * line per step in @out, in order of steps: the line of the newest epoch, leaving out lines of the
 * steps that PREPARE names as given up. Rank 0 gets the faults in *ret: the damage in the file of
 * the first rank with damaged lines, and the steps without a line. */
enum hsp_status hsp_metrics_merge(struct hsp_ex_epoch *e, struct hsp_buf *out,
                                  struct hsp_notes_faults *ret, struct hsp_err *err);

#endif
