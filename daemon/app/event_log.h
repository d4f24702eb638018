/* @@SENTENCE@@ event_log: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_EVENT_LOG_H
#define HSP_EVENT_LOG_H
#include "daemon/app/app.h"

void hsp_app_fact(struct hsp_app *a, const struct hsp_fact *f);
void hsp_app_metric(struct hsp_app *a, uint32_t job, const struct hsp_msg *m);
void hsp_app_flush(struct hsp_app *a); /* starts writing what is pending */
void hsp_app_feed_free(struct hsp_app *a);

#endif
