#include "proto/layout/interleave.h"

#include <stdlib.h>
#include <string.h> /* memcpy */

#include "proto/base/size.h"
#include "proto/layout/annot.h"
#include "proto/layout/cut_shares.h"

#define MAX_PARTS ((size_t)1 << 22) /* cells x children: 32 MiB of cuts */

/* Where the dim is cut, and how each cell is. */
struct cells {
    int64_t *at;   /* n + 1 positions, ascending; owned */
    size_t n;      /* cells */
    int64_t *part; /* [cell][child + 1], relative to the cell; owned */
};

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static enum hsp_status find_cells(const struct hsp_held *item, size_t n_items, uint8_t dim,
                                  struct cells *ret)
{
    size_t n = 0, kept = 0;
    ret->at = malloc((2 * n_items + 1) * sizeof *ret->at);
    if (ret->at == NULL) {
        return HSP_ENOMEM;
    }
    for (size_t i = 0; i < n_items; i++) {
        ret->at[n++] = item[i].box.lo[dim];
        ret->at[n++] = item[i].box.hi[dim];
    }
    qsort(ret->at, n, sizeof *ret->at, by_value);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || ret->at[i] != ret->at[kept - 1]) {
            ret->at[kept++] = ret->at[i];
        }
    }
    ret->n = kept > 0 ? kept - 1 : 0;
    return HSP_OK;
}

static enum hsp_status cut_cells(struct cells *c, uint32_t n, const int64_t *shares, int64_t grain)
{
    size_t width = (size_t)n + 1;
    if (c->n > MAX_PARTS / width) {
        return HSP_ELIMIT;
    }
    c->part = malloc((c->n * width + 1) * sizeof *c->part);
    for (size_t i = 0; c->part != NULL && i < c->n; i++) {
        hsp_cut_grains(c->at[i + 1] - c->at[i], grain, n, shares, &c->part[i * width]);
    }
    return c->part != NULL ? HSP_OK : HSP_ENOMEM;
}

/* The part of @item that child @child of @n keeps. */
static enum hsp_status add_parts(struct hsp_cover *c, const struct hsp_held *item, uint8_t dim,
                                 const struct cells *cells, uint32_t child, uint32_t n)
{
    struct hsp_box part = item->box;
    enum hsp_status st = HSP_OK;
    uint32_t before = c->n;
    part.hi[dim] = part.lo[dim]; /* the part that is not added yet: empty */
    for (size_t i = 0; st == HSP_OK && i < cells->n; i++) {
        const int64_t *cut = &cells->part[i * ((size_t)n + 1) + child];
        int64_t lo = cells->at[i] + cut[0], hi = cells->at[i] + cut[1];
        if (cells->at[i] < item->box.lo[dim] || cells->at[i] >= item->box.hi[dim] || lo == hi) {
            continue;
        }
        if (part.lo[dim] < part.hi[dim] && part.hi[dim] < lo) {
            st = hsp_cover_add(c, item->rank, item->addend, &part);
            part.hi[dim] = part.lo[dim];
        }
        part.lo[dim] = part.lo[dim] < part.hi[dim] ? part.lo[dim] : lo;
        part.hi[dim] = hi;
    }
    if (st == HSP_OK && (part.lo[dim] < part.hi[dim] || c->n == before)) {
        st = hsp_cover_add(c, item->rank, item->addend, &part);
    }
    return st;
}

enum hsp_status hsp_cover_interleave(struct hsp_cover *c, const uint32_t *first, uint32_t n,
                                     uint8_t dim, const int64_t *shares, int64_t grain)
{
    struct cells cells = {0};
    size_t n_items = first[n] - first[0];
    struct hsp_held *item = malloc((n_items + 1) * sizeof *item);
    if (item == NULL) {
        return HSP_ENOMEM;
    }
    if (n_items > 0) {
        memcpy(item, &c->items[first[0]], n_items * sizeof *item);
    }
    enum hsp_status st = find_cells(item, n_items, dim, &cells);
    st = st == HSP_OK ? cut_cells(&cells, n, shares, grain) : st;
    c->n = first[0];
    for (uint32_t child = 0; st == HSP_OK && child < n; child++) {
        for (uint32_t i = first[child]; st == HSP_OK && i < first[child + 1]; i++) {
            st = add_parts(c, &item[i - first[0]], dim, &cells, child, n);
        }
    }
    free(item);
    free(cells.at);
    free(cells.part);
    return st;
}
