/* Computes uneven shares: hands out sequences greedily, and fractions by rounding. */
#include "daemon/planner/shares.h"

#include <math.h>
#include <stdlib.h>

#include "daemon/lp/solve.h"
#include "proto/base/size.h"

double hsp_share_us(const struct hsp_share_dev *d, uint32_t n)
{
    uint32_t micro = (n + d->micro - 1) / d->micro;
    return d->fixed_us + micro * d->micro_us + n * d->seq_us;
}

/* Most sequences a receiver finishes by @t, by bisection over its non-falling time. */
static uint32_t done_by(const struct hsp_share_dev *d, double t, uint32_t total)
{
    uint32_t lo = d->min, hi = d->max < total ? d->max : total;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo + 1) / 2;
        if (hsp_share_us(d, mid) <= t) {
            lo = mid;
        } else {
            hi = mid - 1;
        }
    }
    return lo;
}

static uint64_t all_done_by(uint32_t n, const struct hsp_share_dev *dev, double t, uint32_t total,
                            uint32_t *ret)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = done_by(&dev[i], t, total);
        sum += ret[i];
    }
    return sum;
}

/* The largest time by which no more than @total are done, within rounding: bisection on doubles.
 * Leaves the corresponding shares in @ret. */
static uint64_t start(uint32_t n, const struct hsp_share_dev *dev, uint32_t total, uint32_t *ret)
{
    double lo = 0, hi = 0;
    for (uint32_t i = 0; i < n; i++) {
        hi = fmax(hi, hsp_share_us(&dev[i], total));
    }
    for (int round = 0; round < 64; round++) {
        double mid = lo + (hi - lo) / 2;
        if (all_done_by(n, dev, mid, total, ret) <= total) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return all_done_by(n, dev, lo, total, ret);
}

enum hsp_status hsp_shares_minmax(uint32_t n, const struct hsp_share_dev *dev, uint32_t total,
                                  uint32_t *ret, double *ret_us, struct hsp_err *err)
{
    uint64_t least = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        least += dev[i].min;
        most += dev[i].max < total ? dev[i].max : total;
    }
    if (least > total || most < total) {
        return hsp_err_set(err, HSP_EINFEASIBLE, 0,
                           "%u sequences over %u pipelines that take %llu to %llu", total, n,
                           (unsigned long long)least, (unsigned long long)most);
    }
    uint64_t given = start(n, dev, total, ret);
    for (; given < total; given++) {
        uint32_t best = UINT32_MAX;
        double best_us = 0;
        for (uint32_t i = 0; i < n; i++) {
            double us = hsp_share_us(&dev[i], ret[i] + 1);
            if (ret[i] < dev[i].max && (best == UINT32_MAX || us < best_us)) {
                best = i;
                best_us = us;
            }
        }
        ret[best]++;
    }
    *ret_us = 0;
    for (uint32_t i = 0; i < n; i++) {
        *ret_us = fmax(*ret_us, hsp_share_us(&dev[i], ret[i]));
    }
    return HSP_OK;
}

/* Variables: w[0..n), then T[k] for each segment. */
static enum hsp_status build(const struct hsp_segments *s, struct hsp_lp *lp, double *ones,
                             uint32_t *index, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t j = 0; j < s->n && st == HSP_OK; j++) {
        double top = s->mem[j] > 0 ? fmin(1, s->cap[j] / s->mem[j]) : 1;
        if (top < 0) {
            return hsp_err_set(err, HSP_EINFEASIBLE, 0, "member %u of %u has no memory left", j,
                               s->n);
        }
        ones[j] = 1;
        st = hsp_lp_add_var(lp, 0, top, 0, false, &index[j], err);
    }
    if (st == HSP_OK) {
        st = hsp_lp_add_row(lp, s->n, index, ones, 1, 1, err);
    }
    for (uint32_t k = 0; k < s->n_segments && st == HSP_OK; k++) {
        uint32_t t = 0;
        st = hsp_lp_add_var(lp, 0, HSP_LP_INF, 1, false, &t, err);
        for (uint32_t j = 0; j < s->n && st == HSP_OK; j++) {
            size_t at = (size_t)k * s->n + j;
            uint32_t var[2] = {t, index[j]};
            double coef[2] = {1, -s->slope[at]};
            st = hsp_lp_add_row(lp, 2, var, coef, s->fixed[at], HSP_LP_INF, err);
        }
    }
    return st;
}

/* Times are scaled to about 1 for the solver's tolerances. */
static double time_scale(const struct hsp_segments *s)
{
    double top = 0;
    for (size_t i = 0; i < (size_t)s->n_segments * s->n; i++) {
        top = fmax(top, fmax(s->slope[i], s->fixed[i]));
    }
    return top > 0 ? top : 1;
}

static double segments_us(const struct hsp_segments *s, const double *w)
{
    double sum = 0;
    for (uint32_t k = 0; k < s->n_segments; k++) {
        double slowest = 0;
        for (uint32_t j = 0; j < s->n; j++) {
            size_t at = (size_t)k * s->n + j;
            slowest = fmax(slowest, s->fixed[at] + s->slope[at] * w[j]);
        }
        sum += slowest;
    }
    return sum;
}

enum hsp_status hsp_shares_segments(const struct hsp_segments *s,
                                    const struct hsp_lp_limits *limits, double *ret_w,
                                    double *ret_us, struct hsp_err *err)
{
    size_t cells = (size_t)s->n_segments * s->n, n_vars = (size_t)s->n + s->n_segments;
    double *scaled = calloc(2 * cells + 1, sizeof(*scaled));
    double *x = calloc(n_vars + s->n + 1, sizeof(*x));
    uint32_t *index = calloc((size_t)s->n + 1, sizeof(*index));
    struct hsp_lp *lp = hsp_lp_new(HSP_LP_MIN);
    struct hsp_lp_result r = {0};
    enum hsp_status st = HSP_OK;
    if (scaled == NULL || x == NULL || index == NULL || lp == NULL) {
        st = hsp_err_nomem(err, "shares of %u members", s->n);
        goto out;
    }
    double scale = time_scale(s);
    for (size_t i = 0; i < cells; i++) {
        scaled[i] = s->slope[i] / scale;
        scaled[cells + i] = s->fixed[i] / scale;
    }
    struct hsp_segments unit = *s;
    unit.slope = scaled;
    unit.fixed = scaled + cells;
    st = build(&unit, lp, x + n_vars, index, err);
    if (st == HSP_OK) {
        st = hsp_lp_solve(lp, limits, x, &r, err);
    }
    if (st == HSP_OK) {
        for (uint32_t j = 0; j < s->n; j++) {
            ret_w[j] = x[index[j]];
        }
        *ret_us = segments_us(s, ret_w);
    }
out:
    hsp_lp_free(lp);
    free(index);
    free(x);
    free(scaled);
    return st;
}
