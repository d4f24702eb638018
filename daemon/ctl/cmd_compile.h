/* hspmdctl compile: makes a program file of a job and a plan.
 *
 * Purity: shell (reads and writes files). */
#ifndef HSP_CMD_COMPILE_H
#define HSP_CMD_COMPILE_H
#include "daemon/ctl/command.h"

int hsp_cmd_compile(struct hsp_ctl *ctl);

#endif
