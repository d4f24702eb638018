/* hspmdctl submit, and plan --live: sends a job file to hspmdd.
 *
 * Purity: shell (blocking network calls with the run's --timeout). */
#ifndef HSP_CMD_SUBMIT_H
#define HSP_CMD_SUBMIT_H
#include "daemon/ctl/command.h"

/* Shows the plan that hspmdd would make now (plan --live, submit --dry-run). Returns the exit code;
 * with @exit_code HSP_EXIT_WOULD_CHANGE when the job does not run just this plan. */
int hsp_plan_live(struct hsp_ctl *ctl, bool exit_code);

int hsp_cmd_submit(struct hsp_ctl *ctl);

#endif
