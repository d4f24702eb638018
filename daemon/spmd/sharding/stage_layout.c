#include "daemon/spmd/sharding/stage_layout.h"

#include "proto/layout/box.h"

/* Finds the members of group @g: [*ret_first, *ret_end). */
static void group_of(const struct hsp_tiers *t, uint32_t g, uint32_t *ret_first, uint32_t *ret_end)
{
    *ret_first = t->n_groups > 1 ? t->first[g] : 0;
    *ret_end = g + 1 < t->n_groups ? t->first[g + 1] : t->n;
}

enum hsp_status hsp_layout_whole(uint8_t rank, const int64_t *extent, uint32_t n,
                                 struct hsp_arena *arena, struct hsp_layout *ret,
                                 struct hsp_err *err)
{
    struct hsp_layout l = {.rank = rank, .n = n};
    l.box = hsp_arena_array(arena, n, sizeof *l.box);
    l.addend = hsp_arena_array(arena, n, sizeof *l.addend);
    if (l.box == NULL || l.addend == NULL) {
        return hsp_err_nomem(err, "layout of %u members", n);
    }
    for (uint8_t d = 0; d < rank; d++) {
        l.extent[d] = extent[d];
    }
    for (uint32_t j = 0; j < n; j++) {
        l.box[j] = hsp_box_whole(rank, extent);
    }
    *ret = l;
    return HSP_OK;
}

bool hsp_layout_equal(const struct hsp_layout *a, const struct hsp_layout *b)
{
    if (a->rank != b->rank || a->n != b->n) {
        return false;
    }
    for (uint32_t j = 0; j < a->n; j++) {
        if (!hsp_box_equal(&a->box[j], &b->box[j]) || a->addend[j] != b->addend[j]) {
            return false;
        }
    }
    return true;
}

bool hsp_layout_partial(const struct hsp_layout *l)
{
    return l->partial != 0;
}

bool hsp_layout_inside(const struct hsp_layout *in, const struct hsp_layout *out)
{
    for (uint32_t j = 0; j < in->n; j++) {
        if (in->addend[j] != out->addend[j] ||
            (!hsp_box_empty(&in->box[j]) && !hsp_box_inside(&in->box[j], &out->box[j]))) {
            return false;
        }
    }
    return true;
}

enum hsp_status hsp_layout_sum(const struct hsp_layout *l, uint8_t partial,
                               const struct hsp_tiers *tiers, struct hsp_arena *arena,
                               struct hsp_layout *ret, struct hsp_err *err)
{
    struct hsp_layout s = *l;
    s.partial = partial;
    s.addend = hsp_arena_array(arena, l->n, sizeof *s.addend);
    if (s.addend == NULL) {
        return hsp_err_nomem(err, "layout of %u members", l->n);
    }
    for (uint32_t g = 0; g < tiers->n_groups; g++) {
        uint32_t first, end;
        group_of(tiers, g, &first, &end);
        for (uint32_t j = first; j < end; j++) {
            s.addend[j] = (partial & HSP_IN_GROUPS) != 0 ? j : partial != 0 ? first : 0;
        }
    }
    *ret = s;
    return HSP_OK;
}

/* Dim @d of every box becomes the hull of its group's boxes of @from. */
static void take_hulls(const struct hsp_layout *from, uint8_t d, const struct hsp_tiers *tiers,
                       struct hsp_box *box)
{
    for (uint32_t g = 0; g < tiers->n_groups; g++) {
        uint32_t first, end;
        group_of(tiers, g, &first, &end);
        int64_t lo = from->box[first].lo[d], hi = from->box[first].hi[d];
        for (uint32_t j = first; j < end; j++) {
            lo = from->box[j].lo[d] < lo ? from->box[j].lo[d] : lo;
            hi = from->box[j].hi[d] > hi ? from->box[j].hi[d] : hi;
        }
        for (uint32_t j = first; j < end; j++) {
            box[j].lo[d] = lo;
            box[j].hi[d] = hi;
        }
    }
}

enum hsp_status hsp_layout_complete(const struct hsp_layout *l, const struct hsp_layout *rest,
                                    const struct hsp_tiers *tiers, struct hsp_arena *arena,
                                    struct hsp_layout *ret, struct hsp_err *err)
{
    struct hsp_layout s;
    bool cut = false, split = false;
    enum hsp_status rc = hsp_layout_sum(l, 0, tiers, arena, &s, err);
    if (rc != HSP_OK || rest == NULL) {
        *ret = s;
        return rc;
    }
    s.box = hsp_arena_memdup(arena, l->box, l->n * sizeof *s.box);
    if (s.box == NULL) {
        return hsp_err_nomem(err, "layout of %u members", l->n);
    }
    for (uint8_t d = 0; d < l->rank; d++) {
        cut = cut || l->cut[d] != 0;
        split = split || l->split[d] != 0;
    }
    for (uint8_t d = 0; d < l->rank; d++) {
        if (!split && l->cut[d] == 0 && rest->split[d] != 0) {
            take_hulls(rest, d, tiers, s.box);
            s.split[d] = rest->split[d];
        }
        for (uint32_t j = 0; !cut && rest->cut[d] != 0 && rest->split[d] == s.split[d] && j < l->n;
             j++) {
            s.box[j].lo[d] = rest->box[j].lo[d];
            s.box[j].hi[d] = rest->box[j].hi[d];
            s.cut[d] = rest->cut[d];
        }
    }
    *ret = s;
    return HSP_OK;
}

