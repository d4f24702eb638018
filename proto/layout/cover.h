/* Gives layouts their one meaning: boxes and covers (decision D1).
 *
 * A cover lists, for each rank that holds something of a tensor, a box of global indices and the
 * addend it holds there. The value at an index is the sum (or the maximum) of the *distinct*
 * addends covering it; equal addends are equal copies; an empty box contributes nothing.
 *
 * Purity:     pure.
 * Ownership:  covers own their item array (hsp_cover_fini).
 * Invariants: (I1) after hsp_cover_normalise items are sorted by (rank, box, addend) and unique.
 *             (I2) lo <= hi in every dim.
 * Bounds:     HSP_MAX_COVER items.
 */
#ifndef HSP_COVER_H
#define HSP_COVER_H
#include <stdbool.h>
#include <stdint.h>
#include "proto/base/err.h"
#include "proto/op/dtype.h"

#define HSP_MAX_COVER (1u << 20) /* a rank holds one box of a tensor, or a few */

struct hsp_box {
    uint8_t rank;
    int64_t lo[HSP_MAX_RANK], hi[HSP_MAX_RANK]; /* half-open, elements */
};

struct hsp_held {
    uint32_t rank;   /* logical rank: position in the epoch's member list */
    uint32_t addend; /* which addend; normalised: the smallest rank holding an equal one */
    struct hsp_box box;
};

/* The value that distinct addends of an index make: their sum, or the largest of them. */
enum hsp_reduce { HSP_REDUCE_SUM, HSP_REDUCE_MAX };

struct hsp_cover {
    uint8_t rank;                 /* of the tensor */
    uint8_t reduce;               /* enum hsp_reduce; SUM where one addend is all there is */
    int64_t extent[HSP_MAX_RANK]; /* global extents */
    uint32_t n, cap;
    struct hsp_held *items; /* owned */
};

/* No allocation; hsp_cover_fini leaves an empty cover of the same extents. */
void hsp_cover_init(struct hsp_cover *c, uint8_t rank, const int64_t *extent);
void hsp_cover_fini(struct hsp_cover *c);
/* HSP_ENOMEM, HSP_ELIMIT: unchanged. The box must keep I2 and have the cover's rank. */
enum hsp_status hsp_cover_add(struct hsp_cover *c, uint32_t rank, uint32_t addend,
                              const struct hsp_box *box);
/* Sorts, drops duplicates, and renames each addend to the smallest rank that holds an equal one.
 *
 * Equal addends are items with one label joined by overlapping boxes, so covers with the same boxes
 * and the same meaning get the same labels: in {split of [0, 1]} rank 1 holds addend 1, in
 * {dup of [0, 1]} addend 0. Where a rank holds several addends of one index, multiples of
 * HSP_ADDEND_STEP keep them apart. Items with an empty box stay. */
#define HSP_ADDEND_STEP (1u << 16)
void hsp_cover_normalise(struct hsp_cover *c);
/* Both normalised; item by item. */
bool hsp_cover_equal(const struct hsp_cover *a, const struct hsp_cover *b);
/* Every index is covered, and no two distinct addends are needed anywhere (a plain value). */
bool hsp_cover_is_complete(const struct hsp_cover *c);
/* Some index has two distinct addends. */
bool hsp_cover_has_partial(const struct hsp_cover *c);
/* Every index of @box lies in an item, of addend @addend unless that is HSP_ANY_ADDEND. */
#define HSP_ANY_ADDEND UINT32_MAX
bool hsp_cover_covers(const struct hsp_cover *c, const struct hsp_box *box, uint32_t addend);

#endif
