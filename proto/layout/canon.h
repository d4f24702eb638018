/* Brings covers to one form, so that two covers that mean the same are equal item by item.
 *
 * Purity: pure. */
#ifndef HSP_CANON_H
#define HSP_CANON_H
#include "proto/layout/cover.h"

/* The form that all covers of one meaning share, however they were cut into items: per rank and
 * addend the fewest boxes that a sweep over the dims in order gives, the addend named at each index
 * after the smallest rank that holds it there, no empty boxes. HSP_ENOMEM, HSP_ELIMIT:
 * unchanged. */
enum hsp_status hsp_cover_canonical(struct hsp_cover *c);

#endif
