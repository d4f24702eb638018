/* Runs the products of linear layers by cuBLASLt, together with bias and addends. */
#ifndef HSP_CUDA_GEMM_H
#define HSP_CUDA_GEMM_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frees the table of plans at g->gemm, which may be NULL. */
void hsp_cuda_gemm_free(struct hsp_cuda *g);
/* Runs linear, linear_dx or linear_dw. */
enum hsp_status hsp_cuda_product(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err);
/* Runs a product with its additions (run_sum of backend.h). The caller has checked the shapes. */
enum hsp_status hsp_cuda_product_sum(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                     const struct hsp_sum *s, bool *ret_done, struct hsp_err *err);
/* Runs the product that run_sum will run, or run if @s is NULL, unless a product of the same shape
 * has run already (warm of backend.h). */
enum hsp_status hsp_cuda_product_warm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                      const struct hsp_sum *s, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
