#include "daemon/spmd/sharding/cover_to_annot.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "proto/layout/box.h"
#include "proto/layout/cut_shares.h"

struct builder {
    struct hsp_arena *arena;
    enum hsp_tier sum; /* the tier of several addends: PARTIAL or MAX */
    bool no_memory;
};

static struct hsp_annot *new_tier(struct builder *b, enum hsp_tier tier, uint32_t n)
{
    struct hsp_annot *a = hsp_arena_alloc(b->arena, sizeof *a);
    if (a != NULL) {
        a->tier = tier;
        a->of = hsp_arena_array(b->arena, n, sizeof *a->of);
        a->cuts = tier == HSP_TIER_SPLIT ? hsp_arena_array(b->arena, n + 1, sizeof *a->cuts) : NULL;
    }
    if (a == NULL || a->of == NULL || (tier == HSP_TIER_SPLIT && a->cuts == NULL)) {
        b->no_memory = true;
        return NULL;
    }
    return a;
}

static struct hsp_annot *leaf(struct builder *b, uint32_t rank)
{
    struct hsp_annot *a = hsp_arena_alloc(b->arena, sizeof *a);
    if (a == NULL) {
        b->no_memory = true;
        return NULL;
    }
    a->rank = rank;
    return a;
}

/* One child needs no tier around it. */
static struct hsp_annot *only_child(struct hsp_annot *a)
{
    return a->n == 1 && a->tier != HSP_TIER_SPLIT ? a->of[0] : a;
}

static int by_rank(const void *a, const void *b)
{
    const struct hsp_held *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

#define BY_DIM(d)                                        \
    static int by_dim##d(const void *a, const void *b)   \
    {                                                    \
        const struct hsp_held *x = a, *y = b;            \
        if (x->box.lo[d] != y->box.lo[d]) {              \
            return x->box.lo[d] < y->box.lo[d] ? -1 : 1; \
        }                                                \
        if (x->box.hi[d] != y->box.hi[d]) {              \
            return x->box.hi[d] < y->box.hi[d] ? -1 : 1; \
        }                                                \
        return by_rank(a, b);                            \
    }
BY_DIM(0)
BY_DIM(1)
BY_DIM(2)
BY_DIM(3)
_Static_assert(HSP_MAX_RANK == 4, "one order per dim");
static int (*const by_dim[HSP_MAX_RANK])(const void *, const void *) = {by_dim0, by_dim1, by_dim2,
                                                                        by_dim3};

static struct hsp_annot *build(struct builder *b, const struct hsp_box *p, struct hsp_held *it,
                               uint32_t n, int depth);

/* Tries a cut of @p along @d between items that do not overlap in @d. */
static struct hsp_annot *try_split(struct builder *b, const struct hsp_box *p, struct hsp_held *it,
                                   uint32_t n, uint8_t d, int depth)
{
    qsort(it, n, sizeof *it, by_dim[d]);
    struct hsp_annot *a = new_tier(b, HSP_TIER_SPLIT, n);
    struct hsp_box part = *p;
    int64_t end = p->lo[d];
    for (uint32_t i = 0, k; a != NULL && i < n; i = k) {
        part.lo[d] = it[i].box.lo[d];
        part.hi[d] = it[i].box.hi[d];
        if (part.lo[d] != end) {
            return NULL; /* a hole */
        }
        for (k = i + 1; k < n && it[k].box.lo[d] < part.hi[d]; k++) {
            part.hi[d] = it[k].box.hi[d] > part.hi[d] ? it[k].box.hi[d] : part.hi[d];
        }
        if (k - i == n) {
            return NULL; /* no cut in this dim */
        }
        struct hsp_annot *child = build(b, &part, it + i, k - i, depth + 1);
        if (child == NULL) {
            return NULL;
        }
        end = part.hi[d];
        a->of[a->n++] = child;
        a->cuts[a->n] = end - p->lo[d];
    }
    if (a != NULL) {
        a->dim = d;
    }
    return end == p->hi[d] ? a : NULL;
}

/* Tries a sum or maximum whose children are the items of one addend each; NULL if there is only one
 * addend. */
static struct hsp_annot *try_partial(struct builder *b, const struct hsp_box *p,
                                     struct hsp_held *it, uint32_t n, int depth)
{
    struct hsp_annot *a = new_tier(b, b->sum, n);
    struct hsp_held *same = hsp_arena_array(b->arena, n, sizeof *same);
    if (a == NULL || same == NULL) {
        b->no_memory = true;
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t m = 0;
        bool done = false;
        for (uint32_t k = 0; k < i; k++) {
            done = done || it[k].addend == it[i].addend;
        }
        for (uint32_t k = i; !done && k < n; k++) {
            if (it[k].addend == it[i].addend) {
                same[m++] = it[k];
            }
        }
        if (m == n) {
            return NULL;
        }
        if (m > 0 && (a->of[a->n++] = build(b, p, same, m, depth + 1)) == NULL) {
            return NULL;
        }
    }
    return a;
}

/* Returns the one dim in which @box differs from @p; the rank of @p if there is none, 255 if there
 * are several. */
static uint8_t cut_dim(const struct hsp_box *box, const struct hsp_box *p)
{
    uint8_t at = p->rank;
    for (uint8_t d = 0; d < p->rank; d++) {
        if (box->lo[d] != p->lo[d] || box->hi[d] != p->hi[d]) {
            if (at != p->rank) {
                return 255;
            }
            at = d;
        }
    }
    return at;
}

/* Returns an unused item that begins at @pos of dim @d: an empty one first, then that of the
 * smallest rank. */
static uint32_t next_link(const struct hsp_held *it, const bool *used, uint32_t n,
                          const struct hsp_box *p, uint8_t d, int64_t pos)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) {
        if (used[i] || it[i].box.lo[d] != pos || cut_dim(&it[i].box, p) != d) {
            continue;
        }
        if (it[i].box.hi[d] == pos) {
            return i;
        }
        best = best == n ? i : best;
    }
    return best;
}

