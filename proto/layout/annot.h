/* Describes by a tree of tiers where a tensor lives: its annotation (decision D1).
 *
 * YAML form: a rank is a number; a tier is one of
 *
 *   {split: DIM, cuts: [c0, .., cn] | shares: [w1, .., wn], of: [child, ..]}   uneven cuts allowed
 *   {split: DIM, pattern: interleaved, shares: [w1, .., wn], of: [child, ..]}
 *   {dup: [child, ..]}                                       every child holds the same
 *   {partial: [child, ..]}                                   the value is the sum over the children
 *   {max: [child, ..]}                                       the value is the largest of them
 *
 * A split gives each child a range of the dim, which the tiers below cut further. An interleaved
 * split is inside of the tiers below: each child is laid out as if it had everything. The dim is
 * cut at every cut of any child, also where the cut part is empty. Of each of these cells every
 * child keeps its share of its own part. So a rank keeps a part of its layout without the tier
 * (ZeRO: the state of a part of its weights), in several boxes when other children are cut finer.
 *
 * The k-th addend of one child of dup equals the k-th addend of each other child, so all children
 * of dup need the same partial structure everywhere. Sums and maxima do not meet in one tree. cuts
 * are elements of the parent's box (0 first, its extent last); shares are integer weights, turned
 * into cuts on multiples of the grain. At most HSP_MAX_TIERS deep.
 *
 * Purity:    pure.
 * Ownership: nodes live in the arena they were made in.
 */
#ifndef HSP_ANNOT_H
#define HSP_ANNOT_H
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/layout/cover.h"

#define HSP_MAX_TIERS 4
#define HSP_MAX_RANKS 1024 /* devices of one job */

enum hsp_tier { HSP_TIER_RANK, HSP_TIER_SPLIT, HSP_TIER_DUP, HSP_TIER_PARTIAL, HSP_TIER_MAX };

struct hsp_annot {
    enum hsp_tier tier;
    uint32_t rank;         /* HSP_TIER_RANK */
    uint8_t dim;           /* HSP_TIER_SPLIT */
    bool interleaved;      /* HSP_TIER_SPLIT: inside of the tiers below; by shares */
    uint32_t n;            /* children */
    struct hsp_annot **of; /* children, in order */
    int64_t *cuts;         /* SPLIT: n + 1 positions relative to the parent's box, or NULL */
    int64_t *shares;       /* SPLIT without cuts: n weights >= 0 */
};

/* The cover of @a for a tensor of these extents; shares become cuts at multiples of @grain[dim]
 * (largest remainder, ties to the lower index; a last unit may be short). @grain NULL: all 1.
 * Zero-length shards stay in the cover as empty boxes. The cover is initialised here, normalised,
 * and the caller's to release; on failure it is empty. HSP_EINVAL names the broken rule: a rank
 * twice in one tree, cuts not ascending, cuts not on the grain, last cut not the extent, too deep,
 * dim too large, cuts of an interleaved split, sums and maxima in one tree. */
enum hsp_status hsp_annot_cover(const struct hsp_annot *a, uint8_t rank, const int64_t *extent,
                                const int64_t *grain, struct hsp_cover *ret, struct hsp_err *err);

#endif
