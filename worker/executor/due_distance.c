#include "worker/executor/due_distance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLIND    4      /* distance until the cost is known */
#define FIRST    3      /* steps alone before the first version is due */
#define ENOUGH   9      /* steps alone before a cost is measured: some are slow */
#define NORMAL   1.4826 /* standard deviation / median distance from median, of normal values */
#define MEDIAN   1.2533 /* standard error of a median / that of a mean, of normal values */
#define SURELY   2      /* standard errors in the bound of a cost */
#define FARTHEST 1000000

struct middle {
    double median, deviation; /* standard deviation of one time */
    uint32_t n;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double half_way(double *s, uint32_t n)
{
    qsort(s, n, sizeof *s, by_value);
    return s[n / 2];
}

/* Returns median and deviation of the newest times. There is at least one time. */
static struct middle middle_of(const struct hsp_due_times *t)
{
    double s[HSP_DUE_TIMES], away[HSP_DUE_TIMES];
    struct middle m = {.n = t->n < HSP_DUE_TIMES ? t->n : HSP_DUE_TIMES};
    memcpy(s, t->s, sizeof s);
    m.median = half_way(s, m.n);
    for (uint32_t i = 0; i < m.n; i++) {
        away[i] = fabs(s[i] - m.median);
    }
    m.deviation = NORMAL * half_way(away, m.n);
    return m;
}

static void note(struct hsp_due_times *t, double seconds)
{
    t->s[t->n++ % HSP_DUE_TIMES] = seconds;
}

void hsp_due_distance_step(struct hsp_due_distance *d, double seconds, bool copied, bool validates)
{
    bool alike = !validates || d->validated;
    d->validated = validates;
    if (!alike || !(seconds > 0) || !isfinite(seconds)) {
        return;
    }
    d->rests = !copied;
    if (!copied) {
        note(&d->alone, seconds);
        d->n_close = 0;
    } else if (d->alone.n >= ENOUGH) {
        d->more_s += seconds - middle_of(&d->alone).median;
        d->n_beside++;
    }
}

void hsp_due_distance_stable(struct hsp_due_distance *d)
{
    if (d->n_beside > 0) {
        note(&d->more, d->more_s);
        d->beside = d->n_beside;
    }
    d->more_s = 0;
    d->n_beside = 0;
    d->n_close++;
}

/* The median of few noisy differences may be far below the real cost, so a bound is added. The
 * error of the median has two parts: the error of the measured versions, and the error of the
 * median time of a step alone, once for each step beside a version, from which that time is
 * subtracted. */
double hsp_due_distance_cost(const struct hsp_due_distance *d)
{
    if (d->more.n == 0) {
        return 0;
    }
    const struct middle more = middle_of(&d->more), alone = middle_of(&d->alone);
    double k = d->beside, step = alone.deviation * alone.deviation;
    double version = fmax(more.deviation * more.deviation, k * step);
    double error = MEDIAN * sqrt(version / more.n + k * k * step / alone.n);
    return fmax(more.median, 0) + SURELY * error;
}

double hsp_due_distance_alone(const struct hsp_due_distance *d)
{
    return d->alone.n > 0 ? middle_of(&d->alone).median : 0;
}

uint64_t hsp_due_distance_choose(const struct hsp_due_distance *d)
{
    if (d->more.n == 0) {
        return BLIND;
    }
    double alone = middle_of(&d->alone).median;
    double least = ceil(hsp_due_distance_cost(d) / (d->overhead * alone));
    double most = floor(d->recompute_s / alone), n = least < most ? least : most;
    return n < 1 ? 1 : n < FARTHEST ? (uint64_t)n : FARTHEST;
}

bool hsp_due_distance_reached(const struct hsp_due_distance *d, uint64_t steps)
{
    bool looks = d->alone.n < HSP_DUE_TIMES || d->n_close >= HSP_DUE_TIMES;
    return d->alone.n >= FIRST && steps >= hsp_due_distance_choose(d) && (d->rests || !looks);
}
