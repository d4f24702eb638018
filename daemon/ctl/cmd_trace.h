/* @@SENTENCE@@ cmd_trace: purpose to be written.
 *
 * Purity: shell.
 */
#ifndef HSP_CMD_TRACE_H
#define HSP_CMD_TRACE_H
#include "daemon/ctl/command.h"

int hsp_cmd_trace(struct hsp_ctl *ctl);

#endif
