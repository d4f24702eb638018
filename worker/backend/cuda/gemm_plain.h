/* One product of matrices, between cuda_gemm.c, which asks cuBLASLt for it, and gemm_plain.cu. */
#ifndef HSP_GEMM_PLAIN_H
#define HSP_GEMM_PLAIN_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One product as the library counts, by columns: D (m x n, dense) = op(A) op(B) + bias + C. */
struct hsp_product {
    bool ta, tb; /* A, B are stored transposed */
    int64_t m, n, k, lda, ldb;
    const void *a, *b;
    const void *bias; /* m of them, for each column; or NULL */
    const void *c;    /* may be d; or NULL */
    void *d;
    enum hsp_dtype type, out_type; /* of A and B, of the others */
    bool tf32;                     /* factors of fp32 may be cut to TF32 */
};

/* Makes it without the library, and without bias: sums in ascending k, in the wide type, then C.
 * HSP_ELIMIT: too large for a grid. */
enum hsp_status hsp_cuda_gemm_plain(struct hsp_cuda *g, enum hsp_devq q,
                                    const struct hsp_product *x, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
