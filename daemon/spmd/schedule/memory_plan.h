/* Assigns offsets to tensors in the epoch's memory, in a state slot and in host memory, so that
 * tensors that never live at once share bytes.
 *
 *   STATE    one after the other in the slot's area, as in the binding's table
 *   STEP     one after the other
 *   MICRO    behind STEP; those of Eval begin above STEP again, as no micro-batch of training is
 *            then in flight
 *   SCRATCH  above MICRO (in Eval above the MICRO tensors of Eval, in Post above STEP): first fit
 *            among the tensors of its segment that are in use at the same instructions
 *   HOST     one after the other in the host's memory
 *
 * The waits of the schedule (device_schedule.h) keep uses of the same bytes apart in time. All
 * offsets are multiples of 64.
 *
 * Purity: pure. */
#ifndef HSP_MEMORY_PLAN_H
#define HSP_MEMORY_PLAN_H
#include "proto/program/program.h"

/* @early: sums of gradients get memory of their own, that they may begin during backward
 * (early_sums.h). Fills offset of each tensor, memory_bytes, host_bytes, state_bytes and comm_bytes
 * of @p.
 * HSP_ELIMIT: more than 2^62 bytes; HSP_ENOMEM. */
enum hsp_status hsp_memory_assign(struct hsp_program *p, bool early, struct hsp_err *err);
/* comm_bytes of the binding of @p with its moves: a buffer to pack messages that leave and one for
 * messages that come, each for its largest move or bucket, in bytes of the type that travels; and
 * once more the largest messages of one move, of which the transport keeps a copy (a send never
 * waits; a message that comes early waits). kept_messages.h adds those of several moves. */
int64_t hsp_memory_comm(const struct hsp_program *p);
/* Bytes of cell @cell of move @m of instruction @instr, for the largest micro-batch. */
int64_t hsp_memory_of_cell(const struct hsp_program *p, uint32_t instr, const struct hsp_move *m,
                           uint32_t cell);
/* Bytes of all cells of move @m of instruction @instr, for the largest micro-batch. */
int64_t hsp_memory_of_move(const struct hsp_program *p, uint32_t instr, const struct hsp_move *m);

#endif
