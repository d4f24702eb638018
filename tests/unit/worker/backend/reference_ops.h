/* Computes the ops of the catalogue naively in fp64, as the reference of every backend. The code
 * follows the definitions and does not care for speed. All real operands are double, ids and labels
 * int32_t, in the order of the catalogue; extents are as in struct hsp_array. */
#ifndef HSP_REFERENCE_OPS_H
#define HSP_REFERENCE_OPS_H
#include "worker/backend/backend.h"

/* Runs one op; every real array of the call has dtype HSP_F64. Fails the test if the op is
 * unknown. */
void ref_run(const struct hsp_call *c);

#endif
