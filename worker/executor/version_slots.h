/* Finds the segment of a home or of a copy, of its two segments, that has a version or takes it.
 *
 * A version stays in its segment until a later version is stable. So a new version goes into the
 * segment that does not have the newest sealed version, for any version numbers.
 *
 * Threads: one writer takes segments; any thread may ask.
 * Example: segments 0 and 1 have versions 12 and 20. Version 33 takes segment 0, and is found there
 *          while it is written and when it is sealed.
 */
#ifndef HSP_VERSION_SLOTS_H
#define HSP_VERSION_SLOTS_H
#include <stdatomic.h>

#include "worker/state/segment.h"

/* Zeros: version 0 takes segment 0. */
struct hsp_slots {
    atomic_uint_least64_t taken; /* version that took a segment last, times 2, plus the segment */
};

/* Returns the segment of @version: the segment in which @version is sealed, or which it has taken;
 * else the segment which it would take. A version takes the segment that is not
 * sealed; of two unsealed segments the one not taken last; of two sealed segments the one of the
 * older version. A segment may be NULL, and is returned if both are. */
uint32_t hsp_slot_of(const struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                     uint64_t version);
/* Returns the same segment, which @version has taken from now on. */
uint32_t hsp_slot_take(struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                       uint64_t version);

#endif
