/* Writes facts and steps to the log, the store and the tables of status.
 *
 * Example:   the core's fact "node.dead" becomes a line of the log and, as JSON with the next
 *            number, a row. A pool thread writes up to 4096 rows in one transaction; then followers
 *            are told.
 * Purity:    shell (libuv, SQLite, clock, log).
 * Bounds:    65536 lines wait for a disk that takes nothing; more are lost, which the log says.
 */
#ifndef HSP_EVENT_LOG_H
#define HSP_EVENT_LOG_H
#include "daemon/cluster/cluster.h"

struct hsp_app;

void hsp_app_fact(struct hsp_app *a, const struct hsp_fact *f);
/* A STEP of @job, or the lines of all steps in a FINISHED. */
void hsp_app_metric(struct hsp_app *a, uint32_t job, const struct hsp_msg *m);
void hsp_app_flush(struct hsp_app *a); /* starts writing the pending lines */
/* Begins to read all stored lines; damaged ones are deleted, and the event store.damaged counts
 * them. Before that it tells whether the store was written anew. */
void hsp_app_feed_check(struct hsp_app *a);
void hsp_app_feed_free(struct hsp_app *a);

#endif
