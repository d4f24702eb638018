/* @@SENTENCE@@ cmd_check: purpose to be written.
 *
 * Purity:    shell (blocking network calls with the run's --timeout).
 */
#ifndef HSP_CMD_CHECK_H
#define HSP_CMD_CHECK_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"

/* The document of a check of nodes, as tables unless JSON is wanted, and remarks; the exit code. */
int hsp_check_view(struct hsp_ctl *ctl, const cJSON *doc);

int hsp_cmd_node_check(struct hsp_ctl *ctl);

#endif
