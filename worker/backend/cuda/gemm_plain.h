/* Describes one product of matrices for cuda_gemm.c, which gives it to cuBLASLt, and for
 * gemm_plain.cu, which computes it without the library. */
#ifndef HSP_GEMM_PLAIN_H
#define HSP_GEMM_PLAIN_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One product in the terms of cuBLASLt, by columns: D (m x n, dense) = op(A) op(B) + bias + C. */
struct hsp_product {
    bool ta, tb; /* whether A and B are stored transposed */
    int64_t m, n, k, lda, ldb;
    const void *a, *b;
    const void *bias; /* m numbers, added to each column; or NULL */
    const void *c;    /* may be d; or NULL */
    void *d;
    enum hsp_dtype type, out_type; /* type of A and B; out_type of bias, C and D */
    bool tf32;                     /* factors of fp32 may be rounded to TF32 */
};

/* Computes a product without the library, and without bias: sums in ascending k, in the wide type,
 * and then adds C. Returns HSP_ELIMIT if the product is too large for a grid. */
enum hsp_status hsp_cuda_gemm_plain(struct hsp_cuda *g, enum hsp_devq q,
                                    const struct hsp_product *x, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
