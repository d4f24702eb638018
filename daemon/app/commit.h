/* @@SENTENCE@@ commit: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_COMMIT_H
#define HSP_COMMIT_H
#include "daemon/app/app.h"

void hsp_app_write_on(struct hsp_app *a); /* starts writing what waits, unless a thread is at it */

#endif
