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

/* @p with its open points filled: sizes, saved, homes, uses, reshards; home rules have become
 * homes. Stated points are checked: HSP_EINVAL names the first place where the plan disagrees
 * with its own streams, stages and homes. */
enum hsp_status hsp_plan_complete(const struct hsp_graph *g, const struct hsp_plan *p,
                                  const struct hsp_train_spec *t, struct hsp_arena *arena,
                                  struct hsp_plan *ret, struct hsp_err *err);

/* The same, with the name of every Reshard (reshard_kind.h) and, given @links (NULL: not known),
 * its microseconds between these ranks. */
enum hsp_status hsp_plan_explain(const struct hsp_graph *g, const struct hsp_plan *p,
                                 const struct hsp_train_spec *t, const struct hsp_rank_links *links,
                                 struct hsp_arena *arena, struct hsp_plan *ret,
                                 struct hsp_err *err);

/* Digest of the meaning of @p: of its total form without the explanation. Equal digests: the same
 * plan in any form. The plan_digest of every binding is this digest. */
enum hsp_status hsp_plan_digest(const struct hsp_graph *g, const struct hsp_plan *p,
                                const struct hsp_train_spec *t, struct hsp_digest *ret,
                                struct hsp_err *err);
/* The digest of a plan that is total already. */
enum hsp_status hsp_total_digest(const struct hsp_plan *total, struct hsp_digest *ret,
                                 struct hsp_err *err);

/* Completes a plan from layouts that are there already (lower_plan.h). */
struct hsp_compiler;
enum hsp_status hsp_complete_layouts(const struct hsp_compiler *c, struct hsp_arena *arena,
                                     struct hsp_plan *ret, struct hsp_err *err);

#endif
