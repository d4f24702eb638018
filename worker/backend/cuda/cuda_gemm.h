/* Runs the products of linear layers by cuBLASLt, together with bias and addends. */
#ifndef HSP_CUDA_GEMM_H
#define HSP_CUDA_GEMM_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frees the table at g->gemm; NULL is fine. */
void hsp_cuda_gemm_free(struct hsp_cuda *g);
/* linear, linear_dx and linear_dw */
enum hsp_status hsp_cuda_product(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err);
/* Runs a product with its additions: run_sum of backend.h. Shapes were checked before. */
enum hsp_status hsp_cuda_product_sum(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                     const struct hsp_sum *s, bool *ret_done, struct hsp_err *err);
/* Runs the one that will be (@s NULL: the first), where none of its shape has been run yet: warm of
 * backend.h. */
enum hsp_status hsp_cuda_product_warm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                      const struct hsp_sum *s, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
