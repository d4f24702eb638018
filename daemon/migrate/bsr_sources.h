/* Chooses the island from which each chunk enters each island that lacks it (bsr.h, rule 1).
 *
 * Bytes that enter an island pass its cards, from any sender; the bytes that leave islands can
 * be balanced. Cells that only one island can send stand first; the others go, the largest first,
 * to the island with the least to send for its cards (the rule of list scheduling for machines of
 * unequal speed), and are then assigned again, each with the loads of all others known.
 *
 * Purity:      pure and deterministic. */
#ifndef HSP_BSR_SOURCES_H
#define HSP_BSR_SOURCES_H
#include "daemon/migrate/bsr_impl.h"

/* Fills the legs of all cells of @w. HSP_ENOMEM. */
enum hsp_status hsp_bsr_legs(struct hsp_bsr_work *w, struct hsp_err *err);

#endif
