/* Decides whether a rank's replica of a part of the state is wrong, from the hashes of its two
 * neighbours in the ring of ranks that have the part.
 *
 * Purity:  pure.
 * Example: three ranks have hashes 7, 7, 9. The third rank differs from both of its neighbours,
 *          whose hashes are equal: the third rank is wrong. If only two ranks have the part, with
 *          hashes 7 and 9, the rank whose memory differs from its seal (the hashes stored with its
 *          segment) is wrong. If neither memory differs from its seal, both ranks count as wrong.
 */
#ifndef HSP_REPLICA_VERDICT_H
#define HSP_REPLICA_VERDICT_H
#include <stdbool.h>
#include <stdint.h>

struct hsp_replica_view { /* the view of one rank */
    uint64_t hash;
    bool intact; /* the rank knows of no difference between its memory and its seal */
};

/* Returns true if replica @mine is wrong or may be wrong. @other: the views of the @n neighbours;
 * @n is 1 if two ranks have the part, else 2. If replica @mine equals that of one of two
 * neighbours, it is right, and the other neighbour finds its own replica wrong. */
bool hsp_replica_wrong(const struct hsp_replica_view *mine, const struct hsp_replica_view *other,
                       uint32_t n);

#endif
