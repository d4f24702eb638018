/* @@SENTENCE@@ plan_queue: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_PLAN_QUEUE_H
#define HSP_PLAN_QUEUE_H
#include "daemon/app/app.h"

void hsp_app_plan_start(struct hsp_app *a, const struct hsp_plan_request *r);
void hsp_app_plan_cancel(struct hsp_app *a, uint32_t job, uint64_t ticket);
void hsp_app_plan_cancel_all(struct hsp_app *a);

#endif
