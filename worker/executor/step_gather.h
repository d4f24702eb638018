/* Gathers the notes of all ranks (step_log.h) at rank 0, at the end of a job.
 *
 * Purity: shell (files, and messages of the data mesh).
 * Bounds: a piece of 1 MiB on its way; at rank 0 the newest note of each step, and as much
 * again. */
#ifndef HSP_STEP_GATHER_H
#define HSP_STEP_GATHER_H
#include "worker/executor/step_log.h"

struct hsp_notes_faults {
    char damage[HSP_NOTES_DAMAGE];  /* lines of which file are left out, "" none */
    char lacking[HSP_NOTES_DAMAGE]; /* steps that no line is of: "3 of 700 steps: 17, 30 to 31" */
};
/* All ranks together, over the data mesh: rank 0 gets the lines of all, one per step (the newest
 * epoch's that counts, as PREPARE says what was given up), in order of steps, into @out, and what
 * is wrong with them into *ret; of damage that in the file of the first rank that has such
 * lines. */
enum hsp_status hsp_metrics_merge(struct hsp_ex_epoch *e, struct hsp_buf *out,
                                  struct hsp_notes_faults *ret, struct hsp_err *err);

#endif
