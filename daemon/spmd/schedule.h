/* Schedules: the order of (piece, micro-batch) on each queue, and who waits for whom.
 *
 * A linear order is laid out first (Pre; forwards and backwards by 1F1B or GPipe; Post) and dealt
 * to the queues. An entry waits for the last earlier entry of the other queue that writes bytes it
 * touches or reads bytes it writes; entries of one queue run in order. The step's statistics and
 * the outcome of the vote count as bytes.
 *
 * Purity: pure.
 */
#ifndef HSP_SCHEDULE_H
#define HSP_SCHEDULE_H
#include "daemon/spmd/plan.h"
#include "proto/program/program.h"

/* Forward (+micro + 1) and backward (-micro - 1) units of stage @stage in order: 2 * n_micro of
 * them into @ret. 1F1B: as many forwards ahead as stages behind (PipeDream-Flush). */
void hsp_order_units(uint8_t schedule, uint32_t n_micro, uint32_t stage, uint32_t n_stages,
                     int32_t *ret);

/* Fills train and eval of @p; memory is assigned already. HSP_ELIMIT: more than HSP_MAX_SCHED
 * entries. */
enum hsp_status hsp_schedule_make(struct hsp_program *p, const struct hsp_stream *s, uint32_t stage,
                                  struct hsp_arena *arena, struct hsp_err *err);

#endif
