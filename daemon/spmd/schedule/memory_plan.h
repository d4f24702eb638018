/* Offsets of tensors: where each lives in the epoch's memory and in a state slot.
 *
 * STATE: one after the other in the slot's area, as in the binding's table. STEP, then MICRO: one after the other; those of
 * Eval begin above STEP again (no micro-batch of training is in flight there). SCRATCH: first fit
 * among the tensors of its segment that are in use at the same instructions, above MICRO; in Eval
 * above the MICRO tensors of Eval, in Post above STEP.
 * HOST tensors lie one after the other in the host's memory.
 * Whatever lies on the same bytes is kept apart in time by the schedule's waits (device_schedule.h). All
 * offsets are multiples of 64.
 *
 * Purity: pure.
 */
#ifndef HSP_MEMORY_PLAN_H
#define HSP_MEMORY_PLAN_H
#include "proto/program/program.h"

/* Fills offset of each tensor, memory_bytes, host_bytes, state_bytes and comm_bytes of @p. HSP_ELIMIT: more
 * than 2^62 bytes; HSP_ENOMEM. */
enum hsp_status hsp_memory_assign(struct hsp_program *p, struct hsp_err *err);
/* comm_bytes of the binding of @p with its moves: a buffer to pack what leaves and one for what comes, each as large as its
 * largest move wants it, in bytes of the type that travels, and once more the largest messages of one move, of which the
 * transport keeps a copy (a send never waits; what comes early waits). */
int64_t hsp_memory_comm(const struct hsp_program *p);

#endif
