/* @@SENTENCE@@ cmd_compile: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_CMD_COMPILE_H
#define HSP_CMD_COMPILE_H
#include "daemon/ctl/command.h"

/* The commands. */
int hsp_cmd_compile(struct hsp_ctl *ctl);

#endif
