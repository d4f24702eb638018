/* @@SENTENCE@@ sessions: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_SESSIONS_H
#define HSP_SESSIONS_H
#include "daemon/app/app.h"

struct hsp_caller *hsp_app_client(struct hsp_app *a, uint32_t conn); /* NULL: gone */
/* Sends; a connection that does not take it is dropped. */
void hsp_app_send(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
/* @blob: text of the answer, may be NULL. */
void hsp_app_reply(struct hsp_app *a, uint32_t conn, uint64_t request, enum hsp_status st,
                   const char *message, const char *blob, size_t len, bool more);

#endif
