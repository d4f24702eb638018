/* Records the next steps of an epoch on all members, beginning with the same step, so that a trace
 * shows each step on all devices.
 */
#ifndef HSP_EPOCH_TRACE_H
#define HSP_EPOCH_TRACE_H
#include "worker/executor/epoch.h"

/* Called at rank 0: asks all members to record @steps steps, as trace @number. */
void hsp_epoch_trace_want(struct hsp_ex_epoch *e, uint32_t number, uint32_t steps);
/* Returns the flags for this rank's vote record that ask for the trace; the next call returns 0.
 * The caller has locked the epoch. */
uint32_t hsp_epoch_trace_flags(struct hsp_ex_epoch *e);
/* Called when vote @v has passed, in which the record of rank 0 had @flags: if @flags ask for a
 * trace, recording begins with the next step. */
void hsp_epoch_trace_passed(struct hsp_ex_epoch *e, const struct hsp_vote *v, uint32_t flags);
/* Records that the replication thread did @what (a string constant) from @from_ns until now. */
void hsp_epoch_trace_state(struct hsp_ex_epoch *e, const char *what, int64_t from_ns);
/* Sends TRACED when the traced steps are done; with @now sends the traced steps that are done so
 * far. Called by the run thread between steps. */
void hsp_epoch_trace_tell(struct hsp_ex_epoch *e, bool now);

#endif
