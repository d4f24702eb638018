/* Works out requests that take time on a pool thread, so that the loop goes on: checking and
 * planning a job, dumps of graphs and programs, the checkpoints that the feed knows of.
 *
 * Threads:   the pool thread works on a copy of the question and on records that are counted.
 * Purity:    shell (libuv, SQLite).
 */
#ifndef HSP_ADMIN_QUERIES_H
#define HSP_ADMIN_QUERIES_H
#include "daemon/app/state/sessions.h"

/* SUBMIT, PLAN, PROGRAM, GRAPH, CKPT list, whose answer ends with @tail. The answer goes to the
 * connection if it is still open. */
void hsp_app_query(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                   const char *tail);

#endif
