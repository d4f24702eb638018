/* @@SENTENCE@@ trace_collect: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_TRACE_COLLECT_H
#define HSP_TRACE_COLLECT_H
#include "daemon/app/app.h"

/* Jobs may have changed, or time has passed. */
void hsp_app_trace_check(struct hsp_app *a);
hsp_msec hsp_app_trace_deadline(const struct hsp_app *a);
void hsp_app_trace_gone(struct hsp_app *a, uint32_t conn); /* who waited on it waits no more */
void hsp_app_trace_free(struct hsp_app *a);
/* TRACED, of an agent. */
void hsp_app_traced(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
/* TRACE_JOB: answered when the steps are done. */
void hsp_app_trace(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
/* A step of @j, which has passed its vote: once in each epoch its first ones are recorded, for planning. */
void hsp_app_trace_own(struct hsp_app *a, struct hsp_app_job *j);

#endif
