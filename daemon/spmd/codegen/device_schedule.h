/* Schedules one rank: the order of (piece, micro-batch) on each queue, and the waits between
 * queues.
 *
 * A linear order is laid out first (Pre, the units of pipeline_order.h with the pieces for other
 * streams between them, Post) and dealt to the queues. An entry waits for the last earlier entry of
 * the other queue that writes bytes it touches or reads bytes it writes (queue_hazards.h); entries
 * of one queue run in order. The step's statistics and the outcome of the vote count as bytes.
 *
 * Purity: pure. */
#ifndef HSP_DEVICE_SCHEDULE_H
#define HSP_DEVICE_SCHEDULE_H
#include "daemon/spmd/lower/zero3_rendezvous.h"
#include "daemon/spmd/schedule/pipeline_order.h"

/* Fills train and eval of @p; memory is assigned already. @train, @eval: the rank's work for other
 * streams, with times. HSP_ELIMIT: more than HSP_MAX_SCHED entries. */
enum hsp_status hsp_schedule_make(struct hsp_program *p, const struct hsp_pipeline_order *o,
                                  const struct hsp_agenda *train, const struct hsp_agenda *eval,
                                  struct hsp_arena *arena, struct hsp_err *err);

#endif
