/* @@SENTENCE@@ cmd_plan: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_CMD_PLAN_H
#define HSP_CMD_PLAN_H
#include "daemon/ctl/command.h"

int hsp_cmd_plan(struct hsp_ctl *ctl);

#endif
