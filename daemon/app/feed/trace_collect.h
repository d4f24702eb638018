/* Collects traces of running jobs: asked of rank 0 of the epoch, told by all its members, put
 * together on a pool thread.
 *
 * The happy path: TRACE goes to the node of rank 0; its executor tells all members in the next
 * vote; each answers TRACED when its steps are done. Failure modes:
 *  - The epoch ends before the steps are done (a switch, a loss, the end of the job): members send
 *    the spans that they have, and after 2 s the trace is made of these spans, with a note.
 *  - A member never reports (its node has gone, or hspmdd was not running then): the trace is made
 *    without that member.
 *  - No member reports although steps go by: the request fails.
 *  - The administrator that asked disconnects: the trace is dropped.
 * hspmdd also asks by itself, for two early steps of each epoch, to measure the devices
 * (hsp_profile_correct). Nobody gets that trace; another trace of the job waits until it has ended.
 *
 * Purity:    shell (libuv, clock).
 * Bounds:    one trace of a job, 16 traces at a time; hspmdd's own are not counted.
 */
#ifndef HSP_TRACE_COLLECT_H
#define HSP_TRACE_COLLECT_H
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"

/* Called when jobs may have changed, or when time has passed: ends the traces that are complete or
 * late. */
void hsp_app_trace_check(struct hsp_app *a);
/* Returns the time at which hsp_app_trace_check must be called next; UINT64_MAX: never. */
hsp_msec hsp_app_trace_deadline(const struct hsp_app *a);
/* The connection has closed: its traces are forgotten. */
void hsp_app_trace_gone(struct hsp_app *a, uint32_t conn);
void hsp_app_trace_free(struct hsp_app *a);
/* Takes TRACED, the part of a trace that an agent sends. */
void hsp_app_traced(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
/* Takes TRACE_JOB, the request of an administrator. The answer leaves when the steps are done. */
void hsp_app_trace(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
/* Called when a step of @j has been voted for by all ranks. Once in each epoch this starts a trace
 * of a few early steps, by whose times the planner corrects the speeds of devices. */
void hsp_app_trace_own(struct hsp_app *a, struct hsp_app_job *j);

#endif
