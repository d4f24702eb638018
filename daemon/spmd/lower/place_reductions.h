/* Chooses the cheapest legal places at which partial sums are completed.
 *
 * An op that is linear in the sums its members hold may take a sum on: its result is a sum then,
 * and is completed later. Or the sum is completed before the op, once for all readers. The cheaper
 * way depends on the readers of the results: two sums that are added cost one completion when it
 * comes later; a sum that some op needs complete anyway, or that an op makes larger, costs least
 * when it is completed early. A gradient of a parameter may stay a sum: Post completes the sum of
 * all accumulators in any case.
 *
 * All these choices of a stage together are a minimum cut (Picard, Maximal Closure of a Graph,
 * 1976, has this kind of problem). Ops that take sums on are on one side, ops that need values on
 * the other; sums made of values belong to the first side. A sum costs its bytes where its maker is
 * on the first side and some reader on the other; an op on the first side wants the makers of its
 * sums there. So the cost is the minimum, not a heuristic's result. Of equal cuts the one with
 * later completions is taken: communication then stands behind as much work as possible.
 *
 * Costs are bytes of Forward and Backward, so no choice depends on a cluster. Deduction tells which
 * ops may take sums on, with every sum taken as far as it can go; completing a sum earlier never
 * lets another go farther.
 *
 * Role:      lower_pipeline.c calls hsp_sums_place once for each pipeline, before it lowers the
 *            pipeline. tensor_versions.c emits the collective that completes a sum.
 * Purity:    pure. */
#ifndef HSP_PLACE_REDUCTIONS_H
#define HSP_PLACE_REDUCTIONS_H
#include "daemon/spmd/lower/stage_ir.h"

/* A tensor that is a sum when its maker takes sums on. */
struct hsp_sum_place {
    uint32_t maker;   /* op; HSP_NONE: a sum in any case */
    bool needed;      /* something needs it complete in any case */
    int64_t complete; /* cost of completing it */
};
/* Op @op may take sum @sum on. */
struct hsp_sum_use {
    uint32_t sum, op;
};
struct hsp_sums {
    uint32_t n_ops; /* ops that may take sums on */
    uint32_t n, n_uses;
    const struct hsp_sum_place *sum;
    const struct hsp_sum_use *use;
};

/* @ret_first[node], in the arena of @c: sums among the operands of the node are completed first.
 * Parameters' uses exist. HSP_ENOMEM, HSP_ELIMIT, or deduction's errors. */
enum hsp_status hsp_sums_place(struct hsp_compiler *c, uint32_t pipeline, const bool **ret_first,
                               struct hsp_err *err);

#endif
