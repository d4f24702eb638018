/* Tests attention by blocks of keys, on a backend: merged in any order they make whole attention,
 * and their gradients add up to its gradient; uneven and empty blocks, rows that see nothing. */
#ifndef HSP_BLOCK_SUITE_H
#define HSP_BLOCK_SUITE_H
#include "worker/backend/backend.h"

struct block_suite {
    struct hsp_backend *backend;
    enum hsp_dtype type;
    double tolerance;      /* relative to the largest value, or to 1 */
    uint64_t n;            /* random problems of up to 40 positions */
    int64_t max_d, unit_d; /* heads of up to max_d elements, multiples of unit_d */
    int64_t long_s;        /* and three of so many positions; 0: none */
};

/* Fails the test where a block, a merge or a sum is wrong. */
void block_suite_whole(const struct block_suite *s);
/* A block that no query sees changes nothing on either side of a merge, and two of them make one;
 * exactly. */
void block_suite_nothing(const struct block_suite *s);

#endif
