/* Shows one plan of a pool to the compiler as a plan alone, with a graph and a training for the
 * sequence length of that plan.
 *
 * Role:      total_plan.c and compile.c go through a pool by such views.
 * Purity:    pure.
 * Ownership: a view borrows everything from the graph, the training and the plan it shows. */
#ifndef HSP_POOL_VIEW_H
#define HSP_POOL_VIEW_H
#include "daemon/graph/train_spec.h"
#include "daemon/plan/plan.h"

struct hsp_pool_view {
    struct hsp_graph g;
    struct hsp_train_spec t;
    struct hsp_plan p; /* alone: n_shorter is 0 */
};

/* @g, @t: of the job. @p: a plan of a pool, or a plan alone. @total: the completed plan of the
 * longest sequences; @p gets its homes where @p states none. NULL: @p keeps its own. */
void hsp_pool_view_make(const struct hsp_graph *g, const struct hsp_train_spec *t,
                        const struct hsp_plan *p, const struct hsp_plan *total,
                        struct hsp_pool_view *ret);

/* HSP_EINVAL: a pool without documents as samples, or documents in stages that split micro-batches
 * (their sizes would differ). */
enum hsp_status hsp_pool_allowed(const struct hsp_plan *p, const struct hsp_train_spec *t,
                                 struct hsp_err *err);

#endif
