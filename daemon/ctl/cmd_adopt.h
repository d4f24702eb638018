/* hspmdctl job adopt, node adopt, node discard: handles jobs that agents keep and hspmdd has no
 * rows of, or old ones.
 *
 * Purity: shell (network). */
#ifndef HSP_CMD_ADOPT_H
#define HSP_CMD_ADOPT_H
#include "daemon/ctl/command.h"

int hsp_cmd_job_adopt(struct hsp_ctl *ctl);
int hsp_cmd_node_adopt(struct hsp_ctl *ctl);
int hsp_cmd_node_discard(struct hsp_ctl *ctl);

#endif
