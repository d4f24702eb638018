#include "worker/exec/cells.h"

#include <string.h>

size_t hsp_cell_bytes(const struct hsp_box *cell, enum hsp_dtype t)
{
    return (size_t)hsp_box_count(cell) * hsp_dtype_size(t);
}

/* Offset of the cell's first element and the stride of each dim, in elements. */
static int64_t strides(const struct hsp_box *held, const struct hsp_box *cell,
                       int64_t ret[HSP_MAX_RANK])
{
    int64_t s = 1, at = 0;
    for (int d = (int)held->rank - 1; d >= 0; d--) {
        ret[d] = s;
        at += (cell->lo[d] - held->lo[d]) * s;
        s *= held->hi[d] - held->lo[d];
    }
    return at;
}

/* Number of leading dims left to walk once trailing dims that are whole in @held are one run. */
static int outer_dims(const struct hsp_box *held, const struct hsp_box *cell)
{
    int d = (int)cell->rank;
    while (d > 0) {
        d--;
        if (cell->hi[d] - cell->lo[d] != held->hi[d] - held->lo[d]) {
            break; /* a run may end in a cut dim, not go beyond it */
        }
    }
    return d;
}

static void add_run(enum hsp_dtype t, uint8_t *dst, const uint8_t *src, int64_t n)
{
    switch (t) {
    case HSP_F64:
        for (int64_t k = 0; k < n; k++) {
            ((double *)(void *)dst)[k] += ((const double *)(const void *)src)[k];
        }
        return;
    case HSP_F32:
        for (int64_t k = 0; k < n; k++) {
            ((float *)(void *)dst)[k] += ((const float *)(const void *)src)[k];
        }
        return;
    case HSP_I32:
        for (int64_t k = 0; k < n; k++) {
            ((int32_t *)(void *)dst)[k] += ((const int32_t *)(const void *)src)[k];
        }
        return;
    }
}

static void walk(const struct hsp_view *dst, const struct hsp_view *src, const struct hsp_box *cell,
                 bool add)
{
    if (hsp_box_empty(cell)) {
        return;
    }
    int64_t ds[HSP_MAX_RANK], ss[HSP_MAX_RANK], at[HSP_MAX_RANK] = {0}, run = 1;
    int64_t d0 = strides(&dst->box, cell, ds), s0 = strides(&src->box, cell, ss);
    int od = outer_dims(&dst->box, cell), os = outer_dims(&src->box, cell);
    int outer = od > os ? od : os;
    for (int d = outer; d < (int)cell->rank; d++) {
        run *= cell->hi[d] - cell->lo[d];
    }
    size_t elem = hsp_dtype_size(dst->dtype);
    for (;;) {
        int64_t a = d0, b = s0;
        for (int d = 0; d < outer; d++) {
            a += at[d] * ds[d];
            b += at[d] * ss[d];
        }
        uint8_t *to = (uint8_t *)dst->data + (size_t)a * elem;
        const uint8_t *from = (const uint8_t *)src->data + (size_t)b * elem;
        if (add) {
            add_run(dst->dtype, to, from, run);
        } else {
            memmove(to, from, (size_t)run * elem);
        }
        int d = outer - 1;
        while (d >= 0 && ++at[d] == cell->hi[d] - cell->lo[d]) {
            at[d--] = 0;
        }
        if (d < 0) {
            return;
        }
    }
}

void hsp_cell_copy(const struct hsp_view *dst, const struct hsp_view *src,
                   const struct hsp_box *cell)
{
    walk(dst, src, cell, false);
}

void hsp_cell_add(const struct hsp_view *dst, const struct hsp_view *src,
                  const struct hsp_box *cell)
{
    walk(dst, src, cell, true);
}

void *hsp_cell_run(const struct hsp_view *v, const struct hsp_box *cell)
{
    for (int d = outer_dims(&v->box, cell) - 1; d >= 0; d--) {
        if (cell->hi[d] - cell->lo[d] != 1) {
            return NULL;
        }
    }
    int64_t s[HSP_MAX_RANK];
    return (uint8_t *)v->data + (size_t)strides(&v->box, cell, s) * hsp_dtype_size(v->dtype);
}
