/* Runs the two queues of a schedule, compute and communication, and keeps them in order. */
#ifndef HSP_QUEUES_H
#define HSP_QUEUES_H
#include "worker/exec/engine_impl.h"

/* Records the first failure, wakes both threads, and aborts the transports so that a blocked
 * operation returns. */
void hsp_engine_fail(struct hsp_engine *e, const struct hsp_err *why);
/* The thread of the comm queue; @arg is the engine. */
void *hsp_comm_main(void *arg);
/* Runs both queues of a schedule to their end, or to a failure. On return no thread runs entries;
 * the device may be behind. */
void hsp_run_schedule(struct hsp_engine *e, const struct hsp_sched *s, bool eval);
/* Has the backend, all queues of which rehearse, keep the replayed runs of the schedule. Called
 * before the thread of the comm queue runs. */
enum hsp_status hsp_rehearse_schedule(struct hsp_engine *e, const struct hsp_sched *s,
                                      struct hsp_err *err);

#endif
