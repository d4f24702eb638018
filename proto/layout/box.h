/* Computes with boxes of indices: counts, intersections, containment. A scalar has rank 0 and one
 * element.
 *
 * Purity: pure. */
#ifndef HSP_BOX_H
#define HSP_BOX_H
#include "proto/layout/cover.h"

/* The box of a whole tensor. */
struct hsp_box hsp_box_whole(uint8_t rank, const int64_t *extent);
/* Elements. */
int64_t hsp_box_count(const struct hsp_box *b);
bool hsp_box_empty(const struct hsp_box *b);
bool hsp_box_equal(const struct hsp_box *a, const struct hsp_box *b);
/* Whether @in lies within @out. */
bool hsp_box_inside(const struct hsp_box *in, const struct hsp_box *out);
/* The intersection of @a and @b. False when it is empty. */
bool hsp_box_cut(const struct hsp_box *a, const struct hsp_box *b, struct hsp_box *ret);

#endif
