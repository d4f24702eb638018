/* Queues the core's questions to the planner and answers them on pool threads (W2).
 *
 * Role:      START_PLAN puts a question here; its answer is posted as PLAN_DONE. Four runs at a
 *            time, urgent questions first; a run that is cancelled ends early and its answer is
 *            dropped.
 * Purity:    shell (libuv, clock).
 */
#ifndef HSP_PLAN_QUEUE_H
#define HSP_PLAN_QUEUE_H
#include "daemon/cluster/cluster.h"

struct hsp_app;

void hsp_app_plan_start(struct hsp_app *a, const struct hsp_plan_request *r);
void hsp_app_plan_cancel(struct hsp_app *a, uint32_t job, uint64_t ticket);
void hsp_app_plan_cancel_all(struct hsp_app *a);
/* Starts as many questions as may run. Called when the core has had a PLAN_DONE: an urgent question
 * of that step goes before the questions that waited. */
void hsp_app_plan_next(struct hsp_app *a);

#endif
