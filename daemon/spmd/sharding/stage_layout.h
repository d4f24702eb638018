/* Describes how the members of a stage hold one value: cut between groups, cut inside of groups, or
 * a sum over either tier.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given. A layout never changes: copies share boxes. */
#ifndef HSP_STAGE_LAYOUT_H
#define HSP_STAGE_LAYOUT_H
#include "proto/base/arena.h"
#include "proto/layout/annot.h"

/* The members of a stage: groups one after another. */
struct hsp_tiers {
    uint32_t n;            /* members */
    uint32_t n_groups;     /* >= 1 */
    const uint32_t *first; /* n_groups: first member of each; NULL: one group */
};

enum { HSP_IN_GROUPS = 1, HSP_OVER_GROUPS = 2 }; /* tiers, as a mask */

/* One value on the members of a stage. Between groups a dim is whole or cut into the hulls of the
 * groups; inside of a group it is whole or cut into the members' boxes. At most one dim is cut in
 * each tier, and none in a tier over which the value is a sum. */
struct hsp_layout {
    uint8_t rank;
    uint8_t partial;              /* tiers over which members hold addends of the value */
    int64_t extent[HSP_MAX_RANK]; /* global */
    uint32_t cut[HSP_MAX_RANK];   /* name of the cut of each dim inside of groups; 0: not cut */
    uint32_t split[HSP_MAX_RANK]; /* name of the cut of each dim between groups; 0: not cut */
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
/* The same boxes as a sum over the tiers @partial; 0: complete. HSP_ENOMEM. */
enum hsp_status hsp_layout_sum(const struct hsp_layout *l, uint8_t partial,
                               const struct hsp_tiers *tiers, struct hsp_arena *arena,
                               struct hsp_layout *ret, struct hsp_err *err);
/* The completed form of the sum @l: the same boxes, cut as @rest (complete, may be NULL) in each
 * tier in which @l is not cut itself. HSP_ENOMEM. */
enum hsp_status hsp_layout_complete(const struct hsp_layout *l, const struct hsp_layout *rest,
                                    const struct hsp_tiers *tiers, struct hsp_arena *arena,
                                    struct hsp_layout *ret, struct hsp_err *err);
/* Every box of @in lies inside the box of @out of the same member, and both have equal addends:
 * @in can be sliced from @out locally. */
bool hsp_layout_inside(const struct hsp_layout *in, const struct hsp_layout *out);
/* Makes dim @d of @l whole inside of groups, and, if @over, between them. HSP_ENOMEM. */
enum hsp_status hsp_layout_uncut(struct hsp_layout *l, uint8_t d, bool over,
                                 const struct hsp_tiers *tiers, struct hsp_arena *arena,
                                 struct hsp_err *err);
/* The annotation that states @l by its tiers, for ranks @ranks (one a member); for covers without a
 * tree of their own, because some groups hold nothing. HSP_ENOMEM. */
enum hsp_status hsp_layout_annot(const struct hsp_layout *l, const struct hsp_tiers *tiers,
                                 const uint32_t *ranks, struct hsp_arena *arena,
                                 struct hsp_annot **ret, struct hsp_err *err);

#endif
