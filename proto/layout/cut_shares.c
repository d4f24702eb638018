#include "proto/layout/cut_shares.h"

#include <stdbool.h>

#include "proto/base/check.h"

__extension__ typedef unsigned __int128 u128;

/* Part @w of @sum of @total units, rounded down, and the fraction lost. */
static int64_t floor_part(int64_t total, int64_t w, int64_t sum, int64_t *ret_rest)
{
    u128 x = (u128)(uint64_t)total * (uint64_t)w;
    *ret_rest = (int64_t)(x % (uint64_t)sum);
    return (int64_t)(x / (uint64_t)sum);
}

/* The index with the largest remainder not larger than (*rest, after *at) in the order (remainder
 * down, index up); moves *rest, *at to it. */
static uint32_t next_remainder(int64_t total, uint32_t n, const int64_t *w, int64_t sum,
                               int64_t *rest, int64_t *at)
{
    int64_t best_rest = -1, best = -1;
    for (uint32_t i = 0; i < n; i++) {
        int64_t r;
        (void)floor_part(total, w[i], sum, &r);
        bool later = r < *rest || (r == *rest && (int64_t)i > *at);
        if (later && r > best_rest) {
            best_rest = r;
            best = i;
        }
    }
    HSP_ASSERT(best >= 0);
    *rest = best_rest;
    *at = best;
    return (uint32_t)best;
}

void hsp_cut_shares(int64_t total, uint32_t n, const int64_t *w, int64_t *ret)
{
    int64_t sum = 0, given = 0, rest = INT64_MAX, at = -1;
    for (uint32_t i = 0; i < n; i++) {
        sum += w[i];
    }
    ret[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t lost;
        ret[i + 1] = sum > 0 ? floor_part(total, w[i], sum, &lost) : (i == 0 ? total : 0);
        given += ret[i + 1];
    }
    for (; given < total; given++) {
        ret[next_remainder(total, n, w, sum, &rest, &at) + 1]++;
    }
    for (uint32_t i = 0; i < n; i++) {
        ret[i + 1] += ret[i];
    }
}

void hsp_cut_grains(int64_t extent, int64_t grain, uint32_t n, const int64_t *w, int64_t *ret)
{
    hsp_cut_shares(extent / grain + (extent % grain != 0), n, w, ret);
    for (uint32_t i = 0; i <= n; i++) {
        ret[i] = i == n ? extent : ret[i] * grain < extent ? ret[i] * grain : extent;
    }
}
