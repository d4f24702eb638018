#include "worker/backend/cells.h"

#include <string.h>

#include "proto/layout/box.h"
#include "proto/op/bf16.h"

size_t hsp_cell_bytes(const struct hsp_box *cell, enum hsp_dtype t)
{
    return (size_t)hsp_box_count(cell) * hsp_dtype_size(t);
}

/* Returns the offset of the cell's first element in the box @held, and in @ret the stride of each
 * dim; both count elements. */
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

/* Returns the number of leading dims that a walk over the cell has to step through. The dims after
 * them are contiguous in memory: the cell spans the full extent of each of them in @held, except
 * perhaps of the first. */
static int outer_dims(const struct hsp_box *held, const struct hsp_box *cell)
{
    int d = (int)cell->rank;
    while (d > 0) {
        d--;
        if (cell->hi[d] - cell->lo[d] != held->hi[d] - held->lo[d]) {
            break; /* a contiguous run may end in this cut dim, but not go beyond it */
        }
    }
    return d;
}

/* dst = dst + src, or the larger of the two; a NaN in dst stays, since x != x */
#define REDUCE_RUN(type, dst, src, n, max)                                   \
    do {                                                                     \
        type *d_ = (void *)(dst);                                            \
        const type *s_ = (const void *)(src);                                \
        for (int64_t k_ = 0; k_ < (n); k_++) {                               \
            d_[k_] = !(max)                                ? d_[k_] + s_[k_] \
                     : d_[k_] > s_[k_] || d_[k_] != d_[k_] ? d_[k_]          \
                                                           : s_[k_];         \
        }                                                                    \
    } while (0)

/* Adds bf16 numbers, or takes the larger, in fp32, and rounds the result once. */
static void reduce_bf16(uint16_t *dst, const uint16_t *src, int64_t n, bool max)
{
    for (int64_t k = 0; k < n; k++) {
        float d = hsp_bf16_float(dst[k]), s = hsp_bf16_float(src[k]);
        dst[k] = hsp_bf16_of(!max ? d + s : d > s || d != d ? d : s);
    }
}

static void reduce_run(enum hsp_dtype t, uint8_t *dst, const uint8_t *src, int64_t n, bool max)
{
    switch (t) {
    case HSP_F64: REDUCE_RUN(double, dst, src, n, max); return;
    case HSP_F32: REDUCE_RUN(float, dst, src, n, max); return;
    case HSP_I32: REDUCE_RUN(int32_t, dst, src, n, max); return;
    case HSP_BF16: reduce_bf16((void *)dst, (const void *)src, n, max); return;
    }
}

/* The work that a walk does on each element of a cell. */
enum walk { WALK_COPY, WALK_ADD, WALK_MAX };

static void walk(const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                 const struct hsp_box *cell, enum walk how)
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
        if (how != WALK_COPY) {
            reduce_run(dst->dtype, to, from, run, how == WALK_MAX);
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

void hsp_cell_copy(const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                   const struct hsp_box *cell)
{
    walk(dst, src, cell, WALK_COPY);
}

void hsp_cell_reduce(const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                     const struct hsp_box *cell, enum hsp_reduce how)
{
    walk(dst, src, cell, how == HSP_REDUCE_MAX ? WALK_MAX : WALK_ADD);
}

void *hsp_cell_run(const struct hsp_cell_view *v, const struct hsp_box *cell)
{
    for (int d = outer_dims(&v->box, cell) - 1; d >= 0; d--) {
        if (cell->hi[d] - cell->lo[d] != 1) {
            return NULL;
        }
    }
    int64_t s[HSP_MAX_RANK];
    return (uint8_t *)v->data + (size_t)strides(&v->box, cell, s) * hsp_dtype_size(v->dtype);
}
