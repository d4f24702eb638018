/* Runs one entry of a schedule, which is a piece (a run of instructions of one queue) for one
 * micro-batch: runs its instructions with pacing, recording and replay. */
#ifndef HSP_ENTRY_H
#define HSP_ENTRY_H
#include "worker/exec/engine_impl.h"

/* Returns true if @entry is skipped because its micro-batch has no sequences on any rank of the
 * stage. */
bool hsp_entry_is_empty(const struct hsp_engine *e, const struct hsp_sched_entry *entry);
/* Runs all instructions of an entry. Returns HSP_ECANCELED if the engine was stopped. The message
 * of other errors names the step, the micro-batch and the instruction, unless a peer was lost or
 * the instruction is a vote or a seal. */
enum hsp_status hsp_run_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                              enum hsp_queue q, struct hsp_err *err);
/* Makes the rehearsing backend store the replayed runs of the entry, and takes the memory in which
 * the entry's moves pack messages. */
enum hsp_status hsp_rehearse_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                                   enum hsp_queue q, struct hsp_err *err);

#endif
