/* @@SENTENCE@@ status_doc: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_STATUS_DOC_H
#define HSP_STATUS_DOC_H
#include "daemon/app/app.h"

/* The status document; @name: one job, "" all. NULL without memory; cJSON_free. */
char *hsp_app_status(struct hsp_app *a, const char *name);
/* One line for the service manager. */
void hsp_app_status_line(struct hsp_app *a, char *ret, size_t size);

#endif
