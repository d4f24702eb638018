/* Judges which of several equal copies of a part of the state is wrong, from the hashes of two
 * neighbours in the ring of those that have it.
 *
 * Purity:  pure.
 * Example: three ranks have hashes 7, 7, 9. The third rank differs from both of its neighbours,
 *          which agree: the third rank is wrong. Of two ranks with 7 and 9, the rank is wrong that
 *          finds its memory different from its seal. When neither does, both count as wrong.
 */
#ifndef HSP_REPLICA_VERDICT_H
#define HSP_REPLICA_VERDICT_H
#include <stdbool.h>
#include <stdint.h>

struct hsp_replica_view { /* of one rank */
    uint64_t hash;
    bool intact; /* its memory equals its seal, as far as it knows */
};

/* True when the copy @mine is wrong, or may be. @other: of the @n ranks beside it, one (of two in
 * all) or two. A copy that equals one of two neighbours is right: others will find theirs wrong. */
bool hsp_replica_wrong(const struct hsp_replica_view *mine, const struct hsp_replica_view *other,
                       uint32_t n);

#endif
