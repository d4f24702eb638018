/* @@SENTENCE@@ admin_requests: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_ADMIN_REQUESTS_H
#define HSP_ADMIN_REQUESTS_H
#include "daemon/app/app.h"

/* The core's REPLY; NULL when the number is unknown. Taken off the list: free with _free. */
struct hsp_pending *hsp_app_pending_take(struct hsp_app *a, uint64_t number);
const struct hsp_pending *hsp_app_pending_find(const struct hsp_app *a, uint64_t number);
void hsp_app_pending_free(struct hsp_pending *p);
void hsp_app_pending_reply(struct hsp_app *a, uint64_t number, enum hsp_status st, uint32_t job,
                           const char *text);
/* Answers all that wait. */
void hsp_app_pending_end(struct hsp_app *a, enum hsp_status st, const char *text);
/* Gives the core an admin event for @cl's request. Takes over @rec and @plan_json. */
void hsp_app_admin(struct hsp_app *a, uint32_t conn, uint64_t request, const char *actor,
                   struct hsp_admin_event *ev, struct hsp_job_rec *rec, char *plan_json);
/* Whoever waited on this connection for a check of nodes waits no more. */
void hsp_app_checks_gone(struct hsp_app *a, uint32_t conn);
/* A request of hspmdctl. */
void hsp_app_request(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);

#endif
