/* @@SENTENCE@@ cmd_show: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_CMD_SHOW_H
#define HSP_CMD_SHOW_H
#include "daemon/ctl/command.h"

int hsp_cmd_program_show(struct hsp_ctl *ctl);
int hsp_cmd_plan_show(struct hsp_ctl *ctl);
int hsp_cmd_graph_show(struct hsp_ctl *ctl);

#endif
