/* Draws random annotations of a tensor of two dims.
 *
 *     struct hsp_tree_gen g = {.stream = "annot", .seed = k, .arena = arena};
 *     struct hsp_annot *a = hsp_tree_random(&g, HSP_MAX_TIERS, true);
 */
#ifndef HSP_TREES_H
#define HSP_TREES_H
#include "proto/layout/annot.h"

struct hsp_tree_gen {
    const char *stream; /* of random numbers */
    uint64_t seed, k;
    uint32_t max_interleaved; /* such splits in one tree */
    struct hsp_arena *arena;  /* of the trees */
    /* so far: */
    uint32_t next_rank, interleaved;
};

int64_t hsp_tree_draw(struct hsp_tree_gen *g, int64_t lo, int64_t hi);
/* @depth tiers at most. Sums only if @sums, and none below dup, whose children would have to agree
 * on them. */
struct hsp_annot *hsp_tree_random(struct hsp_tree_gen *g, int depth, bool sums);

#endif
