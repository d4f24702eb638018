/* @@SENTENCE@@ cmd_submit: purpose to be written.
 *
 * Purity:    shell (blocking network calls with the run's --timeout).
 */
#ifndef HSP_CMD_SUBMIT_H
#define HSP_CMD_SUBMIT_H
#include "daemon/ctl/command.h"

/* Shared by commands: plan --live and submit --dry-run; wait and submit --wait (0: no limit). Both
 * give the exit code; @exit_code: HSP_EXIT_WOULD_CHANGE when the job does not run just this plan. */
int hsp_plan_live(struct hsp_ctl *ctl, bool exit_code);

int hsp_cmd_submit(struct hsp_ctl *ctl);

#endif
