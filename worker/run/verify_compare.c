#include "worker/run/verify_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/layout/box.h"
#include "proto/op/bf16.h"
#include "worker/run/verify_impl.h"

static double value_at(const struct hsp_cell_view *v, int64_t k)
{
    switch (v->dtype) {
    case HSP_F32: return (double)((const float *)v->data)[k];
    case HSP_F64: return ((const double *)v->data)[k];
    case HSP_I32: return (double)((const int32_t *)v->data)[k];
    case HSP_BF16: return (double)hsp_bf16_float(((const uint16_t *)v->data)[k]);
    }
    return 0.0;
}

/* Calls for each element of @cell: index in the view, index in the kept array (rows moved by
 * @row0). */
struct walk {
    const struct hsp_cell_view *view;
    const struct hsp_kept *kept;
    int64_t row0;
};

static bool next_element(const struct hsp_box *cell, int64_t *at)
{
    for (int d = (int)cell->rank - 1; d >= 0; d--) {
        if (++at[d] < cell->hi[d]) {
            return true;
        }
        at[d] = cell->lo[d];
    }
    return false;
}

static void indices(const struct walk *w, const int64_t *at, int64_t *ret_view, int64_t *ret_kept)
{
    int64_t a = 0, b = 0;
    for (uint8_t d = 0; d < w->view->box.rank; d++) {
        const struct hsp_box *v = &w->view->box, *k = &w->kept->box;
        a = a * (v->hi[d] - v->lo[d]) + at[d] - v->lo[d];
        b = b * (k->hi[d] - k->lo[d]) + at[d] - k->lo[d] + (d == 0 ? w->row0 : 0);
    }
    *ret_view = a;
    *ret_kept = b;
}

enum hsp_status hsp_kept_put(struct hsp_kept *k, const struct hsp_cell_view *v,
                             const struct hsp_box *full, int64_t row0, struct hsp_err *err)
{
    if (!k->data) {
        k->box = *full;
        k->scale = 0.0;
        k->data = calloc((size_t)hsp_box_count(full) + 1, sizeof(double));
        if (!k->data) {
            return hsp_err_nomem(err, "the reference's values");
        }
    }
    struct walk w = {.view = v, .kept = k, .row0 = row0};
    int64_t at[HSP_MAX_RANK], from, to;
    memcpy(at, v->box.lo, sizeof(at));
    if (hsp_box_empty(&v->box)) {
        return HSP_OK;
    }
    do {
        indices(&w, at, &from, &to);
        k->data[to] = value_at(v, from);
        if (isfinite(k->data[to])) {
            k->scale = fmax(k->scale, fabs(k->data[to]));
        }
    } while (next_element(&v->box, at));
    return HSP_OK;
}

enum hsp_status hsp_kept_put_row(struct hsp_kept *k, const struct hsp_cell_view *v, uint32_t row,
                                 uint32_t rows, struct hsp_err *err)
{
    size_t n = (size_t)hsp_box_count(&v->box);
    if (!k->data) {
        *k = (struct hsp_kept){.box = v->box, .rows = rows};
        k->data = calloc(n * rows + 1, sizeof(double));
        if (!k->data) {
            return hsp_err_nomem(err, "the reference's values");
        }
    }
    for (size_t i = 0; i < n && row < rows; i++) {
        double x = value_at(v, (int64_t)i);
        k->data[row * n + i] = x;
        k->scale = isfinite(x) ? fmax(k->scale, fabs(x)) : k->scale;
    }
    return HSP_OK;
}

enum hsp_status hsp_kept_zero(struct hsp_kept *sum, const struct hsp_box *box, struct hsp_err *err)
{
    *sum = (struct hsp_kept){.box = *box,
                             .data = calloc((size_t)hsp_box_count(box) + 1, sizeof(double))};
    return sum->data ? HSP_OK : hsp_err_nomem(err, "the comparison");
}

void hsp_kept_add(const struct hsp_kept *k, uint32_t first, uint32_t end, struct hsp_kept *sum)
{
    size_t n = (size_t)hsp_box_count(&k->box);
    for (uint32_t row = first; row < end && row < k->rows; row++) {
        for (size_t i = 0; i < n; i++) {
            sum->data[i] += k->data[row * n + i];
        }
    }
    sum->scale = fmax(sum->scale, k->scale);
}

void hsp_kept_drop(struct hsp_kept *k)
{
    free(k->data);
    *k = (struct hsp_kept){0};
}

double hsp_verify_distance(double have, double want, double tol)
{
    bool same = have == want || (isnan(have) && isnan(want));
    double by = fabs(have - want) / (tol * fabs(want) + 1e-300);
    return same ? 0.0 : isnan(by) ? (double)INFINITY : by; /* only one of them is a number */
}

double hsp_kept_distance(const struct hsp_kept *k, const struct hsp_cell_view *v,
                         const struct hsp_box *cell, int64_t row0, double tol)
{
    struct walk w = {.view = v, .kept = k, .row0 = row0};
    int64_t at[HSP_MAX_RANK], a, b;
    double worst = 0.0, allowed = tol * (k->scale + 1e-30);
    memcpy(at, cell->lo, sizeof(at));
    if (hsp_box_empty(cell)) {
        return 0.0;
    }
    do {
        indices(&w, at, &a, &b);
        double x = value_at(v, a), y = k->data[b];
        bool same = (isnan(x) && isnan(y)) || (isinf(x) && isinf(y) && (x > 0) == (y > 0));
        double d = same                         ? 0.0
                   : isfinite(x) && isfinite(y) ? fabs(x - y) / allowed
                                                : (double)INFINITY;
        worst = d > worst ? d : worst;
    } while (next_element(cell, at));
    return worst;
}

double hsp_verify_tolerance(enum hsp_dtype t)
{
    switch (t) {
    case HSP_F64: return 1e-8;
    case HSP_F32: return 2e-3;
    case HSP_BF16: return 0x1p-4;
    case HSP_I32: return 0.0;
    }
    return 0.0;
}
