/* Hashes elements of state additively, by their number in the tensor and their bits (decision D10).
 *
 * Element i of a tensor with salt s has key s + i * HSP_HASH_STEP; the hash of a set of elements is
 * the sum mod 2^64 of their terms. So hashes of disjoint sets add up, in any order. worker/state
 * gives boxes their salts (box_hash.h); backends hash the contents of their memory (backend.h).
 *
 * Purity: pure. The values are part of formats.
 */
#ifndef HSP_ELEMENT_HASH_H
#define HSP_ELEMENT_HASH_H
#include <stdint.h>
#include <string.h>

#define HSP_HASH_STEP 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio: spreads consecutive numbers */

/* The term of an element of 64 bits; one of 32 stands in both halves. One 32 x 32 bit product, as
 * in XXH3 and UMAC's NH (Black et al. 1999): every vector unit has it. The sum of both halves keeps
 * a zero half from hiding the other. */
static inline __attribute__((always_inline)) uint64_t hsp_hash_term(uint64_t bits, uint64_t key)
{
    uint64_t w = bits ^ key;
    return (w & 0xffffffffU) * (w >> 32) + (w << 32 | w >> 32);
}

/* @n elements of 4 bytes at @x, which may stand anywhere; the first has @key. The definition, one
 * element after the other. */
static inline __attribute__((always_inline)) uint64_t hsp_hash_run_32(const uint8_t *x, int64_t n,
                                                                      uint64_t key)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, x + 4 * i, sizeof v);
        sum += hsp_hash_term((uint64_t)v << 32 | v, key);
        key += HSP_HASH_STEP;
    }
    return sum;
}

/* The same of elements of 8 bytes. */
static inline __attribute__((always_inline)) uint64_t hsp_hash_run_64(const uint8_t *x, int64_t n,
                                                                      uint64_t key)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t v;
        memcpy(&v, x + 8 * i, sizeof v);
        sum += hsp_hash_term(v, key);
        key += HSP_HASH_STEP;
    }
    return sum;
}

/* The same of runs in vectors, by the widest kernel that this processor has. */
uint64_t hsp_hash_32(const uint8_t *x, int64_t n, uint64_t key);
uint64_t hsp_hash_64(const uint8_t *x, int64_t n, uint64_t key);

struct hsp_hash_kernel {
    const char *name;
    uint64_t (*run_32)(const uint8_t *x, int64_t n, uint64_t key);
    uint64_t (*run_64)(const uint8_t *x, int64_t n, uint64_t key);
};

/* The kernels that this processor can run, the fastest is number 0; NULL beyond the last one. */
const struct hsp_hash_kernel *hsp_hash_kernel_at(unsigned i);

#endif
