#include "worker/state/region.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"

static int64_t side(const struct hsp_box *b, uint8_t d)
{
    return b->hi[d] - b->lo[d];
}

void hsp_walk_init(struct hsp_walk *w, const struct hsp_box *region, const struct hsp_box *a,
                   const struct hsp_box *b)
{
    uint8_t rank = region->rank;
    HSP_ASSERT(a->rank == rank);
    HSP_ASSERT(b->rank == rank);
    *w = (struct hsp_walk){.outer = rank, .more = !hsp_box_empty(region), .run = 1};
    /* A dim joins the run while everything inside it is contiguous in both boxes. */
    bool whole = true;
    while (w->outer > 0 && whole) {
        uint8_t d = --w->outer;
        w->run *= side(region, d);
        whole = side(region, d) == side(a, d) && side(region, d) == side(b, d);
    }
    int64_t stride[2] = {1, 1};
    for (uint8_t d = rank; d-- > 0;) {
        w->off[0] += (region->lo[d] - a->lo[d]) * stride[0];
        w->off[1] += (region->lo[d] - b->lo[d]) * stride[1];
        w->n[d] = side(region, d);
        w->stride[0][d] = stride[0];
        w->stride[1][d] = stride[1];
        stride[0] *= side(a, d);
        stride[1] *= side(b, d);
    }
}

bool hsp_walk_next(struct hsp_walk *w, int64_t *ret_a, int64_t *ret_b)
{
    if (!w->more) {
        return false;
    }
    *ret_a = w->off[0];
    *ret_b = w->off[1];
    w->more = false;
    for (uint8_t d = w->outer; d-- > 0;) {
        w->off[0] += w->stride[0][d];
        w->off[1] += w->stride[1][d];
        if (++w->at[d] < w->n[d]) {
            w->more = true;
            break;
        }
        w->off[0] -= w->n[d] * w->stride[0][d];
        w->off[1] -= w->n[d] * w->stride[1][d];
        w->at[d] = 0;
    }
    return true;
}

void hsp_region_copy(size_t elem, const struct hsp_box *region, const struct hsp_box *src_box,
                     const void *src, const struct hsp_box *dst_box, void *dst)
{
    struct hsp_walk w;
    int64_t from, to;
    hsp_walk_init(&w, region, src_box, dst_box);
    while (hsp_walk_next(&w, &from, &to)) {
        memcpy((uint8_t *)dst + (size_t)to * elem, (const uint8_t *)src + (size_t)from * elem,
               (size_t)w.run * elem);
    }
}

bool hsp_region_runs(size_t elem, const struct hsp_box *region, const struct hsp_box *held,
                     const void *data, struct hsp_runs *ret)
{
    struct hsp_walk w;
    int64_t at, same, n = 1, stride = 0;
    hsp_walk_init(&w, region, held, region);
    if (!hsp_walk_next(&w, &at, &same)) {
        *ret = hsp_run(data, 0);
        return true;
    }
    for (uint8_t d = w.outer; d-- > 0;) { /* from the innermost */
        if (w.n[d] > 1 && n > 1 && w.stride[0][d] != n * stride) {
            return false;
        }
        stride = n == 1 ? w.stride[0][d] : stride;
        n *= w.n[d];
    }
    *ret = hsp_run((const uint8_t *)data + (size_t)at * elem, (size_t)w.run * elem);
    ret->stride = n > 1 ? (size_t)stride * elem : ret->run;
    ret->n = (size_t)n;
    return true;
}

uint32_t hsp_box_minus(const struct hsp_box *a, const struct hsp_box *b,
                       struct hsp_box ret[HSP_MAX_REST])
{
    struct hsp_box cut, left = *a;
    uint32_t n = 0;
    if (hsp_box_empty(a)) {
        return 0;
    }
    if (!hsp_box_cut(a, b, &cut)) {
        ret[0] = *a;
        return 1;
    }
    for (uint8_t d = 0; d < a->rank; d++) { /* cut off the rest before and behind in each dim */
        if (left.lo[d] < cut.lo[d]) {
            ret[n] = left;
            ret[n++].hi[d] = cut.lo[d];
        }
        if (cut.hi[d] < left.hi[d]) {
            ret[n] = left;
            ret[n++].lo[d] = cut.hi[d];
        }
        left.lo[d] = cut.lo[d];
        left.hi[d] = cut.hi[d];
    }
    return n;
}

void hsp_slabs_init(struct hsp_slabs *s, const struct hsp_box *box, size_t elem, size_t max)
{
    int64_t rows = box->rank > 0 ? box->hi[0] - box->lo[0] : 1;
    *s = (struct hsp_slabs){.box = *box, .more = !hsp_box_empty(box)};
    if (s->more) {
        size_t row = (size_t)(hsp_box_count(box) / rows) * elem;
        int64_t step = (int64_t)(max / row);
        s->step = step < 1 ? 1 : step > rows ? rows : step;
        s->bytes = row * (size_t)s->step;
    }
}

bool hsp_slabs_next(struct hsp_slabs *s, struct hsp_box *ret)
{
    if (!s->more) {
        return false;
    }
    *ret = s->box;
    s->more = false;
    if (s->box.rank > 0) {
        ret->lo[0] = s->box.lo[0] + s->at;
        s->at += s->step;
        s->more = s->box.lo[0] + s->at < s->box.hi[0];
        ret->hi[0] = s->more ? s->box.lo[0] + s->at : s->box.hi[0];
    }
    return true;
}

bool hsp_boxes_add(struct hsp_boxes *l, const struct hsp_box *b)
{
    if (!hsp_grow(&l->b, &l->cap, l->n + 1, sizeof(*l->b), HSP_MAX_BOXES)) {
        return false;
    }
    l->b[l->n++] = *b;
    return true;
}

bool hsp_boxes_minus(struct hsp_boxes *l, const struct hsp_box *b)
{
    struct hsp_boxes rest = {0};
    for (size_t i = 0; i < l->n; i++) {
        struct hsp_box part[HSP_MAX_REST];
        uint32_t n = hsp_box_minus(&l->b[i], b, part);
        for (uint32_t j = 0; j < n; j++) {
            if (!hsp_boxes_add(&rest, &part[j])) {
                hsp_boxes_fini(&rest);
                return false;
            }
        }
    }
    hsp_boxes_fini(l);
    *l = rest;
    return true;
}

void hsp_boxes_fini(struct hsp_boxes *l)
{
    free(l->b);
    *l = (struct hsp_boxes){0};
}
