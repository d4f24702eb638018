/* Records the next steps of an epoch on all members from the same step on, so that a trace shows
 * one step on all devices.
 */
#ifndef HSP_EPOCH_TRACE_H
#define HSP_EPOCH_TRACE_H
#include "worker/executor/epoch.h"

/* At rank 0: asks all members to record @steps steps, as trace @number. */
void hsp_epoch_trace_want(struct hsp_ex_epoch *e, uint32_t number, uint32_t steps);
/* Returns the flags that ask for the trace, once, for this rank's vote record. The caller holds the
 * lock of the epoch. */
uint32_t hsp_epoch_trace_flags(struct hsp_ex_epoch *e);
/* Takes the passed vote @v, in which rank 0 had @flags: a trace that @flags ask for begins with the
 * next step. */
void hsp_epoch_trace_passed(struct hsp_ex_epoch *e, const struct hsp_vote *v, uint32_t flags);
/* Records that the replication thread did @what (a constant) from @from_ns until now. */
void hsp_epoch_trace_state(struct hsp_ex_epoch *e, const char *what, int64_t from_ns);
/* Sends TRACED when the traced steps are done; with @now sends the steps that are done so far. The
 * run thread, between steps. */
void hsp_epoch_trace_tell(struct hsp_ex_epoch *e, bool now);

#endif
