/* hspmdctl trace: has hspmdd collect a trace of some steps, and writes it to a file.
 *
 * Purity: shell (asks hspmdd, writes the file). */
#ifndef HSP_CMD_TRACE_H
#define HSP_CMD_TRACE_H
#include "daemon/ctl/command.h"

int hsp_cmd_trace(struct hsp_ctl *ctl);

#endif
