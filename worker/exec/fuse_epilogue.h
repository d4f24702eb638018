/* Finds additions right after a matrix product that a backend can do in the product's epilogue:
 * while it still holds the result of the product.
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

/* out = product [+ bias] [+ add], in place of the product and the @n instructions right after it.
 * The backend does not write the values in between, which no other instruction reads. `out` may
 * share memory with the operands of the product, since nothing reads these operands later; a
 * backend then runs the ops one by one. */
struct hsp_epilogue {
    /* instructions fused with the product; 0: none, or the instruction is no product */
    uint8_t n;
    uint32_t bias, add, out; /* tensors; bias and add may be HSP_NO_TENSOR */
};

/* Finds the epilogues of @t, a checked program: returns one element for each instruction. After a
 * linear it takes a bias_add and one add of the same piece, after a linear_dx one add. The caller
 * frees the result by free(). Returns NULL without memory. */
struct hsp_epilogue *hsp_epilogues_new(const struct hsp_template *t);

#endif
