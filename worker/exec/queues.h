/* Runs the two queues of a schedule, compute and communication, and makes each entry wait for the
 * entries of the other queue that it needs. */
#ifndef HSP_QUEUES_H
#define HSP_QUEUES_H
#include "worker/exec/engine_impl.h"

/* Stores the failure @why if it is the first, wakes both threads, and aborts the transports, so
 * that a blocked operation returns. */
void hsp_engine_fail(struct hsp_engine *e, const struct hsp_err *why);
/* Main function of the thread of the comm queue; @arg is the engine. */
void *hsp_comm_main(void *arg);
/* Runs both queues of a schedule to their end, or to a failure, which it stores in the engine. When
 * it returns, no thread runs entries, but a device may not have done all entries yet. */
void hsp_run_schedule(struct hsp_engine *e, const struct hsp_sched *s, bool eval);
/* Makes the backend, all queues of which rehearse, store the replayed runs of the schedule. Call it
 * before the thread of the comm queue runs. Returns HSP_ECANCELED if hooks.ended returned true, or
 * errors of entries. */
enum hsp_status hsp_rehearse_schedule(struct hsp_engine *e, const struct hsp_sched *s,
                                      struct hsp_err *err);

#endif
