/* Lengths of a cut sequence by the work on them: `balance: work` of a stage.
 *
 * Role:      lower_plan.c asks before anything is laid out; from then on the plan has lengths.
 * Purity:    pure and deterministic: a function of graph and plan.
 *
 * Most ops cost the same at every position; causal attention costs as much as there are positions before
 * one. So equal work is shorter and shorter ranges. Work is counted in operations (hsp_op_flops) over
 * the layers of the stage, a document as long as its sequence; the cut behind group g is where the work
 * of all positions before comes closest to the part that the shares 0 .. g have of all.
 */
#ifndef HSP_SEQUENCE_BALANCE_H
#define HSP_SEQUENCE_BALANCE_H
#include "daemon/plan/plan.h"

/* @p, or in @arena a copy of it, in which the shares of groups are lengths in all stages (by_work is
 * false; they add up to the model's sequence where it was true). HSP_ENOMEM. */
enum hsp_status hsp_plan_lengths(const struct hsp_plan *p, const struct hsp_graph *g,
                                 struct hsp_arena *arena, const struct hsp_plan **ret,
                                 struct hsp_err *err);

#endif
