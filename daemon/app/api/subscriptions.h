/* @@SENTENCE@@ subscriptions: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_SUBSCRIPTIONS_H
#define HSP_SUBSCRIPTIONS_H
#include "daemon/app/app.h"

/* EVENTS, LOGS, METRICS. */
void hsp_app_follow(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
void hsp_app_follow_wake(struct hsp_app *a); /* new events are on disk */
void hsp_app_wait(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
void hsp_app_wait_check(struct hsp_app *a);
hsp_msec hsp_app_wait_deadline(const struct hsp_app *a);
void hsp_app_client_gone(struct hsp_app *a, uint32_t conn);
void hsp_app_follow_free(struct hsp_app *a);

#endif
