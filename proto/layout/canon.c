#include "proto/layout/canon.h"

#include <stdlib.h>
#include <string.h> /* memcpy */

#include "proto/layout/box.h"
#include "proto/layout/cover.h"

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int by_addend(const void *a, const void *b)
{
    const struct hsp_held *x = a, *y = b;
    if (x->addend != y->addend) {
        return x->addend < y->addend ? -1 : 1;
    }
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_rank(const void *a, const void *b)
{
    const struct hsp_held *x = a, *y = b;
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return (x->addend > y->addend) - (x->addend < y->addend);
}

/* Returns the bounds of @n items along @dim, ascending, each once; the caller frees them. NULL: no
 * memory. */
static int64_t *bounds(const struct hsp_held *item, uint32_t n, uint8_t dim, uint32_t *ret_n)
{
    int64_t *at = malloc(((size_t)n * 2 + 1) * sizeof *at);
    uint32_t kept = 0;
    for (uint32_t i = 0; at != NULL && i < n; i++) {
        at[2 * (size_t)i] = item[i].box.lo[dim];
        at[2 * (size_t)i + 1] = item[i].box.hi[dim];
    }
    if (at == NULL) {
        return NULL;
    }
    qsort(at, (size_t)n * 2, sizeof *at, by_value);
    for (uint32_t i = 0; i < 2 * n; i++) {
        if (kept == 0 || at[i] != at[kept - 1]) {
            at[kept++] = at[i];
        }
    }
    *ret_n = kept;
    return at;
}

typedef enum hsp_status (*cell_fn)(void *ctx, struct hsp_held *in, uint32_t n,
                                   const struct hsp_box *box, uint8_t dim, struct hsp_cover *out);

/* Cuts @box along @dim at all bounds of @in, and calls @fn for each slab with the items that cover
 * it. Returns HSP_ENOMEM, or the status of @fn. */
static enum hsp_status each_slab(const struct hsp_held *in, uint32_t n, const struct hsp_box *box,
                                 uint8_t dim, cell_fn fn, void *ctx, struct hsp_cover *out)
{
    uint32_t n_at = 0;
    int64_t *at = bounds(in, n, dim, &n_at);
    struct hsp_held *here = malloc(((size_t)n + 1) * sizeof *here);
    enum hsp_status st = at != NULL && here != NULL ? HSP_OK : HSP_ENOMEM;
    for (uint32_t i = 0; st == HSP_OK && i + 1 < n_at; i++) {
        struct hsp_box slab = *box;
        uint32_t m = 0;
        slab.lo[dim] = at[i];
        slab.hi[dim] = at[i + 1];
        for (uint32_t k = 0; k < n; k++) {
            if (in[k].box.lo[dim] <= at[i] && in[k].box.hi[dim] >= at[i + 1]) {
                here[m++] = in[k];
            }
        }
        st = fn(ctx, here, m, &slab, dim, out);
    }
    free(at);
    free(here);
    return st;
}

/* ---- names of addends, index by index ---- */

/* Returns whether the class [a, a + n_a) comes before the class [b, b + n_b), in the order of their
 * lists of ranks. */
static bool class_before(const struct hsp_held *a, uint32_t n_a, const struct hsp_held *b,
                         uint32_t n_b)
{
    for (uint32_t i = 0; i < n_a && i < n_b; i++) {
        if (a[i].rank != b[i].rank) {
            return a[i].rank < b[i].rank;
        }
    }
    return n_a < n_b;
}

/* Returns how many classes of @in (sorted by addend, then rank) come before the class at @first, of
 * those with the same smallest rank. */
static uint32_t classes_before(const struct hsp_held *in, uint32_t n, uint32_t first, uint32_t end)
{
    uint32_t before = 0;
    for (uint32_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && in[k].addend == in[i].addend; k++) {
        }
        if (i != first && in[i].rank == in[first].rank &&
            (class_before(&in[i], k - i, &in[first], end - first) ||
             (i < first && !class_before(&in[first], end - first, &in[i], k - i)))) {
            before++;
        }
    }
    return before;
}

/* Adds the items of one cell to @out. Items of equal addend form a class, and each class takes its
 * addend from the smallest rank in it. Sets *several when the cell has more than one class. */
static enum hsp_status name_cell(bool *several, struct hsp_held *in, uint32_t n,
                                 const struct hsp_box *cell, struct hsp_cover *out)
{
    enum hsp_status st = HSP_OK;
    qsort(in, n, sizeof *in, by_addend);
    for (uint32_t i = 0, k; st == HSP_OK && i < n; i = k) {
        for (k = i + 1; k < n && in[k].addend == in[i].addend; k++) {
        }
        uint32_t name = in[i].rank + HSP_ADDEND_STEP * classes_before(in, n, i, k);
        for (uint32_t j = i; st == HSP_OK && j < k; j++) {
            if (j == i || in[j].rank != in[j - 1].rank) {
                st = hsp_cover_add(out, in[j].rank, name, cell);
            }
        }
        *several = *several || i > 0;
    }
    return st;
}

