/* Numbers the boxes of a home, so that each box becomes a STATE tensor of its own.
 *
 * A program tensor is one box, and a rank may have several boxes of one home. A slot holds at most
 * one box of each rank, and boxes that overlap share a slot, so that one Reshard per slot gives all
 * copies of an element the same bits.
 *
 * Purity:    pure.
 * Ownership: results live in the arena given. */
#ifndef HSP_HOME_SLOTS_H
#define HSP_HOME_SLOTS_H
#include "proto/base/arena.h"
#include "proto/layout/cover.h"

#define HSP_MAX_HOME_SLOTS 64 /* boxes of one parameter on a rank; names of cuts count on it */

struct hsp_home_slots {
    uint32_t n;   /* >= 1 */
    uint32_t *of; /* [home->n] */
};

/* Assigns slots to the boxes of a normalised home: in order of place, each box gets the smallest
 * free slot. All slots are 0 if no rank has two boxes. HSP_EINVAL: two boxes of one rank would get
 * one slot, as boxes of other ranks overlap both, or there are more than HSP_MAX_HOME_SLOTS; @name
 * appears in messages. HSP_ENOMEM. */
enum hsp_status hsp_home_slots_assign(const struct hsp_cover *home, const char *name,
                                      struct hsp_arena *arena, struct hsp_home_slots *ret,
                                      struct hsp_err *err);

#endif
