/* Finds that one of the two segments of a home or of a copy which has a version, or into which the
 * version is to be written. Terms: epoch.h.
 *
 * A version stays in its segment until a later version is stable. So a new version is written to
 * the segment that does not have the newest sealed version. This rule works for any numbers of
 * versions.
 *
 * Threads: one writer calls hsp_slot_take; any thread may call hsp_slot_of.
 * Example: segments 0 and 1 have versions 12 and 20. Version 33 takes segment 0, and is found in
 *          segment 0 while it is written and when it is sealed.
 */
#ifndef HSP_VERSION_SLOTS_H
#define HSP_VERSION_SLOTS_H
#include <stdatomic.h>

#include "worker/state/segment.h"

/* Zeros: version 0 takes segment 0. */
struct hsp_slots {
    atomic_uint_least64_t taken; /* 2 * version that took a segment last + this segment */
};

/* Returns the segment (0 or 1) in which @version is sealed, or which @version has taken; else the
 * segment which @version would take. A version takes the segment that is not sealed; of two
 * unsealed segments the segment that was not taken last; of two sealed segments the segment with
 * the older version. If only one segment is NULL, the other segment is returned; if both are NULL,
 * 0 is returned. */
uint32_t hsp_slot_of(const struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                     uint64_t version);
/* Returns the segment that hsp_slot_of returns, and notes that @version has taken it. */
uint32_t hsp_slot_take(struct hsp_slots *s, struct hsp_state_segment *const seg[2],
                       uint64_t version);

#endif
