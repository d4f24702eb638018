/* Proves by simulation that a plan's schedules finish on all ranks.
 *
 * Rules: queues run their entries in order; an entry starts when its wait count is reached; a send
 * never waits, a receive waits for its send, a collective (and the vote) waits for its whole group.
 * These are the contract of worker/comm with every collective as strict as it could be. A step that
 * became possible stays possible, so one order of simulation speaks for all orders.
 *
 * Purity: pure. */
#ifndef HSP_DEADLOCK_H
#define HSP_DEADLOCK_H
#include "proto/program/program.h"

enum hsp_sched_of { HSP_OF_TRAIN, HSP_OF_EVAL, HSP_OF_EARLY }; /* schedules of a binding */

/* The schedules @which of all ranks; of a rank without an early one, train. HSP_EINVAL: some rank
 * never finishes (message names the first one and the missing event), or ranks run a move different
 * numbers of times. HSP_ENOMEM. */
enum hsp_status hsp_deadlock_check(const struct hsp_program *programs, uint32_t n,
                                   enum hsp_sched_of which, struct hsp_err *err);

#endif
