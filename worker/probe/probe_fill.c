#include "worker/probe/probe_fill.h"

#include <stdint.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/base/rng.h"
#include "proto/op/bf16.h"

#define SEED 0x68737064U

/* Multiples of 2^-23. */
static float single(uint32_t w)
{
    return (float)(w >> 8) * 0x1p-23F - 1;
}

/* Multiples of 2^-52. */
static double twice(uint32_t low, uint32_t high)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-52 - 1;
}

/* Of four words two or four numbers. Returns their bytes. */
static size_t make(enum hsp_dtype t, const uint32_t w[4], uint8_t to[16])
{
    float f[4];
    uint16_t b[4];
    const double d[2] = {twice(w[0], w[1]), twice(w[2], w[3])};
    if (t == HSP_F64) {
        memcpy(to, d, sizeof d);
        return sizeof d;
    }
    for (int k = 0; k < 4; k++) {
        f[k] = single(w[k]);
        b[k] = hsp_bf16_of(f[k]);
    }
    memcpy(to, t == HSP_BF16 ? (const void *)b : f, t == HSP_BF16 ? sizeof b : sizeof f);
    return t == HSP_BF16 ? sizeof b : sizeof f;
}

void hsp_probe_numbers(enum hsp_dtype t, uint32_t which, void *to, size_t bytes)
{
    const uint32_t key[2] = {SEED, which};
    size_t period = HSP_PROBE_PERIOD * hsp_dtype_size(t), n = bytes < period ? bytes : period;
    uint8_t *at = to, some[16];
    HSP_ASSERT(hsp_dtype_real(t));
    for (size_t k = 0, made = 0; k < n; k += made) {
        uint32_t w[4];
        hsp_philox((const uint32_t[4]){(uint32_t)k, (uint32_t)t, 0, 0}, key, w);
        made = make(t, w, some);
        memcpy(at + k, some, made < n - k ? made : n - k);
    }
    for (size_t done = n; done < bytes; done *= 2) {
        memcpy(at + done, at, done < bytes - done ? done : bytes - done);
    }
}
