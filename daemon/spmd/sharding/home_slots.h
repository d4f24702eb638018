/* @@SENTENCE@@ home_slots: purpose to be written.
 *
 * Purity:    pure.
 */
#ifndef HSP_HOME_SLOTS_H
#define HSP_HOME_SLOTS_H
#include "proto/base/arena.h"
#include "proto/layout/cover.h"

#define HSP_MAX_HOME_SLOTS 64 /* boxes of one parameter on a rank; names of cuts count on it */

struct hsp_home_slots {
    uint32_t n;   /* >= 1 */
    uint32_t *of; /* [home->n] */
};

/* Slots of a normalised home, the smallest that are free in order of place. All 0 when no rank has
 * two boxes. HSP_EINVAL: boxes of one rank that copies of each other join, more than
 * HSP_MAX_HOME_SLOTS; @name appears in messages. HSP_ENOMEM. */
enum hsp_status hsp_home_slots_assign(const struct hsp_cover *home, const char *name,
                                      struct hsp_arena *arena, struct hsp_home_slots *ret,
                                      struct hsp_err *err);

#endif