/* Recursion is bounded by HSP_MAX_RANK. */
static enum hsp_status name_slab(void *ctx, struct hsp_held *in, uint32_t n,
                                 const struct hsp_box *box, uint8_t dim, struct hsp_cover *out)
{
    if (n == 0) {
        return HSP_OK;
    }
    if (dim + 1 == box->rank) {
        return name_cell(ctx, in, n, box, out);
    }
    return each_slab(in, n, box, (uint8_t)(dim + 1), name_slab, ctx, out);
}

/* ---- fewest boxes ---- */

struct merge {
    uint32_t last[HSP_MAX_RANK]; /* per dim: where the boxes of the slab before this one begin */
};

/* The boxes [a, b) and [b, end) of @c follow each other along @dim and are else the same. */
static bool follows(const struct hsp_cover *c, uint32_t a, uint32_t b, uint8_t dim)
{
    if (c->n - b != b - a || b == a) {
        return false;
    }
    for (uint32_t i = 0; a + i < b; i++) {
        struct hsp_box x = c->items[a + i].box, y = c->items[b + i].box;
        if (x.hi[dim] != y.lo[dim]) {
            return false;
        }
        x.lo[dim] = y.lo[dim];
        x.hi[dim] = y.hi[dim];
        if (!hsp_box_equal(&x, &y)) {
            return false;
        }
    }
    return true;
}

/* Recursion is bounded by HSP_MAX_RANK. */
static enum hsp_status merge_slab(void *ctx, struct hsp_held *in, uint32_t n,
                                  const struct hsp_box *box, uint8_t dim, struct hsp_cover *out)
{
    struct merge *m = ctx;
    uint32_t from = out->n;
    enum hsp_status st = HSP_OK;
    if (n == 0) {
        m->last[dim] = from;
        return HSP_OK;
    }
    if (dim + 1 == box->rank) {
        st = hsp_cover_add(out, in[0].rank, in[0].addend, box);
    } else {
        m->last[dim + 1] = from;
        st = each_slab(in, n, box, (uint8_t)(dim + 1), merge_slab, ctx, out);
    }
    if (st == HSP_OK && follows(out, m->last[dim], from, dim)) {
        for (uint32_t i = m->last[dim]; i < from; i++) {
            out->items[i].box.hi[dim] = box->hi[dim];
        }
        out->n = from;
    } else {
        m->last[dim] = from;
    }
    return st;
}

/* Merges the items of each rank and addend into the fewest boxes. */
static enum hsp_status merge_all(struct hsp_cover *cells, struct hsp_cover *out)
{
    struct hsp_box whole = hsp_box_whole(cells->rank, cells->extent);
    enum hsp_status st = HSP_OK;
    if (cells->n > 0) {
        qsort(cells->items, cells->n, sizeof *cells->items, by_rank);
    }
    for (uint32_t i = 0, k; st == HSP_OK && i < cells->n; i = k) {
        struct merge m = {{out->n}};
        for (k = i + 1; k < cells->n && by_rank(&cells->items[i], &cells->items[k]) == 0; k++) {
        }
        st = each_slab(&cells->items[i], k - i, &whole, 0, merge_slab, &m, out);
    }
    return st;
}

enum hsp_status hsp_cover_canonical(struct hsp_cover *c)
{
    struct hsp_cover cells, out;
    struct hsp_box whole = hsp_box_whole(c->rank, c->extent);
    struct hsp_held *full = malloc(((size_t)c->n + 1) * sizeof *full);
    uint32_t n = 0;
    bool several = false;
    hsp_cover_init(&cells, c->rank, c->extent);
    hsp_cover_init(&out, c->rank, c->extent);
    for (uint32_t i = 0; full != NULL && i < c->n; i++) {
        if (!hsp_box_empty(&c->items[i].box)) {
            full[n++] = c->items[i];
        }
    }
    enum hsp_status st = full != NULL ? HSP_OK : HSP_ENOMEM;
    if (st == HSP_OK && c->rank == 0) { /* one element: one cell, each item one box */
        st = name_cell(&several, full, n, &whole, &out);
        if (out.n > 0) {
            qsort(out.items, out.n, sizeof *out.items, by_rank);
        }
    } else if (st == HSP_OK) {
        st = each_slab(full, n, &whole, 0, name_slab, &several, &cells);
        st = st == HSP_OK ? merge_all(&cells, &out) : st;
    }
    if (st == HSP_OK) {
        out.reduce = several ? c->reduce : (uint8_t)HSP_REDUCE_SUM;
        hsp_cover_fini(c);
        *c = out;
    } else {
        hsp_cover_fini(&out);
    }
    hsp_cover_fini(&cells);
    free(full);
    return st;
}
