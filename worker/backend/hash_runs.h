/* Joins dims of an array that is hashed, wherever the elements of two dims have consecutive
 * numbers.
 *
 * Purity:  pure.
 * Example: Rows 2 to 5 of a matrix of 8 x 10 are one run of 40 consecutive numbers. Columns 4 to 9
 *          of all rows are 8 runs of 6 numbers; each run begins 10 numbers after the run before
 *          it. */
#ifndef HSP_HASH_RUNS_H
#define HSP_HASH_RUNS_H
#include "worker/backend/backend.h"

/* Describes the elements of @c with the same numbers in the fewest dims, at least one; the last dim
 * has stride 1. Returns false if there is no element. */
bool hsp_hash_join(const struct hsp_hash_call *c, struct hsp_hash_call *ret);
/* Returns the number of element @at of the array; @at counts in row-major order. */
int64_t hsp_hash_number(const struct hsp_hash_call *c, int64_t at);

#endif