/* Makes a cut of @p along @d from unused items, each of which begins where the one before ends. */
static struct hsp_annot *take_way(struct builder *b, const struct hsp_box *p,
                                  const struct hsp_held *it, bool *used, uint32_t n, uint8_t d)
{
    struct hsp_annot *s = new_tier(b, HSP_TIER_SPLIT, n);
    int64_t pos = p->lo[d];
    for (uint32_t k; s != NULL && (k = next_link(it, used, n, p, d, pos)) < n;) {
        used[k] = true;
        pos = it[k].box.hi[d];
        s->cuts[s->n + 1] = pos - p->lo[d];
        if ((s->of[s->n++] = leaf(b, it[k].rank)) == NULL) {
            return NULL;
        }
    }
    if (s == NULL || pos != p->hi[d] || s->n == 0) {
        return NULL;
    }
    s->dim = d;
    return s;
}

/* Copies of cuts along one dim each: every position is left as often as it is reached, so any way
 * from the first to the last position that takes the next item leaves such ways behind. */
static struct hsp_annot *try_copies(struct builder *b, const struct hsp_box *p, struct hsp_held *it,
                                    uint32_t n)
{
    struct hsp_annot *a = new_tier(b, HSP_TIER_DUP, n);
    bool *used = hsp_arena_array(b->arena, n, sizeof *used);
    if (a == NULL || used == NULL) {
        b->no_memory = true;
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint8_t d = cut_dim(&it[i].box, p);
        if (used[i]) {
            continue;
        }
        if (d == 255) {
            return NULL;
        }
        if (d == p->rank) {
            used[i] = true;
            if ((a->of[a->n++] = leaf(b, it[i].rank)) == NULL) {
                return NULL;
            }
            continue;
        }
        while (!used[i]) { /* ways that others begin may come first */
            struct hsp_annot *s = take_way(b, p, it, used, n, d);
            if (s == NULL) {
                return NULL;
            }
            a->of[a->n++] = s;
        }
    }
    return only_child(a);
}

static struct hsp_annot *build(struct builder *b, const struct hsp_box *p, struct hsp_held *it,
                               uint32_t n, int depth)
{
    bool equal = true;
    if (depth > HSP_MAX_TIERS || b->no_memory) {
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        equal = equal && hsp_box_equal(&it[i].box, p);
    }
    if (n == 1) {
        return equal ? leaf(b, it[0].rank) : NULL;
    }
    struct hsp_annot *a = NULL;
    for (uint8_t d = 0; !equal && a == NULL && d < p->rank; d++) {
        a = try_split(b, p, it, n, d, depth);
    }
    qsort(it, n, sizeof *it, by_rank);
    if (a == NULL && !b->no_memory) {
        a = try_partial(b, p, it, n, depth);
    }
    return a == NULL && !b->no_memory ? try_copies(b, p, it, n) : a;
}

