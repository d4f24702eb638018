/* Judges which of several equal copies of a part of the state is wrong, from the hashes of two
 * neighbours in the ring of those that have it.
 *
 * Purity:  pure.
 * Example: three ranks have hashes 7, 7, 9. The third one differs from both of its neighbours, which
 *          agree: it is wrong. Of two ranks with 7 and 9 the one is wrong whose memory is not what
 *          it sealed; when both are, nobody can tell, and both count as wrong.
 */
#ifndef HSP_TWIN_VERDICT_H
#define HSP_TWIN_VERDICT_H
#include <stdbool.h>
#include <stdint.h>

struct hsp_twin_view { /* what one of them has */
    uint64_t hash;
    bool intact; /* its memory is what it sealed, as far as it knows */
};

/* True when the copy @mine is wrong, or may be. @other: of the @n ranks beside it, one (of two in
 * all) or two. A copy that equals one of two neighbours is right: others will find theirs wrong. */
bool hsp_twin_wrong(const struct hsp_twin_view *mine, const struct hsp_twin_view *other,
                    uint32_t n);

#endif
