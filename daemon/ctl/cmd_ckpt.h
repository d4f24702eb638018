/* hspmdctl ckpt: lists, saves and verifies checkpoints.
 *
 * Purity: shell (asks hspmdd; starts hspmd-worker to verify). */
#ifndef HSP_CMD_CKPT_H
#define HSP_CMD_CKPT_H
#include "daemon/ctl/command.h"

/* The lines of the list, which are events, as a table: of checkpoints that were reported complete
 * also whether a node sees them now. False: there is a deferred error. */
bool hsp_ckpt_view(struct hsp_ctl *ctl, const char *lines);
int hsp_cmd_ckpt_list(struct hsp_ctl *ctl);
int hsp_cmd_ckpt_save(struct hsp_ctl *ctl);
int hsp_cmd_ckpt_verify(struct hsp_ctl *ctl);

#endif
