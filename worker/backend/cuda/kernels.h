/* Declares the kernels of this folder by op; matrix products and attention have their own headers.
 *
 * Each is a hsp_cuda_kernel (cuda.h) for all real types. Sums have one order, which depends on
 * shapes alone, so the bits are the same from run to run, and on all devices of one kind. */
#ifndef HSP_KERNELS_H
#define HSP_KERNELS_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HSP_CUDA_KERNEL(name)                                                                      \
    enum hsp_status hsp_cuda_##name(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c, \
                                    struct hsp_err *err)

/* map.cu */
HSP_CUDA_KERNEL(add);
HSP_CUDA_KERNEL(gelu);
HSP_CUDA_KERNEL(gelu_dx);
HSP_CUDA_KERNEL(swiglu);
HSP_CUDA_KERNEL(swiglu_dx);
HSP_CUDA_KERNEL(bias_add);
HSP_CUDA_KERNEL(broadcast);
HSP_CUDA_KERNEL(convert); /* narrow, widen */
HSP_CUDA_KERNEL(same);    /* flatten, unflatten: the same bytes */
/* column_sum.cu: sums over rows */
HSP_CUDA_KERNEL(bias_db);
HSP_CUDA_KERNEL(layernorm_dw);
HSP_CUDA_KERNEL(rmsnorm_dw);
/* norm.cu */
HSP_CUDA_KERNEL(layernorm);
HSP_CUDA_KERNEL(layernorm_dx);
HSP_CUDA_KERNEL(rmsnorm);
HSP_CUDA_KERNEL(rmsnorm_dx);
/* rope.cu, dropout.cu, embed.cu */
HSP_CUDA_KERNEL(rope); /* rope and rope_dx */
HSP_CUDA_KERNEL(dropout);
HSP_CUDA_KERNEL(embed);
HSP_CUDA_KERNEL(embed_dw);
/* xent.cu; a label that is not in the table makes the loss NaN */
HSP_CUDA_KERNEL(xent);
HSP_CUDA_KERNEL(xent_dx);
HSP_CUDA_KERNEL(lse); /* lse_parts and lse_merge */
HSP_CUDA_KERNEL(xent_part);
/* total.cu */
HSP_CUDA_KERNEL(sum);
HSP_CUDA_KERNEL(sqsum);
HSP_CUDA_KERNEL(count_labels); /* count */
/* update.cu */
HSP_CUDA_KERNEL(update); /* adamw, sgdm */

/* Run @n > 0 calls of one op and type at once; no call writes memory that another call uses. The
 * bits are those of calls that are run one by one. */
#define HSP_CUDA_MANY(name)                                                                        \
    enum hsp_status hsp_cuda_##name(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c, \
                                    uint32_t n, struct hsp_err *err)
HSP_CUDA_MANY(update_many);
HSP_CUDA_MANY(sqsum_many);
HSP_CUDA_MANY(narrow_many); /* from fp32 to bf16 */

/* Run a chain of @n calls (run_chain of backend.h). *ret_done is false if there is no code for
 * these calls. norm_chain.cu, column_sum.cu */
enum hsp_status hsp_cuda_norm_chain(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    uint32_t n, bool *ret_done, struct hsp_err *err);
enum hsp_status hsp_cuda_gelu_chain(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    bool *ret_done, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
