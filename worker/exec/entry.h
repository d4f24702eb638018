/* Runs one entry of a schedule: all instructions of a piece for one micro-batch, with pacing,
 * recording and replay around them.
 */
#ifndef HSP_ENTRY_H
#define HSP_ENTRY_H
#include "worker/exec/engine_impl.h"

/* Whether an entry is passed over, because its micro-batch has no sequences on any rank of the
 * stage. */
bool hsp_entry_is_empty(const struct hsp_engine *e, const struct hsp_sched_entry *entry);
/* Runs all instructions of an entry. HSP_ECANCELED when the engine was stopped; other errors name
 * the step, the micro-batch and the instruction. */
enum hsp_status hsp_run_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                              enum hsp_queue q, struct hsp_err *err);
/* Has the backend, which rehearses, keep the replayed runs of the entry, and takes the memory in
 * which its messages are packed. */
enum hsp_status hsp_rehearse_piece(struct hsp_engine *e, const struct hsp_sched_entry *entry,
                                   enum hsp_queue q, struct hsp_err *err);

#endif