enum hsp_status hsp_layout_uncut(struct hsp_layout *l, uint8_t d, bool over,
                                 const struct hsp_tiers *tiers, struct hsp_arena *arena,
                                 struct hsp_err *err)
{
    struct hsp_box *box = hsp_arena_memdup(arena, l->box, l->n * sizeof *box);
    if (box == NULL) {
        return hsp_err_nomem(err, "layout of %u members", l->n);
    }
    take_hulls(l, d, tiers, box);
    for (uint32_t j = 0; over && j < l->n; j++) {
        box[j].lo[d] = 0;
        box[j].hi[d] = l->extent[d];
    }
    l->box = box;
    l->cut[d] = 0;
    l->split[d] = over ? 0 : l->split[d];
    return HSP_OK;
}

/* ---- as an annotation ---- */

static struct hsp_annot *new_tier(struct hsp_arena *arena, enum hsp_tier tier, uint32_t n)
{
    struct hsp_annot *a = hsp_arena_alloc(arena, sizeof *a);
    if (a == NULL) {
        return NULL;
    }
    *a = (struct hsp_annot){.tier = tier, .n = n};
    a->of = hsp_arena_array(arena, n + 1, sizeof *a->of);
    a->cuts = tier == HSP_TIER_SPLIT ? hsp_arena_array(arena, n + 1, sizeof *a->cuts) : NULL;
    return a->of == NULL || (tier == HSP_TIER_SPLIT && a->cuts == NULL) ? NULL : a;
}

/* Makes a tier of @n children. If some dim d is cut (name[d], the name of its cut, is not 0), the
 * tier is a cut along it; else the children are addends of a sum (@partial) or copies. */
static struct hsp_annot *tier_of(struct hsp_arena *arena, const struct hsp_layout *l,
                                 const uint32_t *name, bool partial, uint32_t n)
{
    for (uint8_t d = 0; d < l->rank; d++) {
        if (name[d] != 0) {
            struct hsp_annot *a = new_tier(arena, HSP_TIER_SPLIT, n);
            if (a != NULL) {
                a->dim = d;
            }
            return a;
        }
    }
    return new_tier(arena, partial ? HSP_TIER_PARTIAL : HSP_TIER_DUP, n);
}

/* Makes the tier of members [@first, @end). *ret_lo and *ret_hi are the range of dim @outer that
 * they hold together. */
static struct hsp_annot *group_tree(const struct hsp_layout *l, const uint32_t *ranks,
                                    uint32_t first, uint32_t end, uint8_t outer,
                                    struct hsp_arena *arena, int64_t *ret_lo, int64_t *ret_hi)
{
    struct hsp_annot *a = tier_of(arena, l, l->cut, (l->partial & HSP_IN_GROUPS) != 0, end - first);
    for (uint32_t j = first; j < end; j++) {
        const struct hsp_box *b = &l->box[j];
        struct hsp_annot *leaf = new_tier(arena, HSP_TIER_RANK, 0);
        if (a == NULL || leaf == NULL) {
            return NULL;
        }
        leaf->rank = ranks[j];
        if (a->cuts != NULL) {
            a->cuts[j - first] = b->lo[a->dim] - l->box[first].lo[a->dim];
            a->cuts[j - first + 1] = b->hi[a->dim] - l->box[first].lo[a->dim];
        }
        if (l->rank > 0) {
            *ret_lo = j == first || b->lo[outer] < *ret_lo ? b->lo[outer] : *ret_lo;
            *ret_hi = j == first || b->hi[outer] > *ret_hi ? b->hi[outer] : *ret_hi;
        }
        a->of[j - first] = leaf;
    }
    return end - first == 1 ? a->of[0] : a;
}

enum hsp_status hsp_layout_annot(const struct hsp_layout *l, const struct hsp_tiers *tiers,
                                 const uint32_t *ranks, struct hsp_arena *arena,
                                 struct hsp_annot **ret, struct hsp_err *err)
{
    struct hsp_annot *top =
        tier_of(arena, l, l->split, (l->partial & HSP_OVER_GROUPS) != 0, tiers->n_groups);
    for (uint32_t g = 0; g < tiers->n_groups; g++) {
        uint32_t first, end;
        int64_t lo = 0, hi = 0;
        group_of(tiers, g, &first, &end);
        struct hsp_annot *a =
            top == NULL ? NULL : group_tree(l, ranks, first, end, top->dim, arena, &lo, &hi);
        if (a == NULL) {
            return hsp_err_nomem(err, "layout of %u members", l->n);
        }
        if (top->cuts != NULL) {
            top->cuts[g] = lo;
            top->cuts[g + 1] = hi;
        }
        top->of[g] = a;
    }
    *ret = tiers->n_groups == 1 ? top->of[0] : top;
    return HSP_OK;
}
