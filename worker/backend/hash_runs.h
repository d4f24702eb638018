/* Joins the dims of an array that is hashed, as far as its elements are numbered in one row.
 *
 * Purity:  pure.
 * Example: rows 2 to 5 of a matrix of 8 x 10 are one run of 40 elements. Columns 4 to 9 of all rows
 *          are 8 runs of 6 elements, the first of each 10 numbers behind that of the run before. */
#ifndef HSP_HASH_RUNS_H
#define HSP_HASH_RUNS_H
#include "worker/backend/backend.h"

/* The same elements with the same numbers in the fewest dims, at least one; the last has stride 1.
 * False: there is no element. */
bool hsp_hash_join(const struct hsp_hash_call *c, struct hsp_hash_call *ret);
/* The number of element @at of the array, in row-major order. */
int64_t hsp_hash_number(const struct hsp_hash_call *c, int64_t at);

#endif
