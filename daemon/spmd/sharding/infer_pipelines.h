/* Finds pipelines and stages in the annotations of parameters, for plans that state uses instead
 * (HSPMD 4.4b).
 *
 * Role:      runs between reading a plan and checking it; pipeline_check.h checks the compiled
 *            result.
 * Purity:    pure and deterministic.
 * Ownership: results live in the arena given.
 *
 * Every pipeline uses a parameter, so the annotation is a `dup` with one child for each batch, or
 * with r neighbours for each batch; with one batch the whole tree belongs to that pipeline. In a
 * pipeline's tree the leaves are ranks, a `split` is a tensor-parallel group, and copies are
 * further groups, with the split that the batch states for the stage. The parameters of one unit
 * (block, embedding, head) are walked in the order of units: their ranks are a stage, and the next
 * stage begins where these ranks change. With chunks the stages come once more for each chunk.
 *
 * Shares of a group are the written ones, where all its parameters have the same; else the smallest
 * integers that make all cuts. At the end every annotation is compared with the use by the stages
 * found. */
#ifndef HSP_INFER_PIPELINES_H
#define HSP_INFER_PIPELINES_H
#include "daemon/plan/plan.h"

/* Fills the pipelines of @p and of the plans of its pool, and forgets their annotations. A plan
 * that has pipelines stays as it is. HSP_EINVAL names the parameter, block or rank and the rule:
 * not an annotation (annot.h), or one that no stages use like that; a rank in two stages; blocks of
 * a stage apart; other numbers of copies, stages or groups than batches and shares. HSP_ENOMEM. */
enum hsp_status hsp_plan_find_pipelines(struct hsp_plan *p, const struct hsp_graph *g,
                                        struct hsp_arena *arena, struct hsp_err *err);

#endif
