#include "proto/layout/annot.h"

#include <limits.h> /* CHAR_BIT */

#include "proto/layout/box.h"
#include "proto/layout/cut_shares.h"
#include "proto/layout/interleave.h"

/* One walk over a tree. */
struct walk {
    uint8_t rank;
    const int64_t *grain;
    struct hsp_cover *cover;
    uint8_t seen[HSP_MAX_RANKS / CHAR_BIT];
    struct hsp_err *err;
};

/* The children are addends. */
static bool is_sum(const struct hsp_annot *a)
{
    return a->tier == HSP_TIER_PARTIAL || a->tier == HSP_TIER_MAX;
}

static bool has_tier(const struct hsp_annot *a, enum hsp_tier tier)
{
    bool has = a->tier == tier;
    for (uint32_t i = 0; i < a->n && !has; i++) {
        has = has_tier(a->of[i], tier);
    }
    return has;
}

/* Addends of one index at most; bounded by the ranks of the tree. */
static uint32_t addends_of(const struct hsp_annot *a)
{
    uint32_t n = a->tier == HSP_TIER_RANK ? 1 : 0;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t k = addends_of(a->of[i]);
        n = is_sum(a) ? n + k : (k > n ? k : n);
    }
    return n;
}

static enum hsp_status check_shape(const struct hsp_annot *a, uint8_t rank, int depth,
                                   struct hsp_err *err)
{
    if (a->tier == HSP_TIER_RANK) {
        return a->rank < HSP_MAX_RANKS ? HSP_OK
                                       : hsp_err_set(err, HSP_EINVAL, 0, "rank %u above limit %d",
                                                     a->rank, HSP_MAX_RANKS - 1);
    }
    if (depth >= HSP_MAX_TIERS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "annotation deeper than %d tiers", HSP_MAX_TIERS);
    }
    if (a->n == 0 || a->n > HSP_MAX_RANKS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "tier with %u children (1 to %d)", a->n,
                           HSP_MAX_RANKS);
    }
    if (a->tier == HSP_TIER_SPLIT && a->dim >= rank) {
        return hsp_err_set(err, HSP_EINVAL, 0, "split of dim %u of a tensor with %u dims", a->dim,
                           rank);
    }
    for (uint32_t i = 0; i < a->n; i++) {
        enum hsp_status st = check_shape(a->of[i], rank, depth + 1, err);
        if (st != HSP_OK) {
            return st;
        }
    }
    return HSP_OK;
}

static enum hsp_status check_cuts(const struct walk *w, const struct hsp_annot *a, int64_t extent,
                                  int64_t grain)
{
    if (a->cuts[0] != 0 || a->cuts[a->n] != extent) {
        return hsp_err_set(w->err, HSP_EINVAL, 0,
                           "cuts of dim %u go from %lld to %lld, not 0 to %lld", a->dim,
                           (long long)a->cuts[0], (long long)a->cuts[a->n], (long long)extent);
    }
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->cuts[i] > a->cuts[i + 1]) {
            return hsp_err_set(w->err, HSP_EINVAL, 0, "cuts of dim %u do not ascend: %lld, %lld",
                               a->dim, (long long)a->cuts[i], (long long)a->cuts[i + 1]);
        }
        if (a->cuts[i] % grain != 0 && a->cuts[i] != extent) {
            return hsp_err_set(w->err, HSP_EINVAL, 0,
                               "cut %lld of dim %u is not a multiple of %lld",
                               (long long)a->cuts[i], a->dim, (long long)grain);
        }
    }
    return HSP_OK;
}

static enum hsp_status check_shares(const struct walk *w, const struct hsp_annot *a)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->shares == NULL || a->shares[i] < 0 || a->shares[i] > INT32_MAX) {
            return hsp_err_set(w->err, HSP_EINVAL, 0,
                               "share %u of a split is missing or not in 0 to %d", i, INT32_MAX);
        }
        sum += a->shares[i];
    }
    if (sum == 0) {
        return hsp_err_set(w->err, HSP_EINVAL, 0, "shares of dim %u are all 0", a->dim);
    }
    return HSP_OK;
}

static enum hsp_status grain_of(const struct walk *w, const struct hsp_annot *a, int64_t *ret)
{
    *ret = w->grain != NULL ? w->grain[a->dim] : 1;
    return *ret >= 1 ? HSP_OK
                     : hsp_err_set(w->err, HSP_EINVAL, 0, "grain %lld of dim %u below 1",
                                   (long long)*ret, a->dim);
}

/* Fills @cuts (n + 1) from the cuts or shares of a split tier. */
static enum hsp_status make_cuts(const struct walk *w, const struct hsp_annot *a, int64_t extent,
                                 int64_t *cuts)
{
    int64_t grain = 1;
    enum hsp_status st = grain_of(w, a, &grain);
    if (st == HSP_OK && a->cuts != NULL) {
        st = check_cuts(w, a, extent, grain);
        for (uint32_t i = 0; st == HSP_OK && i <= a->n; i++) {
            cuts[i] = a->cuts[i];
        }
        return st;
    }
    st = st == HSP_OK ? check_shares(w, a) : st;
    if (st == HSP_OK) {
        hsp_cut_grains(extent, grain, a->n, a->shares, cuts);
    }
    return st;
}

