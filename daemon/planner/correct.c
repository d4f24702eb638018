/* Corrects a device's profile from recorded sums of time by kind of work. */
#include "daemon/planner/correct.h"

#include <math.h>
#include <stdbool.h>

static bool is_time(double s)
{
    return isfinite(s) && s > 0;
}

static bool says_something(const struct hsp_class_sum *s)
{
    return is_time(s->seconds) && isfinite(s->n) && s->n > 0;
}

static double bounded(double factor)
{
    return fmin(fmax(factor, 1 / HSP_CORRECT_MOST), HSP_CORRECT_MOST);
}

void hsp_profile_correct(struct hsp_device_desc *d, enum hsp_rate rate,
                         const struct hsp_measured *m)
{
    double elements = rate == HSP_RATE_BF16 ? hsp_device_bf16_bytes(d) : d->mem_bytes_per_s;
    double work_p = 0, work_e = m->bytes / elements;
    for (int c = 0; c < HSP_N_GEMM_CLASSES; c++) {
        work_p += m->flops[c] / hsp_device_gemm(d, rate, (enum hsp_gemm_class)c);
    }
    if (!says_something(&m->product) || !says_something(&m->elements) || !is_time(work_p) ||
        !is_time(work_e)) {
        return;
    }
    /* the fixed parts stay as they are: the rest of a kind's time is its work */
    double fixed_p = 1e-6 * m->product.n * (d->op_us + d->gemm_us);
    double fixed_e = 1e-6 * m->elements.n * d->op_us;
    double predicted = fixed_p + work_p + fixed_e + work_e;
    double scale = predicted / (m->product.seconds + m->elements.seconds);
    double want_p = m->product.seconds * scale - fixed_p;
    double want_e = m->elements.seconds * scale - fixed_e;
    if (!(want_p > 0) || !(want_e > 0)) {
        return;
    }
    double faster_p = work_p / want_p, faster_e = work_e / want_e;
    if (fabs(log(faster_p)) < HSP_CORRECT_NOISE && fabs(log(faster_e)) < HSP_CORRECT_NOISE) {
        return;
    }
    for (int r = 0; r < HSP_N_RATES; r++) {
        d->gemm_flops[r] *= bounded(faster_p);
    }
    d->mem_bytes_per_s *= bounded(faster_e);
}
