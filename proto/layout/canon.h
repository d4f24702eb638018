/* Brings covers to one form, so that two covers that mean the same are equal item by item.
 *
 * Purity: pure. */
#ifndef HSP_CANON_H
#define HSP_CANON_H
#include "proto/layout/cover.h"

/* Brings @c into its canonical form, so that covers of one meaning become equal however they were
 * cut into boxes. The addend at each index is named after the smallest rank that holds it there.
 * Each rank then has, for each of its addends, the fewest boxes that a sweep over the dims in order
 * gives, and no empty box. On HSP_ENOMEM and HSP_ELIMIT @c is unchanged. */
enum hsp_status hsp_cover_canonical(struct hsp_cover *c);

#endif
