/* Deduction: which layouts an op needs of its operands and gives to its results (decision D2).
 *
 * Role:      the compiler asks once per node and stage; Reshards go where need differs from have.
 * Purity:    pure.
 * Ownership: results live in the arena given; inputs are borrowed.
 *
 * Works on axes, ranges and linear sets of the catalogue only; no rule names an op. The members of a
 * stage are groups with tensor parallelism inside, so a layout has two tiers: between groups and
 * inside of them. Cuts and sums have names; rules compare names, never lengths, so what is deduced
 * does not depend on shares.
 *   1. a dim on a whole axis is gathered, and so is one whose cuts are not on the axis's unit;
 *   2. partial operands stay partial iff they are exactly one linear set, partial in the same tiers,
 *      and nothing is cut in those tiers; else they are completed, into the layout in which such
 *      tensors rest;
 *   3. in each tier one axis stays cut: that of a parameter's use, else one that the wanted result
 *      has, else one of the operand with the most dims, the first of such, but one of data last of
 *      all; other cuts of that tier are gathered, dim by dim, inside of groups where
 *      that is enough. What has fewer dims is smaller, at any extents. Operands that hold more than the axis needs are sliced;
 *   4. groups that do the same work (nothing cut or summed between them) have no sums inside: their
 *      shares differ, so would their addends;
 *   5. results: boxes from the ranges; where a result lacks the axis cut in a tier, it is a sum over
 *      that tier. Members with nothing to add take part with zeros.
 */
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
    const struct hsp_layout *const
        *rest;      /* n_in: layout in which a completed operand rests, NULL: whole. NULL: all so */
    uint32_t uses;  /* mask of operands that are uses of parameters */
    uint32_t reads; /* mask of operands that are read from the data, alike in any layout */
    bool values; /* sums are completed also where rule 2 would let them be (place_reductions.h) */
    const struct hsp_layout
        *want; /* layout that result 0 should take along axes no operand has (the use of the
                  parameter whose gradient it is), or NULL: whole */
    struct hsp_tiers tiers;
};

struct hsp_deduced {
    struct hsp_layout
        need[HSP_MAX_IN]; /* equal to the operand's layout where nothing is to be done */
    struct hsp_layout out[HSP_MAX_OUT];
};

/* HSP_EINVAL names the op: operands of other ranks or extents than it has. */
enum hsp_status hsp_deduce(const struct hsp_question *q, struct hsp_arena *arena,
                           struct hsp_deduced *ret, struct hsp_err *err);

#endif
