/* hspmdctl plan: prints the plan of a job and its prices, and changes nothing.
 *
 * Purity: shell (reads files; asks hspmdd for --live). */
#ifndef HSP_CMD_PLAN_H
#define HSP_CMD_PLAN_H
#include "daemon/ctl/command.h"

int hsp_cmd_plan(struct hsp_ctl *ctl);

#endif
