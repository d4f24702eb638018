/* Answers BACKUP: makes a copy of the store while it is in use, and sends it in pieces.
 *
 * Threads: copying and reading on a pool thread, one request at a time.
 * Purity:  shell (files).
 * Example: `what` "" makes the copy and answers {"backup": 3, "bytes": 81920}; `what` "3", `since` 0
 *          answers with the first piece, and so on; with the last one the copy is deleted. A new copy
 *          takes the place of one that nobody has fetched. */
#ifndef HSP_BACKUP_H
#define HSP_BACKUP_H
#include "daemon/app/state/sessions.h"

void hsp_app_backup(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
/* At the start: what a backup that was not fetched has left. */
void hsp_app_backup_tidy(const struct hsp_app *a);

#endif
