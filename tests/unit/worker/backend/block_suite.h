/* Tests attention by blocks of keys on a backend. The results of blocks, merged in any order, must
 * be those of attention over all keys, and the gradients of blocks must add up to its gradient.
 * Blocks may be uneven or empty, and rows may see no key. */
#ifndef HSP_BLOCK_SUITE_H
#define HSP_BLOCK_SUITE_H
#include "worker/backend/backend.h"

struct block_suite {
    struct hsp_backend *backend;
    enum hsp_dtype type;
    double tolerance;      /* relative to the largest value, or to 1 */
    uint64_t n;            /* random problems of up to 40 positions */
    int64_t max_d, unit_d; /* heads of up to max_d elements, multiples of unit_d */
    int64_t long_s;        /* the positions of three further problems; 0: none */
};

/* Fails the test if a block, a merge or a sum is wrong. */
void block_suite_whole(const struct block_suite *s);
/* Fails the test unless a block that no query sees changes nothing on either side of a merge, and
 * two such blocks merge to another one, exactly. */
void block_suite_nothing(const struct block_suite *s);

#endif
