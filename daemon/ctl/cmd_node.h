/* hspmdctl node list, node show: prints the state of nodes, in the order of their names.
 *
 * Purity: shell (blocking network calls with the run's --timeout). */
#ifndef HSP_CMD_NODE_H
#define HSP_CMD_NODE_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"

/* Prints a table of the nodes; with @one all details of the only node. False: it could not be
 * written. */
bool hsp_node_view(struct hsp_ctl *ctl, const cJSON *nodes, bool one);

int hsp_cmd_node(struct hsp_ctl *ctl);

#endif
