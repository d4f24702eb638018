/* Which of the two segments of a home, or of a copy, has a version, or takes it.
 *
 * A version stays in its segment until a later one is stable. So a new version goes into the
 * segment that does not have the newest sealed one, whatever their numbers are.
 *
 * Threads: one writer, which takes segments; any thread may ask.
 * Example: segments 0 and 1 have versions 12 and 20. Version 33 takes segment 0, and is found there
 *          while it is written and when it is sealed.
 */
#ifndef HSP_VERSION_SLOTS_H
#define HSP_VERSION_SLOTS_H
#include <stdatomic.h>

#include "worker/state/segment.h"

/* Zeros: version 0 is to have segment 0. */
struct hsp_slots {
    atomic_uint_least64_t taken; /* the version that took a segment last, times 2, and which one */
};

/* The segment of @version: that in which it is sealed, or that which it has taken; else that which
 * it would take: not sealed, and not taken last; of two sealed ones that of the older version. A
 * segment may be NULL; it is named when both are. */
uint32_t hsp_slot_of(const struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                     uint64_t version);
/* The same; @version has it from now on. */
uint32_t hsp_slot_take(struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                       uint64_t version);

#endif
