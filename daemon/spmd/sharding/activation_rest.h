/* Gives activations their default layout on a stage: the layout in which a tensor lies while no op
 * wants another.
 *
 * Example: a stage of two groups with `split: sequence, shares: [3, 1]` keeps positions 0..48 of a
 * sequence of 64 in group 0 and 48..64 in group 1.
 *
 * Role:      lowering asks for tensors that are loaded, received from another stage or completed.
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_ACTIVATION_REST_H
#define HSP_ACTIVATION_REST_H
#include "daemon/plan/plan.h"
#include "daemon/spmd/sharding/stage_layout.h"

/* Names of cuts of activations (hsp_layout): between groups by the stage's split, inside of groups
 * by sequence parallelism. Names of parameters' uses are tp_family + 1, far below. */
#define HSP_CUT_STAGE 0x40000000u
#define HSP_CUT_ROWS  0x40000001u

/* The members of @s as groups; borrows from @s. */
struct hsp_tiers hsp_stage_tiers(const struct hsp_stage *s);
/* The default layout of a tensor of @s: where it is loaded, received from another stage, or
 * completed from a sum. The stage's split cuts dims along the sequence or the batch, sequence
 * parallelism those along the sequence; other dims are whole. @batch: sequences of the largest
 * micro-batch. HSP_ENOMEM. */
enum hsp_status hsp_tensor_rest(const struct hsp_graph *g, const struct hsp_stage *s,
                                uint32_t tensor, int64_t batch, struct hsp_arena *arena,
                                struct hsp_layout *ret, struct hsp_err *err);

#endif
