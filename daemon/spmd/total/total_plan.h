/* Completes a plan: states every layout, home and Reshard that the compiler derives (decision D6).
 *
 * Role:        between the layouts of a plan (lower_plan.h) and its programs.
 * Purity:      pure and deterministic (D13).
 * Ownership:   the total plan lives in the arena given; it borrows stage ranks, shares and the
 *              explanation of the plan it completes. */
#ifndef HSP_TOTAL_PLAN_H
#define HSP_TOTAL_PLAN_H
#include "daemon/graph/train_spec.h"
#include "daemon/plan/plan.h"
#include "daemon/spmd/reshard/resolve.h" /* struct hsp_rank_links */

/* Makes the total plan of @p: fills in sizes, saved, homes, uses and reshards where @p leaves them
 * out, and turns home rules into homes. What @p states of these is checked: HSP_EINVAL names the
 * first place where the plan disagrees with its own pipelines, stages and homes. */
enum hsp_status hsp_plan_complete(const struct hsp_graph *g, const struct hsp_plan *p,
                                  const struct hsp_train_spec *t, struct hsp_arena *arena,
                                  struct hsp_plan *ret, struct hsp_err *err);

/* Makes the total plan with the name of every Reshard (reshard_kind.h) and, if @links is not NULL,
 * its time in microseconds on these links. */
enum hsp_status hsp_plan_explain(const struct hsp_graph *g, const struct hsp_plan *p,
                                 const struct hsp_train_spec *t, const struct hsp_rank_links *links,
                                 struct hsp_arena *arena, struct hsp_plan *ret,
                                 struct hsp_err *err);

/* Computes the digest of the total form of @p without its explanations. Plans with equal digests
 * are the same plan, in whatever form. The plan_digest of every binding is this digest. */
enum hsp_status hsp_plan_digest(const struct hsp_graph *g, const struct hsp_plan *p,
                                const struct hsp_train_spec *t, struct hsp_digest *ret,
                                struct hsp_err *err);
/* The digest of a plan that is total already. */
enum hsp_status hsp_total_digest(const struct hsp_plan *total, struct hsp_digest *ret,
                                 struct hsp_err *err);

/* Completes a plan from layouts that were made before (lower_plan.h). */
struct hsp_compiler;
enum hsp_status hsp_complete_layouts(const struct hsp_compiler *c, struct hsp_arena *arena,
                                     struct hsp_plan *ret, struct hsp_err *err);

#endif
