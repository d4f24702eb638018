/* Sends lines of events and metrics to hspmdctl as they come, and answers requests that wait for a
 * job.
 *
 * Example:   `events --follow` gets the stored lines, 4096 a reply, and then each group of
 *            lines when it is on disk; `wait mist --for step=100` gets one reply.
 * Purity:    shell (libuv, SQLite, clock).
 * Ownership: a follower or a waiting request ends with its connection.
 * Bounds:    4096 of them together; more are refused.
 */
#ifndef HSP_SUBSCRIPTIONS_H
#define HSP_SUBSCRIPTIONS_H
#include "daemon/app/state/sessions.h"
#include "daemon/cluster/cluster.h"

/* Takes EVENTS, LOGS and METRICS. The answer has the lines made before the request, unless they
 * could not be written. */
void hsp_app_follow(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
void hsp_app_follow_wake(struct hsp_app *a); /* new lines are on disk, or the disk takes none */
/* Takes WAIT. With `follow`, replies with `more` give each new reason why files of the job cannot
 * be written. */
void hsp_app_wait(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
/* Called when jobs may have changed, or when time has passed: answers the requests whose condition
 * now holds. */
void hsp_app_wait_check(struct hsp_app *a);
/* Returns the time at which the next waiting request times out; UINT64_MAX: none. */
hsp_msec hsp_app_wait_deadline(const struct hsp_app *a);
/* Called when the connection has closed: drops its followers and waiting requests. */
void hsp_app_client_gone(struct hsp_app *a, uint32_t conn);
void hsp_app_follow_free(struct hsp_app *a); /* followers and waiters */

#endif
