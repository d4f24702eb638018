/* hspmdctl ckpt: lists, saves and verifies checkpoints.
 *
 * Purity: shell (asks hspmdd; starts hspmd-worker to verify). */
#ifndef HSP_CMD_CKPT_H
#define HSP_CMD_CKPT_H
#include "daemon/ctl/command.h"

int hsp_cmd_ckpt_list(struct hsp_ctl *ctl);
int hsp_cmd_ckpt_save(struct hsp_ctl *ctl);
int hsp_cmd_ckpt_verify(struct hsp_ctl *ctl);

#endif
