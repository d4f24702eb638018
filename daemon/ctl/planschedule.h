/* The schedule of a plan, drawn with predicted times (`plan --schedule`).
 *
 * Purity: shell (writes to ctl->out). */
#ifndef HSP_PLANSCHEDULE_H
#define HSP_PLANSCHEDULE_H

#include "daemon/ctl/command.h"
#include "daemon/ctl/jobload.h"

/* @how: text | trace. Returns the exit code. */
int hsp_plan_schedule(struct hsp_ctl *ctl, const struct hsp_loaded *l, const struct hsp_planned *p,
                      const struct hsp_cluster_desc *cluster, const char *how);

#endif
