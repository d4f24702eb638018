/* hspmdctl verify: checks on this machine that a plan computes the same as one device.
 *
 * The plan is that of a job file, a plan file alone, or the plan of a job at hspmdd. A worker runs
 * its programs beside the program of one device and compares.
 *
 * Purity: shell (a file of its own in $TMPDIR, gone before it returns; hspmd-worker). */
#ifndef HSP_CMD_VERIFY_H
#define HSP_CMD_VERIFY_H
#include "daemon/ctl/command.h"
#include "daemon/ctl/plan_pick.h"

/* Compiles the job's own templates at small extents and has hspmd-worker compare them with one
 * device. The worker's report goes to @out. *ret_code is its exit status, HSP_EXIT_OK when nothing
 * differs. Errors are those of hsp_write_programs and hsp_worker_call. */
enum hsp_status hsp_verify_plan(struct hsp_ctl *ctl, const struct hsp_loaded *l,
                                const struct hsp_pick *how, FILE *out, int *ret_code,
                                struct hsp_err *err);

int hsp_cmd_verify(struct hsp_ctl *ctl);

#endif
