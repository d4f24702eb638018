/* @@SENTENCE@@ cmd_status: purpose to be written.
 *
 * Purity:    shell (blocking network calls with the run's --timeout).
 */
#ifndef HSP_CMD_STATUS_H
#define HSP_CMD_STATUS_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"

/* The status document as text, of all or of the one it was asked for. False: could not be written. */
bool hsp_status_view(struct hsp_ctl *ctl, const cJSON *doc);

int hsp_cmd_status(struct hsp_ctl *ctl);
int hsp_cmd_node(struct hsp_ctl *ctl);
/* Its nodes; with @one all there is about the only one. */
bool hsp_node_view(struct hsp_ctl *ctl, const cJSON *nodes, bool one);

#endif
