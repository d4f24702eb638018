/* hspmdctl status: prints the state of jobs, and of nodes by cmd_node.h.
 *
 * Purity: shell (blocking network calls with the run's --timeout). */
#ifndef HSP_CMD_STATUS_H
#define HSP_CMD_STATUS_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"

/* Prints the status document as text. False: it could not be written. */
bool hsp_status_view(struct hsp_ctl *ctl, const cJSON *doc);

int hsp_cmd_status(struct hsp_ctl *ctl);

#endif
