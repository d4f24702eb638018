/* @@SENTENCE@@ admin_queries: purpose to be written.
 *
 * Purity:    shell (libuv, SQLite, clock).
 */
#ifndef HSP_ADMIN_QUERIES_H
#define HSP_ADMIN_QUERIES_H
#include "daemon/app/app.h"

/* SUBMIT, PLAN, PROGRAM, GRAPH, CKPT list: answered after work on a pool thread. */
void hsp_app_query(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);

#endif
