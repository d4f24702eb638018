/* Turns shares of work into lengths of a cut sequence, for stages with `balance: work`.
 *
 * Most ops cost the same at every position; causal attention at a position costs as much as there
 * are positions before it. So ranges of equal work get shorter and shorter. Work is counted in
 * operations (hsp_op_flops) over the layers of the stage, with documents as long as sequences. The
 * cut behind group g stands where the work of all positions before it comes closest to the share of
 * groups 0 .. g.
 *
 * Role:      lower_plan.c asks before it makes any layout; from then on the plan has lengths.
 * Purity:    pure and deterministic: a function of graph and plan. */
#ifndef HSP_SEQUENCE_BALANCE_H
#define HSP_SEQUENCE_BALANCE_H
#include "daemon/plan/plan.h"

/* @p, or a copy of it in @arena, with the shares of groups as lengths in all stages: by_work is
 * false, and where it was true shares add up to the model's sequence. HSP_ENOMEM. */
enum hsp_status hsp_plan_lengths(const struct hsp_plan *p, const struct hsp_graph *g,
                                 struct hsp_arena *arena, const struct hsp_plan **ret,
                                 struct hsp_err *err);

#endif
