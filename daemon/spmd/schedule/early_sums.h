/* Lets the sums of gradients begin while the last backward goes on.
 *
 * Example: two replicas of three blocks, buckets of a block. The compute queue runs the backward of
 * the last micro-batch in parts, and the communication queue the sums in parts:
 *
 *   compute         head+2      1       0      embedding        update
 *   communication           sum 2    sum 1   sum 0   sum embedding   vote
 *
 * The piece of Post that sums gradients runs bucket by bucket, the last parameters first, each when
 * the parameters' accumulators are final. All ranks have the buckets in this one order, behind all
 * communication of their forward and backward passes. So no message of a pipeline waits for a sum,
 * and the sums wait for each other in no circle. A tied embedding is added to until the end of
 * backward, and its sum comes last.
 *
 * Role:   between the buckets of a plan and the proof that its schedules finish (deadlock.h). The
 *         schedule of a rank without early sums stays in its binding, for executors that know none.
 * Purity: pure and deterministic (D13). */
#ifndef HSP_EARLY_SUMS_H
#define HSP_EARLY_SUMS_H
#include "proto/program/program.h"

/* Returns the piece that begins with the sums of gradients, which are *ret_n Reshards; the vote may
 * follow them. Returns UINT32_MAX if there is none, or if pieces for other pipelines lie between
 * those of backward (zero 3). */
uint32_t hsp_sum_piece(const struct hsp_template *t, uint32_t *ret_n);
/* Fills bind.early of @p from bind.train and the buckets. Leaves it empty if the sums cannot run in
 * parts. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_early_make(struct hsp_program *p, struct hsp_arena *arena, struct hsp_err *err);

#endif
