/* Schedules one rank: the order in which each queue runs its entries, and the waits between the
 * queues. An entry is a piece (a run of instructions of one queue) for one micro-batch.
 *
 * The scheduler first puts all entries in one linear order (Pre, the passes of pipeline_order.h
 * with the pieces for other pipelines between them, Post), and then distributes them to the queues.
 * An entry waits for the last earlier entry of the other queue that writes bytes it touches or
 * reads bytes it writes (queue_hazards.h); entries of one queue run in order. The step's statistics
 * and the outcome of the vote count as bytes.
 *
 * Purity: pure. */
#ifndef HSP_DEVICE_SCHEDULE_H
#define HSP_DEVICE_SCHEDULE_H
#include "daemon/spmd/lower/zero3_rendezvous.h"
#include "daemon/spmd/schedule/pipeline_order.h"

/* Fills train and eval of @p, whose memory must be assigned already. @train, @eval: the rank's work
 * for other pipelines, with times. HSP_ELIMIT: more than HSP_MAX_SCHED entries. */
enum hsp_status hsp_schedule_make(struct hsp_program *p, const struct hsp_pipeline_order *o,
                                  const struct hsp_rank_timeline *train,
                                  const struct hsp_rank_timeline *eval, struct hsp_arena *arena,
                                  struct hsp_err *err);

#endif
