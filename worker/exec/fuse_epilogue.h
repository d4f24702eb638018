/* Finds additions right behind a matrix product that a backend can do in the product's epilogue.
 *
 * Example: y = linear(x, w); z = bias_add(y, b); out = add(z, r) becomes one call that writes only
 * out. The backend saves the memory traffic of y and z, and in bf16 their rounding.
 *
 * Role:   a fusion pass that runs when an engine is opened, for backends with run_sum. The program
 *         itself does not change.
 * Purity: pure.
 */
#ifndef HSP_FUSE_EPILOGUE_H
#define HSP_FUSE_EPILOGUE_H
#include "worker/exec/output_route.h"

/* out = product [+ bias] [+ add] in place of the product and @n instructions behind it. The values
 * between them are not written, and no other instruction reads them. The result may lie over the
 * operands of the product, which are not read again: a backend then runs the ops one by one. */
struct hsp_epilogue {
    uint8_t n;               /* 0: not fused, or no product */
    uint32_t bias, add, out; /* tensors; bias and add may be HSP_NO_TENSOR */
};

/* The epilogues of @t, a checked program, one element for each instruction. Behind linear it takes
 * bias_add and one add, behind linear_dx one add, of the same piece. The caller frees the result by
 * free(); NULL without memory. */
struct hsp_epilogue *hsp_epilogues_new(const struct hsp_template *t);

#endif
