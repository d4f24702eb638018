/* Deduces the layouts that an op needs of its operands and gives to its results (decision D2).
 *
 * The rules use only the axes, ranges and linear sets of the catalogue of ops (op.h; a linear set
 * is a set of operands in which the op is linear); no rule names an op. The members of a stage form
 * groups with tensor parallelism inside, so a layout has two tiers: one between groups and one
 * inside of them. Cuts and sums have names. The rules compare names, never lengths, so shares do
 * not change the result.
 *   1. A dim on a whole axis is gathered, and so is a dim with cuts off the axis's unit.
 *   2. Partial operands stay partial if and only if they are exactly one linear set, partial in the
 *      same tiers, and nothing is cut in those tiers. Else they are completed, into the layout in
 *      which such tensors rest.
 *   3. In each tier one axis stays cut: that of a parameter's use, else one that the wanted result
 *      has, else one of the operand with the most dims, the first of such, with data last of all.
 *      Other cuts of that tier are gathered, dim by dim, inside of groups where that is enough.
 *      Tensors with fewer dims are smaller, at any extents. Operands that hold more than the axis
 *      needs are sliced.
 *   4. Groups that do the same work (nothing cut or summed between them) have no sums inside: their
 *      shares differ, so their addends would differ, too.
 *   5. Results: boxes from the ranges. A result that lacks the axis cut in a tier is a sum over
 *      that tier. Members with nothing to add take part with zeros.
 *
 * Example: `linear` on x [b, s, k] whole and a weight cut along n [0:48 | 48:64] gives a result cut
 * along n. With the weight cut along k, x is sliced along k and the result is a sum over the group.
 *
 * Role:      the compiler calls hsp_deduce once per node and stage, and inserts a Reshard before
 *            each operand whose needed layout differs from the one it has.
 * Purity:    pure.
 * Ownership: results live in the arena given; inputs are borrowed. */
#ifndef HSP_DEDUCE_H
#define HSP_DEDUCE_H
#include "daemon/spmd/sharding/stage_layout.h"
#include "proto/op/op.h"

/* One op and how its operands are held. */
struct hsp_question {
    enum hsp_op op;
    const struct hsp_attrs *at;
    uint32_t n_in, n_out;
    const struct hsp_layout *in; /* n_in */
    /* n_in: the layout in which a completed operand rests, NULL: whole. NULL: all are whole. */
    const struct hsp_layout *const *rest;
    uint32_t uses;  /* mask of operands that are uses of parameters */
    uint32_t reads; /* mask of operands that are read from the data, alike in any layout */
    bool values; /* sums are completed also where rule 2 would let them be (place_reductions.h) */
    /* The layout that result 0 should take along axes no operand has (the use of the parameter
     * whose gradient it is). NULL: whole. */
    const struct hsp_layout *want;
    struct hsp_tiers tiers;
};

struct hsp_deduced {
    struct hsp_layout need[HSP_MAX_IN]; /* equal to the operand's layout: nothing is to be done */
    struct hsp_layout out[HSP_MAX_OUT];
};

/* HSP_EINVAL names the op: operands of other ranks or extents than it has. */
enum hsp_status hsp_deduce(const struct hsp_question *q, struct hsp_arena *arena,
                           struct hsp_deduced *ret, struct hsp_err *err);

#endif
