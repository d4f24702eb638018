/* hspmdctl status, node list, node show: prints the state of jobs and nodes.
 *
 * Purity: shell (blocking network calls with the run's --timeout). */
#ifndef HSP_CMD_STATUS_H
#define HSP_CMD_STATUS_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"

/* Prints the status document as text. False: it could not be written. */
bool hsp_status_view(struct hsp_ctl *ctl, const cJSON *doc);

int hsp_cmd_status(struct hsp_ctl *ctl);
int hsp_cmd_node(struct hsp_ctl *ctl);
/* Prints a table of the nodes; with @one all details of the only node. False: as
 * hsp_status_view. */
bool hsp_node_view(struct hsp_ctl *ctl, const cJSON *nodes, bool one);

#endif
