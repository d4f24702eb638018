/* Draws the schedule of a plan with predicted times (`plan --schedule`).
 *
 * Purity: shell (writes to ctl->out). */
#ifndef HSP_PLAN_SCHEDULE_H
#define HSP_PLAN_SCHEDULE_H

#include "daemon/ctl/command.h"
#include "daemon/ctl/job_load.h"

/* @how: text | trace. Returns the exit code. */
int hsp_plan_schedule(struct hsp_ctl *ctl, const struct hsp_loaded *l, const struct hsp_planned *p,
                      const struct hsp_cluster_desc *cluster, const char *how);

#endif
