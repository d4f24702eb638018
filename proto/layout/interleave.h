/* Applies an interleaved split (annot.h) to a cover: each child keeps its share of every cell.
 *
 * Purity: pure. */
#ifndef HSP_INTERLEAVE_H
#define HSP_INTERLEAVE_H
#include "proto/layout/cover.h"

/* Items [first[i], first[i + 1]) of @c, the last @n groups of it, are the layout of child @i with
 * everything to itself. Cuts @dim at all bounds of these items, cuts each cell by @shares (n, not
 * all 0) at multiples of @grain, and leaves of every item the part of its child in each of its
 * cells, neighbouring parts as one box. An item that keeps nothing leaves an empty box. HSP_ENOMEM,
 * HSP_ELIMIT: the items of the groups are lost. */
enum hsp_status hsp_cover_interleave(struct hsp_cover *c, const uint32_t *first, uint32_t n,
                                     uint8_t dim, const int64_t *shares, int64_t grain);

#endif
