/* hspmdctl backup: fetches a copy of hspmdd's store, made while it runs.
 *
 * Purity: shell (network, one file). */
#ifndef HSP_CMD_BACKUP_H
#define HSP_CMD_BACKUP_H
#include "daemon/ctl/command.h"

int hsp_cmd_backup(struct hsp_ctl *ctl);

#endif
