/* Boxes and covers: the one meaning of "layout" (architecture D1).
 *
 * A cover lists, for each rank that holds something of a tensor, a box of global indices and the
 * addend it holds there. The value at an index is the sum over the *distinct* addends covering it;
 * equal addends are equal copies; an empty box contributes nothing.
 * Purity:  pure.  Ownership: covers own their item array (hsp_cover_fini).
 * Invariants: (I1) items are sorted by (rank, box, addend). (I2) lo <= hi in every dim.
 */
#ifndef HSP_COVER_H
#define HSP_COVER_H
#include <stdbool.h>
#include <stdint.h>
#include "proto/base/err.h"
#include "proto/op/dtype.h"

struct hsp_box {
    uint8_t rank;
    int64_t lo[HSP_MAX_RANK], hi[HSP_MAX_RANK]; /* half-open, elements */
};

struct hsp_held {
    uint32_t rank;   /* logical rank: position in the epoch's member list */
    uint32_t addend; /* which addend; normalised: the smallest rank holding an equal one */
    struct hsp_box box;
};

struct hsp_cover {
    uint8_t rank;                 /* of the tensor */
    int64_t extent[HSP_MAX_RANK]; /* global extents */
    uint32_t n, cap;
    struct hsp_held *items; /* owned */
};

/* Box algebra; a scalar has rank 0 and one element. */
struct hsp_box hsp_box_whole(uint8_t rank, const int64_t *extent);
int64_t hsp_box_count(const struct hsp_box *b);
bool hsp_box_empty(const struct hsp_box *b);
bool hsp_box_equal(const struct hsp_box *a, const struct hsp_box *b);
bool hsp_box_inside(const struct hsp_box *in, const struct hsp_box *out);
bool hsp_box_cut(const struct hsp_box *a, const struct hsp_box *b,
                 struct hsp_box *ret); /* false: empty */

void hsp_cover_init(struct hsp_cover *c, uint8_t rank, const int64_t *extent);
void hsp_cover_fini(struct hsp_cover *c);
enum hsp_status hsp_cover_add(struct hsp_cover *c, uint32_t rank, uint32_t addend,
                              const struct hsp_box *box);
/* Sorts, drops duplicates, renames addends to the smallest rank that holds each. */
void hsp_cover_normalise(struct hsp_cover *c);
bool hsp_cover_equal(const struct hsp_cover *a, const struct hsp_cover *b);
/* Every index is covered, and no two distinct addends are needed anywhere (a plain value). */
bool hsp_cover_is_complete(const struct hsp_cover *c);
bool hsp_cover_has_partial(const struct hsp_cover *c);

#endif
