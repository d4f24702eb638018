/* @@SENTENCE@@ queues: purpose to be written. */
#ifndef HSP_QUEUES_H
#define HSP_QUEUES_H
#include "worker/exec/runner.h"

/* Records the first failure and wakes everybody; hangs up so that a blocked operation returns. */
void hsp_engine_fail(struct hsp_engine *e, const struct hsp_err *why);
/* Counts the seconds of compute entries that the comm queue has awaited; after it was finished. */
enum hsp_status hsp_spans_take(struct hsp_engine *e, struct hsp_err *err);
bool hsp_measures(const struct hsp_engine *e); /* whether the device tells its seconds */
/* The thread of the comm queue; @arg is the engine. */
void *hsp_comm_main(void *arg);
/* Runs both queues of a schedule to their end, or to a failure; both threads are out on return, the
 * device may be behind. */
void hsp_run_schedule(struct hsp_engine *e, const struct hsp_sched *s, bool eval);
/* Waits for everything that was given to a queue of the device. */
enum hsp_status hsp_queue_finish(struct hsp_engine *e, enum hsp_devq q, struct hsp_err *err);

#endif
