#include "proto/layout/cover_cells.h"

#include <stdlib.h>

#include "proto/base/size.h"
#include "proto/layout/box.h"

struct sweep {
    const struct hsp_cover *src, *dst;
    hsp_region_fn fn;
    void *ctx;
    struct hsp_err *err;
    struct hsp_box box; /* the part fixed so far */
};

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static uint32_t edges(const struct sweep *s, uint8_t d, const uint32_t *src, uint32_t n_src,
                      const uint32_t *dst, uint32_t n_dst, int64_t *ret)
{
    uint32_t n = 0, u = 0;
    for (uint32_t i = 0; i < n_src; i++) {
        ret[n++] = s->src->items[src[i]].box.lo[d];
        ret[n++] = s->src->items[src[i]].box.hi[d];
    }
    for (uint32_t i = 0; i < n_dst; i++) {
        ret[n++] = s->dst->items[dst[i]].box.lo[d];
        ret[n++] = s->dst->items[dst[i]].box.hi[d];
    }
    qsort(ret, n, sizeof *ret, by_value);
    for (uint32_t i = 0; i < n; i++) {
        if (u == 0 || ret[u - 1] != ret[i]) {
            ret[u++] = ret[i];
        }
    }
    return u;
}

/* Items whose range in dim @d contains [lo, hi). */
static uint32_t filter(const struct hsp_cover *c, uint8_t d, int64_t lo, int64_t hi,
                       const uint32_t *in, uint32_t n, uint32_t *ret)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct hsp_box *b = &c->items[in[i]].box;
        if (b->lo[d] <= lo && b->hi[d] >= hi) {
            ret[k++] = in[i];
        }
    }
    return k;
}

static enum hsp_status sweep_dim(struct sweep *s, uint8_t d, const uint32_t *src, uint32_t n_src,
                                 const uint32_t *dst, uint32_t n_dst)
{
    if (n_src + n_dst == 0) {
        return HSP_OK;
    }
    if (d == s->box.rank) {
        struct hsp_region r = {
            .box = s->box, .n_src = n_src, .n_dst = n_dst, .src = src, .dst = dst};
        return s->fn(s->ctx, &r, s->err);
    }
    size_t n = (size_t)n_src + n_dst;
    int64_t *edge = calloc(2 * n, sizeof *edge);
    uint32_t *in = calloc(n, sizeof *in);
    enum hsp_status rc = HSP_OK;
    if (edge == NULL || in == NULL) {
        rc = hsp_err_nomem(s->err, "cells of %zu boxes", n);
    }
    uint32_t u = rc == HSP_OK ? edges(s, d, src, n_src, dst, n_dst, edge) : 0;
    for (uint32_t i = 0; rc == HSP_OK && i + 1 < u; i++) {
        s->box.lo[d] = edge[i];
        s->box.hi[d] = edge[i + 1];
        uint32_t a = filter(s->src, d, edge[i], edge[i + 1], src, n_src, in);
        uint32_t b =
            n_dst == 0 ? 0 : filter(s->dst, d, edge[i], edge[i + 1], dst, n_dst, in + n_src);
        rc = sweep_dim(s, (uint8_t)(d + 1), in, a, in + n_src, b);
    }
    free(edge);
    free(in);
    return rc;
}

/* Numbers of the items that hold something. */
static uint32_t list_items(const struct hsp_cover *c, uint32_t *ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; c != NULL && i < c->n; i++) {
        if (!hsp_box_empty(&c->items[i].box)) {
            ret[n++] = i;
        }
    }
    return n;
}

enum hsp_status hsp_regions(const struct hsp_cover *src, const struct hsp_cover *dst,
                            hsp_region_fn fn, void *ctx, struct hsp_err *err)
{
    size_t n = (size_t)src->n + (dst != NULL ? dst->n : 0);
    uint32_t *items = calloc(n + 1, sizeof *items);
    if (items == NULL) {
        return hsp_err_nomem(err, "cells of %zu boxes", n);
    }
    struct sweep s = {.src = src, .dst = dst, .fn = fn, .ctx = ctx, .err = err};
    s.box.rank = src->rank;
    uint32_t n_src = list_items(src, items);
    uint32_t n_dst = list_items(dst, items + n_src);
    enum hsp_status rc = sweep_dim(&s, 0, items, n_src, items + n_src, n_dst);
    free(items);
    return rc;
}
