#include "tests/lib/trees.h"

#include "tests/lib/testlib.h"

int64_t hsp_tree_draw(struct hsp_tree_gen *g, int64_t lo, int64_t hi)
{
    return hsp_test_range(g->stream, g->seed * 1000 + g->k++, lo, hi);
}

struct hsp_annot *hsp_tree_random(struct hsp_tree_gen *g, int depth, bool sums)
{
    static const enum hsp_tier tiers[] = {HSP_TIER_RANK, HSP_TIER_DUP, HSP_TIER_SPLIT,
                                          HSP_TIER_PARTIAL};
    struct hsp_annot *a = hsp_arena_alloc(g->arena, sizeof *a);
    a->tier = tiers[depth == 0 ? 0 : hsp_tree_draw(g, 0, sums ? 3 : 2)];
    if (a->tier == HSP_TIER_RANK) {
        a->rank = g->next_rank++;
        return a;
    }
    a->n = (uint32_t)hsp_tree_draw(g, 1, 3);
    a->of = hsp_arena_array(g->arena, a->n, sizeof(struct hsp_annot *));
    for (uint32_t i = 0; i < a->n; i++) {
        a->of[i] = hsp_tree_random(g, depth - 1, sums && a->tier != HSP_TIER_DUP);
    }
    if (a->tier == HSP_TIER_SPLIT) {
        a->dim = (uint8_t)hsp_tree_draw(g, 0, 1);
        a->interleaved = g->interleaved < g->max_interleaved && hsp_tree_draw(g, 0, 1) == 1;
        g->interleaved += a->interleaved;
        a->shares = hsp_arena_array(g->arena, a->n, sizeof(int64_t));
        for (uint32_t i = 0; i < a->n; i++) {
            a->shares[i] = hsp_tree_draw(g, i == 0 ? 1 : 0, 3);
        }
    }
    return a;
}
