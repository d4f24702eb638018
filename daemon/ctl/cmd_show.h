/* hspmdctl program show, graph show, plan show: prints the contents of a file, or the same of a job
 * at hspmdd.
 *
 * Purity: shell (reads files, asks hspmdd). */
#ifndef HSP_CMD_SHOW_H
#define HSP_CMD_SHOW_H
#include "daemon/ctl/command.h"

int hsp_cmd_program_show(struct hsp_ctl *ctl);
int hsp_cmd_plan_show(struct hsp_ctl *ctl);
int hsp_cmd_graph_show(struct hsp_ctl *ctl);

#endif