static enum hsp_status add_rank(struct walk *w, uint32_t rank, const struct hsp_box *box,
                                uint32_t addend)
{
    uint8_t bit = (uint8_t)(1u << (rank % CHAR_BIT));
    if ((w->seen[rank / CHAR_BIT] & bit) != 0) {
        return hsp_err_set(w->err, HSP_EINVAL, 0, "rank %u stands twice in an annotation", rank);
    }
    w->seen[rank / CHAR_BIT] = (uint8_t)(w->seen[rank / CHAR_BIT] | bit);
    enum hsp_status st = hsp_cover_add(w->cover, rank, addend, box);
    return st == HSP_OK ? st : hsp_err_about(w->err, st, "the cover of an annotation");
}

/* Items [from, mid) and [mid, end) must give each index the same addends. */
static bool same_addends(const struct hsp_cover *c, uint32_t from, uint32_t mid, uint32_t end)
{
    struct hsp_cover a = *c, b = *c;
    a.items = c->items + from;
    a.n = mid - from;
    b.items = c->items + mid;
    b.n = end - mid;
    for (uint32_t i = 0; i < a.n; i++) {
        if (!hsp_cover_covers(&b, &a.items[i].box, a.items[i].addend)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < b.n; i++) {
        if (!hsp_cover_covers(&a, &b.items[i].box, b.items[i].addend)) {
            return false;
        }
    }
    return true;
}

static enum hsp_status add_tree(struct walk *w, const struct hsp_annot *a,
                                const struct hsp_box *box, uint32_t addend);

/* Each child as if it had @box alone, then its share of every cell. */
static enum hsp_status add_interleaved(struct walk *w, const struct hsp_annot *a,
                                       const struct hsp_box *box, uint32_t addend)
{
    uint32_t first[HSP_MAX_RANKS + 1];
    int64_t grain = 1;
    enum hsp_status st = grain_of(w, a, &grain);
    if (st == HSP_OK && a->cuts != NULL) {
        st = hsp_err_set(w->err, HSP_EINVAL, 0,
                         "an interleaved split of dim %u has cuts, no shares", a->dim);
    }
    st = st == HSP_OK ? check_shares(w, a) : st;
    for (uint32_t i = 0; st == HSP_OK && i < a->n; i++) {
        first[i] = w->cover->n;
        st = add_tree(w, a->of[i], box, addend);
        first[i + 1] = w->cover->n;
    }
    if (st == HSP_OK) {
        st = hsp_cover_interleave(w->cover, first, a->n, a->dim, a->shares, grain);
        st = st == HSP_OK ? st : hsp_err_about(w->err, st, "the cover of an annotation");
    }
    return st;
}

/* Recursion is bounded by HSP_MAX_TIERS (check_shape). Labels count addends from @addend on. */
static enum hsp_status add_tree(struct walk *w, const struct hsp_annot *a,
                                const struct hsp_box *box, uint32_t addend)
{
    if (a->tier == HSP_TIER_RANK) {
        return add_rank(w, a->rank, box, addend);
    }
    if (a->tier == HSP_TIER_SPLIT && a->interleaved) {
        return add_interleaved(w, a, box, addend);
    }
    int64_t cuts[HSP_MAX_RANKS + 1];
    enum hsp_status st = HSP_OK;
    if (a->tier == HSP_TIER_SPLIT) {
        st = make_cuts(w, a, box->hi[a->dim] - box->lo[a->dim], cuts);
    }
    uint32_t first = w->cover->n;
    for (uint32_t i = 0; st == HSP_OK && i < a->n; i++) {
        struct hsp_box part = *box;
        if (a->tier == HSP_TIER_SPLIT) {
            part.lo[a->dim] = box->lo[a->dim] + cuts[i];
            part.hi[a->dim] = box->lo[a->dim] + cuts[i + 1];
        }
        uint32_t mid = w->cover->n;
        st = add_tree(w, a->of[i], &part, addend);
        if (is_sum(a)) {
            addend += addends_of(a->of[i]);
        }
        if (st == HSP_OK && a->tier == HSP_TIER_DUP && i > 0 &&
            !same_addends(w->cover, first, mid, w->cover->n)) {
            st = hsp_err_set(w->err, HSP_EINVAL, 0, "child %u of dup is another sum than child 0",
                             i);
        }
        if (a->tier == HSP_TIER_DUP && i > 0) {
            first = mid; /* equality is transitive: compare neighbours */
        }
    }
    return st;
}

enum hsp_status hsp_annot_cover(const struct hsp_annot *a, uint8_t rank, const int64_t *extent,
                                const int64_t *grain, struct hsp_cover *ret, struct hsp_err *err)
{
    struct walk w = {.rank = rank, .grain = grain, .cover = ret, .err = err};
    hsp_cover_init(ret, rank, extent);
    enum hsp_status st = check_shape(a, rank, 0, err);
    bool max = st == HSP_OK && has_tier(a, HSP_TIER_MAX);
    if (max && has_tier(a, HSP_TIER_PARTIAL)) {
        st = hsp_err_set(err, HSP_EINVAL, 0, "partial and max in one annotation");
    }
    if (st == HSP_OK) {
        ret->reduce = max && addends_of(a) > 1 ? HSP_REDUCE_MAX : HSP_REDUCE_SUM;
        struct hsp_box whole = hsp_box_whole(rank, extent);
        st = add_tree(&w, a, &whole, 0);
    }
    if (st != HSP_OK) {
        hsp_cover_fini(ret);
        return st;
    }
    hsp_cover_normalise(ret);
    return HSP_OK;
}
