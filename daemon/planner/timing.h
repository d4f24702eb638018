/* Predicts the times at which the stages of a pipeline work, by the cost model.
 *
 * Model:  a chunk's compute and all-reduces are those of cost.h, as slow as its slowest member.
 *         Forward is a third of the compute, backward two thirds, one for the gradients of inputs
 *         and one for those of weights; recomputation is one third more, in front of backward.
 *         All-reduces are half in forward and half in backward, recomputation adds a half.
 * Purity: pure.
 * Units:  microseconds.
 */
#ifndef HSP_TIMING_H
#define HSP_TIMING_H

#include "daemon/planner/cost.h"
#include "daemon/spmd/schedule/timeline.h"

/* The timeline of pipeline @pipeline of @plan, whose rank r runs on device[r] of the cluster. The
 * plan has passed hsp_plan_check. Lives in @arena. HSP_ENOMEM. */
enum hsp_status hsp_pipeline_timeline(const struct hsp_price_in *in, const struct hsp_plan *plan,
                                      uint32_t pipeline, const uint32_t *device,
                                      struct hsp_arena *arena, struct hsp_timeline *ret,
                                      struct hsp_err *err);

#endif
