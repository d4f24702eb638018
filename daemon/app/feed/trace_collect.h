/* Collects traces of running jobs: asked of rank 0 of the epoch, told by all its members, put
 * together on a pool thread.
 *
 * The happy path: TRACE goes to the node of rank 0; its executor tells all members in the next
 * vote; each answers TRACED when its steps are done. Failure modes:
 *  - The epoch ends before that (a switch, a loss, the end of the job): members send their spans so
 *    far, and after 2 s the trace is made of them, with a note.
 *  - A member is never heard of (its node has gone, hspmdd was away): the trace is made without it.
 *  - Nobody is heard of though steps go by: an error.
 *  - The administrator that asked goes away: forgotten.
 * hspmdd asks by itself, too: for two early steps of each epoch, to measure the devices
 * (hsp_profile_correct). Nobody gets that trace; another trace of the job waits for its end.
 *
 * Purity:    shell (libuv, clock).
 * Bounds:    one trace of a job, 16 traces at a time; hspmdd's own are not counted.
 */
#ifndef HSP_TRACE_COLLECT_H
#define HSP_TRACE_COLLECT_H
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"

/* Jobs may have changed, or time has passed. */
void hsp_app_trace_check(struct hsp_app *a);
/* When hsp_app_trace_check has something to do; UINT64_MAX: never. */
hsp_msec hsp_app_trace_deadline(const struct hsp_app *a);
/* The connection has closed: its traces are forgotten. */
void hsp_app_trace_gone(struct hsp_app *a, uint32_t conn);
void hsp_app_trace_free(struct hsp_app *a);
/* TRACED, of an agent. */
void hsp_app_traced(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m);
/* TRACE_JOB: answered when the steps are done. */
void hsp_app_trace(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m);
/* A step of @j has passed its vote: once in each epoch early steps are recorded, for planning. */
void hsp_app_trace_own(struct hsp_app *a, struct hsp_app_job *j);

#endif
