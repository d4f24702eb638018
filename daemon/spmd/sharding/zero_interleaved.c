#include "daemon/spmd/sharding/zero_interleaved.h"

#include <stdlib.h> /* qsort */

#include "daemon/spmd/sharding/param_use.h"
#include "proto/layout/box.h"

/* ---- the interleaved pattern ---- */

static struct hsp_annot *leaf(uint32_t rank, struct hsp_arena *arena)
{
    struct hsp_annot *a = hsp_arena_alloc(arena, sizeof *a);
    if (a != NULL) {
        a->rank = rank;
    }
    return a;
}

static struct hsp_annot *split_of(uint8_t dim, uint32_t n, struct hsp_arena *arena)
{
    struct hsp_annot *a = hsp_arena_alloc(arena, sizeof *a);
    if (a != NULL) {
        *a = (struct hsp_annot){.tier = HSP_TIER_SPLIT, .dim = dim};
        a->of = hsp_arena_array(arena, n, sizeof *a->of);
    }
    return a != NULL && a->of != NULL ? a : NULL;
}

/* Makes a tier in which the members [first, end) of @s cut dim @d among themselves. A member whose
 * box is empty is left out. */
static struct hsp_annot *group_tree(const struct hsp_stage *s, const struct hsp_layout *use,
                                    uint32_t first, uint32_t end, uint8_t d,
                                    struct hsp_arena *arena)
{
    struct hsp_annot *a = split_of(d, end - first, arena);
    if (a == NULL) {
        return NULL;
    }
    a->cuts = hsp_arena_array(arena, end - first + 1, sizeof *a->cuts);
    for (uint32_t j = first; a->cuts != NULL && j < end; j++) {
        if (hsp_box_empty(&use->box[j])) {
            continue;
        }
        a->cuts[a->n + 1] = use->box[j].hi[d];
        a->of[a->n] = leaf(s->ranks[j], arena);
        if (a->of[a->n++] == NULL) {
            return NULL;
        }
    }
    if (a->cuts == NULL) {
        return NULL;
    }
    return a->n == 1 ? a->of[0] : a;
}

/* Adds the groups of one stage: a member that begins at 0 when all of the dim is given begins the
 * next group. */
static enum hsp_status add_groups(const struct hsp_stage *s, const struct hsp_layout *use,
                                  uint8_t d, struct hsp_arena *arena, struct hsp_annot *top,
                                  struct hsp_err *err)
{
    uint32_t first = 0;
    for (uint32_t j = 1; j <= s->n; j++) {
        bool full = use->box[j - 1].hi[d] == use->extent[d];
        if (j < s->n && !(full && use->box[j].lo[d] == 0)) {
            continue;
        }
        struct hsp_annot *a = group_tree(s, use, first, j, d, arena);
        if (a == NULL) {
            return hsp_err_nomem(err, "home of a parameter");
        }
        top->shares[top->n] = a->tier == HSP_TIER_RANK ? 1 : a->n;
        top->of[top->n++] = a;
        first = j;
    }
    return HSP_OK;
}

enum hsp_status hsp_home_interleaved(const struct hsp_graph *g, const struct hsp_plan *p,
                                     const bool *units, uint32_t param, struct hsp_arena *arena,
                                     struct hsp_annot **ret, struct hsp_err *err)
{
    int8_t dim = g->params[param].tp_dim;
    struct hsp_annot *top = split_of((uint8_t)dim, p->n_ranks, arena);
    *ret = NULL;
    if (top == NULL) {
        return hsp_err_nomem(err, "home of a parameter");
    }
    top->interleaved = true;
    top->shares = hsp_arena_array(arena, p->n_ranks, sizeof *top->shares);
    if (top->shares == NULL) {
        return hsp_err_nomem(err, "home of a parameter");
    }
    bool cut = false;
    for (uint32_t i = 0; dim >= 0 && i < p->n_pipelines; i++) {
        for (uint32_t k = 0; k < p->pipelines[i].n_stages; k++) {
            const struct hsp_stage *s = &p->pipelines[i].stages[k];
            struct hsp_layout use;
            if (!hsp_stage_uses_param(g, units, &p->pipelines[i], k, param)) {
                continue;
            }
            enum hsp_status rc = hsp_param_use(g, s, param, arena, &use, err);
            rc = rc == HSP_OK ? add_groups(s, &use, (uint8_t)dim, arena, top, err) : rc;
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    for (uint32_t i = 0; i < top->n; i++) {
        cut = cut || top->of[i]->tier == HSP_TIER_SPLIT;
    }
    *ret = cut && top->n > 1 ? top : NULL;
    return HSP_OK;
}
