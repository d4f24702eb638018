#include "proto/base/rng.h"

#include <math.h>

#include "proto/base/hash.h"

static void philox_round(uint32_t c[4], const uint32_t k[2])
{
    uint64_t p0 = (uint64_t)0xD2511F53U * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57U * c[2];
    uint32_t r0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k[0];
    uint32_t r2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k[1];
    c[0] = r0;
    c[1] = (uint32_t)p1;
    c[2] = r2;
    c[3] = (uint32_t)p0;
}

void hsp_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {ctr[0], ctr[1], ctr[2], ctr[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int i = 0; i < 10; i++) {
        if (i > 0) {
            k[0] += 0x9E3779B9U; /* Weyl sequence: golden ratio */
            k[1] += 0xBB67AE85U; /* sqrt(3) - 1 */
        }
        philox_round(c, k);
    }
    for (int i = 0; i < 4; i++) {
        out[i] = c[i];
    }
}

/* One block, as two 64-bit words. Seed and stream are folded into the key, a and b are the
 * counter, so within a stream all blocks are distinct. */
static void block(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b, uint64_t out[2])
{
    uint64_t k = hsp_mix64(seed + 0x9E3779B97F4A7C15ULL) ^ hsp_mix64(~stream);
    const uint32_t key[2] = {(uint32_t)k, (uint32_t)(k >> 32)};
    const uint32_t ctr[4] = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32)};
    uint32_t w[4];
    hsp_philox(ctr, key, w);
    out[0] = (uint64_t)w[1] << 32 | w[0];
    out[1] = (uint64_t)w[3] << 32 | w[2];
}

uint64_t hsp_rng_u64(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b)
{
    uint64_t w[2];
    block(seed, stream, a, b, w);
    return w[0];
}

double hsp_rng_normal(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b)
{
    uint64_t w[2];
    block(seed, stream, a, b, w);
    double u = (double)((w[0] >> 11) + 1) * 0x1p-53; /* (0, 1]: the logarithm is finite */
    double v = (double)(w[1] >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

uint64_t hsp_rng_below(uint64_t n, uint64_t seed, uint64_t stream, uint64_t a, uint64_t b)
{
    /* Lemire: the high half of a 128-bit product. */
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)(((u128)hsp_rng_u64(seed, stream, a, b) * n) >> 64);
}
