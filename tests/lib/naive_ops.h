/* Computes every op of the catalogue by its formula, with plain loops: the oracle.
 *
 * Role:    tests compare backends, programs and cuts with it. Slow on purpose.
 * Dtypes:  floating-point operands may be fp32 or fp64, computing is in fp64; ids and labels i32.
 * An output whose data is NULL is not written. Sums over empty extents write 0. */
#ifndef HSP_NAIVE_OPS_H
#define HSP_NAIVE_OPS_H
#include "worker/backend/backend.h"

/* Runs one op. Fails the test when operand extents do not fit each other. */
void hsp_naive_op(const struct hsp_call *c);

/* Element @i (row-major) of an array as fp64, and back (rounded to the array's dtype). */
double hsp_naive_get(const struct hsp_array *a, int64_t i);
void hsp_naive_put(const struct hsp_array *a, int64_t i, double v);
int64_t hsp_naive_count(const struct hsp_array *a);

#endif