/* Sets *ret to true if the cover of @a is @c. HSP_ENOMEM. */
static enum hsp_status is_tree_of(const struct hsp_annot *a, const struct hsp_cover *c, bool *ret)
{
    struct hsp_cover tree, copy;
    enum hsp_status st = hsp_annot_cover(a, c->rank, c->extent, NULL, &tree, NULL);
    bool valid = st == HSP_OK;
    hsp_cover_init(&copy, c->rank, c->extent);
    copy.reduce = c->reduce;
    for (uint32_t i = 0; st == HSP_OK && i < c->n; i++) {
        st = hsp_cover_add(&copy, c->items[i].rank, c->items[i].addend, &c->items[i].box);
    }
    hsp_cover_normalise(&copy);
    *ret = valid && st == HSP_OK && hsp_cover_equal(&tree, &copy);
    hsp_cover_fini(&tree);
    hsp_cover_fini(&copy);
    return st == HSP_ENOMEM ? st : HSP_OK;
}

enum hsp_status hsp_annot_of_cover(const struct hsp_cover *c, struct hsp_arena *arena,
                                   struct hsp_annot **ret, struct hsp_err *err)
{
    struct builder b = {.arena = arena,
                        .sum = c->reduce == HSP_REDUCE_MAX ? HSP_TIER_MAX : HSP_TIER_PARTIAL};
    struct hsp_box whole = hsp_box_whole(c->rank, c->extent);
    struct hsp_held *it = malloc(((size_t)c->n + 1) * sizeof *it);
    *ret = NULL;
    if (it == NULL) {
        return hsp_err_nomem(err, "tree of a cover");
    }
    if (c->n > 0) {
        memcpy(it, c->items, c->n * sizeof *it);
        qsort(it, c->n, sizeof *it, by_rank);
        *ret = build(&b, &whole, it, c->n, 0);
    }
    free(it);
    bool same = true;
    if (*ret != NULL && is_tree_of(*ret, c, &same) != HSP_OK) {
        b.no_memory = true;
    }
    *ret = same && !b.no_memory ? *ret : NULL;
    return b.no_memory ? hsp_err_nomem(err, "tree of a cover") : HSP_OK;
}

/* ---- shares to cuts ---- */

static struct hsp_annot *with_cuts(struct builder *b, const struct hsp_annot *a, const int64_t *ext)
{
    if (a->tier == HSP_TIER_RANK) {
        return leaf(b, a->rank);
    }
    struct hsp_annot *x = new_tier(b, a->tier, a->n);
    if (x == NULL) {
        return NULL;
    }
    if (a->tier == HSP_TIER_SPLIT && a->interleaved) {
        x->interleaved = true; /* of cells that the tiers below make */
        x->cuts = NULL;
        x->shares = a->shares;
    } else if (a->tier == HSP_TIER_SPLIT && a->cuts != NULL) {
        memcpy(x->cuts, a->cuts, (a->n + 1) * sizeof *x->cuts);
    } else if (a->tier == HSP_TIER_SPLIT) {
        hsp_cut_shares(ext[a->dim], a->n, a->shares, x->cuts);
    }
    x->dim = a->dim;
    for (x->n = 0; x->n < a->n; x->n++) {
        int64_t part[HSP_MAX_RANK];
        memcpy(part, ext, sizeof part);
        if (x->cuts != NULL) {
            part[a->dim] = x->cuts[x->n + 1] - x->cuts[x->n];
        }
        if ((x->of[x->n] = with_cuts(b, a->of[x->n], part)) == NULL) {
            return NULL;
        }
    }
    return x;
}

enum hsp_status hsp_annot_with_cuts(const struct hsp_annot *a, uint8_t rank, const int64_t *extent,
                                    struct hsp_arena *arena, struct hsp_annot **ret,
                                    struct hsp_err *err)
{
    struct builder b = {.arena = arena};
    int64_t ext[HSP_MAX_RANK] = {0};
    memcpy(ext, extent, rank * sizeof *ext);
    *ret = with_cuts(&b, a, ext);
    return *ret != NULL ? HSP_OK : hsp_err_nomem(err, "annotation with cuts");
}
