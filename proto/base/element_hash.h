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

/* Returns the term of an element of 64 bits; an element of 32 bits is put into both halves. The
 * term is one 32 x 32 bit product, as in XXH3 and UMAC's NH (Black et al. 1999), since every vector
 * unit has it. Adding the sum of both halves prevents a zero half from hiding the other one. */
static inline __attribute__((always_inline)) uint64_t hsp_hash_term(uint64_t bits, uint64_t key)
{
    uint64_t w = bits ^ key;
    return (w & 0xffffffffU) * (w >> 32) + (w << 32 | w >> 32);
}

/* Returns the hash of @n elements of 4 bytes at @x, which need not be aligned; the first element
 * has @key. This loop over single elements is the definition of the hash. */
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

/* Returns the hash of @n elements of 8 bytes in the same way. */
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

/* Compute the same hashes with vector instructions, by the widest kernel that this processor can
 * run. */
uint64_t hsp_hash_32(const uint8_t *x, int64_t n, uint64_t key);
uint64_t hsp_hash_64(const uint8_t *x, int64_t n, uint64_t key);

struct hsp_hash_kernel {
    const char *name;
    uint64_t (*run_32)(const uint8_t *x, int64_t n, uint64_t key);
    uint64_t (*run_64)(const uint8_t *x, int64_t n, uint64_t key);
};

/* Returns the @i-th of the hash kernels that this processor can run; number 0 is the fastest.
 * Returns NULL if there are no more. */
const struct hsp_hash_kernel *hsp_hash_kernel_at(unsigned i);

#endif
