/* Says which cluster something belongs to, and which life of it (decision D19).
 *
 * A cluster has a random id for ever. Its *generation* is raised when a store that may be older is
 * put back, or when a job is adopted from its agents: whatever the lost store gave, a number of the
 * new generation is another. The upper half counts, the lower half is random, so that two stores
 * that were raised from one backup are told apart.
 *
 * Example: generation 0x0000000200000a17 is the second after the first store; its epochs begin at
 * 2083001. One backup was put back on two days, each time into an empty folder: both stores call
 * themselves the first generation after it, and their epochs begin at different numbers.
 *
 * Purity:  pure.
 */
#ifndef HSP_IDENTITY_H
#define HSP_IDENTITY_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/hash.h"

/* Epochs, and plans, that one job can use in one generation: more than one a second for ten days.
 * Small, for people read the numbers. */
#define HSP_GENERATION_NUMBERS UINT64_C(1000000)

/* No cluster: state of a program that knew of none. */
static inline bool hsp_cluster_none(struct hsp_digest id)
{
    return id.hi == 0 && id.lo == 0;
}

static inline uint32_t hsp_generation_number(uint64_t generation)
{
    return (uint32_t)(generation >> 32);
}

struct hsp_whose {
    struct hsp_digest cluster;
    uint64_t generation;
};

/* The one after @generation; @salt is random. */
static inline uint64_t hsp_generation_next(uint64_t generation, uint32_t salt)
{
    return ((uint64_t)hsp_generation_number(generation) + 1) << 32 | salt;
}

/* True when the holder of @ours has not seen @theirs: it is newer, or of another life. */
static inline bool hsp_generation_ahead(uint64_t theirs, uint64_t ours)
{
    return hsp_generation_number(theirs) > hsp_generation_number(ours) ||
           (hsp_generation_number(theirs) == hsp_generation_number(ours) && theirs != ours);
}

/* Places at which the numbers of a generation can begin: half of them is left behind
 * the last place. */
#define HSP_GENERATION_PLACES     500u
#define HSP_GENERATION_PLACE_SIZE 1000u

/* The first epoch and plan of a job in @generation; the last one is before the first of the
 * next. The random half chooses the place, so that two generations of one number hardly ever
 * give the same numbers. */
static inline uint64_t hsp_generation_first(uint64_t generation)
{
    const uint64_t number = hsp_generation_number(generation);
    const uint64_t place = (uint32_t)generation % HSP_GENERATION_PLACES;
    return number == 0 ? 1
                       : number * HSP_GENERATION_NUMBERS + place * HSP_GENERATION_PLACE_SIZE + 1;
}

#endif
