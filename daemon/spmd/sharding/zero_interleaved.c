#include "daemon/spmd/sharding/zero_interleaved.h"

#include <stdlib.h> /* qsort */

#include "proto/layout/box.h"

/* ---- slots ---- */

/* Boxes that overlap, directly or over others, have one root. */
static uint32_t root_of(const uint32_t *up, uint32_t i)
{
    while (up[i] != i) {
        i = up[i];
    }
    return i;
}

static void join_copies(const struct hsp_cover *home, uint32_t *up)
{
    for (uint32_t i = 0; i < home->n; i++) {
        up[i] = i;
        for (uint32_t k = 0; k < i; k++) {
            struct hsp_box both;
            uint32_t a = root_of(up, i), b = root_of(up, k);
            if (a != b && hsp_box_cut(&home->items[i].box, &home->items[k].box, &both)) {
                up[a > b ? a : b] = a > b ? b : a;
            }
        }
    }
}

/* Slots that ranks with a box of root @root have given to others: bits of the result. Also whether
 * some rank has two boxes of this root. */
static uint64_t taken_slots(const struct hsp_cover *home, const uint32_t *up, const uint32_t *slot,
                            uint32_t root, bool *twice)
{
    uint64_t taken = 0;
    for (uint32_t i = root; i < home->n; i++) {
        if (root_of(up, i) != root) {
            continue;
        }
        uint32_t k = i; /* items are sorted by rank */
        while (k > 0 && home->items[k - 1].rank == home->items[i].rank) {
            k--;
        }
        for (; k < home->n && home->items[k].rank == home->items[i].rank; k++) {
            uint32_t given = slot[root_of(up, k)];
            *twice = *twice || (k != i && root_of(up, k) == root);
            taken |= given != HSP_NONE ? (uint64_t)1 << given : 0;
        }
    }
    return taken;
}

static enum hsp_status give_slots(const struct hsp_cover *home, const char *name,
                                  const uint32_t *up, struct hsp_home_slots *ret,
                                  struct hsp_err *err)
{
    for (uint32_t i = 0; i < home->n; i++) {
        ret->of[i] = HSP_NONE;
    }
    for (uint32_t i = 0; i < home->n; i++) {
        uint32_t root = root_of(up, i), slot = 0;
        if (root != i) { /* a root is the first of its boxes */
            ret->of[i] = ret->of[root];
            continue;
        }
        bool twice = false;
        uint64_t taken = taken_slots(home, up, ret->of, root, &twice);
        if (twice) {
            return hsp_err_set(err, HSP_EINVAL, 0,
                               "home of %s: copies are cut so that they join two boxes of one rank",
                               name);
        }
        while (slot < HSP_MAX_HOME_SLOTS && (taken >> slot & 1) != 0) {
            slot++;
        }
        if (slot == HSP_MAX_HOME_SLOTS) {
            return hsp_err_set(err, HSP_EINVAL, 0, "home of %s: rank %u has more than %d boxes",
                               name, home->items[i].rank, HSP_MAX_HOME_SLOTS);
        }
        ret->of[i] = slot;
        ret->n = slot >= ret->n ? slot + 1 : ret->n;
    }
    return HSP_OK;
}

enum hsp_status hsp_home_slots_assign(const struct hsp_cover *home, const char *name,
                                      struct hsp_arena *arena, struct hsp_home_slots *ret,
                                      struct hsp_err *err)
{
    struct hsp_home_slots s = {.n = 1, .of = hsp_arena_array(arena, home->n, sizeof *s.of)};
    bool several = false;
    if (s.of == NULL) {
        return hsp_err_nomem(err, "home of a parameter");
    }
    for (uint32_t i = 1; i < home->n; i++) {
        several = several || home->items[i].rank == home->items[i - 1].rank;
    }
    if (several) {
        uint32_t *up = malloc(home->n * sizeof *up);
        if (up == NULL) {
            return hsp_err_nomem(err, "home of a parameter");
        }
        join_copies(home, up);
        enum hsp_status rc = give_slots(home, name, up, &s, err);
        free(up);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    *ret = s;
    return HSP_OK;
}

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

/* The members [first, end) of @s that cut dim @d among them; who has nothing of it is left out. */
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
    for (uint32_t i = 0; dim >= 0 && i < p->n_streams; i++) {
        for (uint32_t k = 0; k < p->streams[i].n_stages; k++) {
            const struct hsp_stage *s = &p->streams[i].stages[k];
            struct hsp_layout use;
            if (!hsp_stage_uses_param(g, units, &p->streams[i], k, param)) {
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
