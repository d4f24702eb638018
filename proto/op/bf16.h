/* Converts bfloat16: the upper half of an fp32, as bits in a uint16_t.
 *
 * Role:    storage of the compute dtype; arithmetic on it is done in fp32 and rounded on the way
 *          out.
 * Purity:  pure. */
#ifndef HSP_BF16_H
#define HSP_BF16_H
#include <stdint.h>
#include <string.h> /* memcpy */

/* The same number in fp32; exact. */
static inline float hsp_bf16_float(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The nearest bf16, ties to even. A value at least half a step above the largest finite number
 * becomes infinite; a NaN stays one, quiet, with its sign. */
static inline uint16_t hsp_bf16_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t near = bits + 0x7fffu + (bits >> 16 & 1u);
    uint32_t nan = bits | 0x00400000u;
    return (uint16_t)(((bits & 0x7fffffffu) > 0x7f800000u ? nan : near) >> 16);
}

#endif
