/* Deduction: which layouts an op needs of its operands and gives to its results (decision D2).
 *
 * Role:      the compiler asks once per node and stage; Reshards go where need differs from have.
 * Purity:    pure.
 * Ownership: results live in the arena given; inputs are borrowed.
 *
 * Works on axes, ranges and linear sets of the catalogue only; no rule names an op.
 *   1. an operand cut along a whole axis is gathered;
 *   2. partial operands stay partial iff they are exactly one linear set with equal addends; else
 *      they are completed (all-reduced) in place;
 *   3. each axis takes on each member the narrowest range of its operands; wider operands are
 * sliced;
 *   4. the work of all members must be, per addend, a disjoint cover of the axis space (equal work
 * is one); if not, the last cut operand is gathered and the rules start again;
 *   5. results: boxes from the ranges; two members hold the same addend iff they did the same
 * ranges of the axes a result lacks, under the same operand addend.
 */
#ifndef HSP_DEDUCE_H
#define HSP_DEDUCE_H
#include "proto/base/arena.h"
#include "proto/layout/cover.h"
#include "proto/op/op.h"

/* One value on the members of a tensor-parallel group. */
struct hsp_layout {
    uint8_t rank;
    int64_t extent[HSP_MAX_RANK]; /* global */
    uint32_t cut[HSP_MAX_RANK];   /* name of the cut of each dim; 0: whole on every member */
    uint32_t n;                   /* members */
    struct hsp_box *box;          /* per member */
    uint32_t *addend;             /* per member: the smallest member with an equal addend */
};

/* All members hold everything. HSP_ENOMEM. */
enum hsp_status hsp_layout_whole(uint8_t rank, const int64_t *extent, uint32_t n,
                                 struct hsp_arena *arena, struct hsp_layout *ret,
                                 struct hsp_err *err);
bool hsp_layout_equal(const struct hsp_layout *a, const struct hsp_layout *b);
bool hsp_layout_partial(const struct hsp_layout *l);
bool hsp_layout_cut(const struct hsp_layout *l);
/* Same boxes, complete. */
enum hsp_status hsp_layout_complete(const struct hsp_layout *l, struct hsp_arena *arena,
                                    struct hsp_layout *ret, struct hsp_err *err);
/* Every box of @in lies inside the box of @out of the same member, and both have equal addends:
 * @in can be sliced from @out locally. */
bool hsp_layout_inside(const struct hsp_layout *in, const struct hsp_layout *out);

struct hsp_deduced {
    struct hsp_layout
        need[HSP_MAX_IN]; /* equal to the operand's layout where nothing is to be done */
    struct hsp_layout out[HSP_MAX_OUT];
};

/* @want: layout that result 0 should take along axes no operand has (the use of the parameter whose
 * gradient it is), or NULL: whole. HSP_EINVAL names the op. */
enum hsp_status hsp_deduce(enum hsp_op op, const struct hsp_attrs *at, uint32_t n_in,
                           uint32_t n_out, const struct hsp_layout *in,
                           const struct hsp_layout *want, struct hsp_arena *arena,
                           struct hsp_deduced *ret, struct hsp_err *err);

#endif
