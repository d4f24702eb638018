#include "worker/state/box_hash.h"

#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/simd.h"
#include "proto/layout/box.h"
#include "worker/state/region.h"

#define GOLDEN 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio: spreads consecutive indices */

/* One 32 x 32 bit product, as in XXH3 and UMAC's NH (Black et al. 1999): every vector unit has it.
 * The sum of both halves keeps a zero half from hiding the other. */
static inline __attribute__((always_inline)) uint64_t term(uint64_t bits, uint64_t key)
{
    uint64_t w = bits ^ key;
    return (w & 0xffffffffU) * (w >> 32) + (w << 32 | w >> 32);
}

HSP_CLONES static uint64_t run_32(const uint8_t *restrict x, int64_t n, uint64_t key)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t v;
        memcpy(&v, x + 4 * i, sizeof v); /* data may stand anywhere in a file */
        sum += term((uint64_t)v << 32 | v, key);
        key += GOLDEN;
    }
    return sum;
}

HSP_CLONES static uint64_t run_64(const uint8_t *restrict x, int64_t n, uint64_t key)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t v;
        memcpy(&v, x + 8 * i, sizeof v);
        sum += term(v, key);
        key += GOLDEN;
    }
    return sum;
}

uint64_t hsp_box_hash(const struct hsp_box_id *id, const struct hsp_box *region,
                      const struct hsp_box *held, const void *data)
{
    struct hsp_box whole = hsp_box_whole(region->rank, id->full);
    struct hsp_walk w;
    int64_t at, index;
    uint64_t sum = 0;
    uint64_t salt = hsp_mix64(hsp_mix64((uint64_t)id->kind << 32 | id->tensor) + GOLDEN);
    hsp_walk_init(&w, region, held, &whole);
    while (hsp_walk_next(&w, &at, &index)) {
        uint64_t key = salt + (uint64_t)index * GOLDEN;
        if (id->dtype == HSP_F64) {
            sum += run_64((const uint8_t *)data + 8 * at, w.run, key);
        } else {
            sum += run_32((const uint8_t *)data + 4 * at, w.run, key);
        }
    }
    return sum;
}
