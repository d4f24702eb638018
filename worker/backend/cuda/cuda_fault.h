/* Turns errors of CUDA and cuBLASLt into statuses, and remembers the failure that lost the
 * device. */
#ifndef HSP_CUDA_FAULT_H
#define HSP_CUDA_FAULT_H
#include <stdio.h>

#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum hsp_status hsp_cuda_fault_new(struct hsp_cuda_fault **ret, struct hsp_err *err);
void hsp_cuda_fault_free(struct hsp_cuda_fault *f); /* NULL is fine */
/* HSP_EIO with the first failure when the device is lost. */
enum hsp_status hsp_cuda_alive(struct hsp_cuda *g, struct hsp_err *err);
/* The device is lost from now on, for this reason. Returns HSP_EIO with the first such reason. */
enum hsp_status hsp_cuda_lose(struct hsp_cuda *g, struct hsp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* After a call that was refused: HSP_OK, the device goes on and another way may be tried;
 * HSP_AGAIN, between begin and end nothing has run yet, and the host will give all of it once more;
 * HSP_EIO, the device is lost. */
enum hsp_status hsp_cuda_goes_on(struct hsp_cuda *g, enum hsp_devq q, const char *what,
                                 struct hsp_err *err);
/* HSP_OK for cudaSuccess; else records the work that failed (@what: "a graph of 12 calls") and
 * CUDA's text. HSP_ENOMEM: no device memory; HSP_AGAIN: it cannot be captured, see
 * hsp_cuda_goes_on; HSP_EIO: anything else, and every later call fails with the same words. */
enum hsp_status hsp_cuda_check(struct hsp_cuda *g, cudaError_t e, const char *what,
                               struct hsp_err *err);
/* The same for a status of cuBLASLt; HSP_EUNSUPPORTED: it has no code for the call. */
enum hsp_status hsp_cuda_check_lt(struct hsp_cuda *g, cublasStatus_t e, const char *what,
                                  struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
