/* Records the next steps of an epoch on all members from the same step on, so that a trace shows
 * one step on all devices.
 */
#ifndef HSP_EPOCH_TRACE_H
#define HSP_EPOCH_TRACE_H
#include "worker/executor/epoch.h"

/* Rank 0: all members are to record @steps steps, as trace @number. */
void hsp_epoch_trace_want(struct hsp_ex_epoch *e, uint32_t number, uint32_t steps);
/* The flags of this rank's vote record that say so; once. The lock is held. */
uint32_t hsp_epoch_trace_flags(struct hsp_ex_epoch *e);
/* The vote has passed in which rank 0 had @flags: a trace they ask for begins with the next
 * step. */
void hsp_epoch_trace_passed(struct hsp_ex_epoch *e, const struct hsp_vote *v, uint32_t flags);
/* Of the replication thread: it did @what (a constant) since @from_ns. */
void hsp_epoch_trace_state(struct hsp_ex_epoch *e, const char *what, int64_t from_ns);
/* Between steps, on the run thread: TRACED when the steps are done, or as far as they are when
 * @now. */
void hsp_epoch_trace_tell(struct hsp_ex_epoch *e, bool now);

#endif
