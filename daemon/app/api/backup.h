/* Answers BACKUP: makes a copy of the store while it is in use, and sends it in pieces.
 *
 * Threads: copying and reading on a pool thread, one request at a time.
 * Purity:  shell (files).
 * Example: `what` "" makes the copy and answers {"backup": 3, "bytes": 81920}; `what` "3", `since`
 *          0 answers with the first piece, and so on. The copy goes with the last piece, with its
 *          caller's connection, or when another copy is begun; it has no name once it is made. */
#ifndef HSP_BACKUP_H
#define HSP_BACKUP_H
#include "daemon/app/state/sessions.h"

void hsp_app_backup(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
void hsp_app_backup_gone(struct hsp_app *a, uint32_t conn); /* the connection is closed */
void hsp_app_backup_end(struct hsp_app *a);                 /* lets the copy go, if there is one */
/* At the start: deletes a copy in whose making hspmdd ended. */
void hsp_app_backup_tidy(const struct hsp_app *a);

#endif
