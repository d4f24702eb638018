/* Declares the ops that are mostly products of matrices: attention (attention_call.cu). cuda_gemm.h
 * has linear layers.
 *
 * Each is a hsp_cuda_kernel (cuda.h) for all real types. */
#ifndef HSP_PRODUCTS_H
#define HSP_PRODUCTS_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* attention and packed_attention */
enum hsp_status hsp_cuda_attention(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err);
/* attention_bwd and packed_attention_bwd */
enum hsp_status hsp_cuda_attention_bwd(struct hsp_cuda *g, enum hsp_devq q,
                                       const struct hsp_call *c, struct hsp_err *err);
enum hsp_status hsp_cuda_attention_merge(struct hsp_cuda *g, enum hsp_devq q,
                                         const struct hsp_call *c, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
