/* Streams and stages of a plan that says instead how its parameters are used (HSPMD 4.4b).
 *
 * Role:      between reading a plan and checking it; pipeline_check.h is the counterpart on what it becomes.
 * Purity:    pure and deterministic.
 * Ownership: what is found lives in the arena given.
 *
 * A parameter is used by every stream, so its annotation is a `dup` with one child for each batch, or
 * with r neighbours for each; with one batch all of it is that stream's. Of a stream's part the leaves
 * are ranks, a `split` is a tensor-parallel group, and what else is a copy is another group, with the
 * split that the batch states for the stage. Parameters of one unit (block, embedding, head) are walked in
 * the order of units: their ranks are a stage, and where these change the next one begins. With
 * chunks the stages come once more for each.
 *
 * Shares of a group are those written, where all its parameters have the same; else the smallest that
 * make the cuts of all. At the end every annotation is compared with what the stages found use.
 */
#ifndef HSP_INFER_STREAMS_H
#define HSP_INFER_STREAMS_H
#include "daemon/plan/plan.h"

/* Fills the streams of @p and of the plans of its pool, and forgets their annotations; nothing to do
 * for a plan that has streams. HSP_EINVAL names the parameter, block or rank and the rule: not an
 * annotation (annot.h), or one that no stages use like that; a rank in two stages; blocks of a stage
 * apart; other numbers of copies, stages or groups than batches and shares. HSP_ENOMEM. */
enum hsp_status hsp_plan_find_streams(struct hsp_plan *p, const struct hsp_graph *g,
                                      struct hsp_arena *arena, struct hsp_err *err);

#endif
