/* Turns covers back into annotation trees, which a total plan states.
 *
 * The compiler's own covers all have a tree: cuts along one dim per tier, copies of such cuts, sums
 * of them. Other covers (nested cuts, copied) have none here, though a person may have written a
 * tree for them.
 *
 * Purity:    pure and deterministic.
 * Ownership: trees live in the arena given. */
#ifndef HSP_COVER_TO_ANNOT_H
#define HSP_COVER_TO_ANNOT_H
#include "proto/layout/annot.h"

/* Makes a tree whose cover is @c; *ret is NULL if there is none. @c must be as the compiler made
 * it, not normalised, since the search relies on an addend having the same label in all boxes.
 * HSP_ENOMEM. */
enum hsp_status hsp_annot_of_cover(const struct hsp_cover *c, struct hsp_arena *arena,
                                   struct hsp_annot **ret, struct hsp_err *err);

/* A copy of @a for a tensor of these extents with cuts in place of shares (grain 1). HSP_ENOMEM. */
enum hsp_status hsp_annot_with_cuts(const struct hsp_annot *a, uint8_t rank, const int64_t *extent,
                                    struct hsp_arena *arena, struct hsp_annot **ret,
                                    struct hsp_err *err);

#endif
