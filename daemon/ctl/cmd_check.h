/* hspmdctl node check: asks hspmdd to measure nodes, and shows the results.
 *
 * Purity: shell (blocking network calls with the run's --timeout). */
#ifndef HSP_CMD_CHECK_H
#define HSP_CMD_CHECK_H
#include <cjson/cJSON.h>

#include "daemon/ctl/command.h"

/* Shows the document of a check, as tables unless JSON is wanted, with remarks. Returns the exit
 * code. */
int hsp_check_view(struct hsp_ctl *ctl, const cJSON *doc);

int hsp_cmd_node_check(struct hsp_ctl *ctl);

#endif
