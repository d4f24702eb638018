/* Turns errors of CUDA and cuBLASLt into statuses, and keeps the failure that lost the device. */
#ifndef HSP_CUDA_FAULT_H
#define HSP_CUDA_FAULT_H
#include <stdio.h>

#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum hsp_status hsp_cuda_fault_new(struct hsp_cuda_fault **ret, struct hsp_err *err);
void hsp_cuda_fault_free(struct hsp_cuda_fault *f); /* @f may be NULL */
/* Returns HSP_EIO with the first failure if the device is lost, else HSP_OK. */
enum hsp_status hsp_cuda_alive(struct hsp_cuda *g, struct hsp_err *err);
/* Marks the device as lost, for this reason. Returns HSP_EIO with the first reason for which it was
 * lost. */
enum hsp_status hsp_cuda_lose(struct hsp_cuda *g, struct hsp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Looks at the device after the library has refused a call. Returns HSP_OK if the device works: the
 * caller may try another way. Returns HSP_AGAIN if the queue is capturing: none of the calls since
 * begin has run yet, and the host will give all of them once more. Returns HSP_EIO if the device is
 * lost. */
enum hsp_status hsp_cuda_goes_on(struct hsp_cuda *g, enum hsp_devq q, const char *what,
                                 struct hsp_err *err);
/* Returns HSP_OK for cudaSuccess; else an error whose message has @what, the work that failed ("a
 * graph of 12 calls"), and CUDA's text. Returns HSP_ENOMEM if there is no device memory, and
 * HSP_AGAIN if the work cannot be captured (hsp_cuda_goes_on). For anything else the device is
 * lost: returns HSP_EIO, and every later call fails with the same message. */
enum hsp_status hsp_cuda_check(struct hsp_cuda *g, cudaError_t e, const char *what,
                               struct hsp_err *err);
/* Converts a status of cuBLASLt as hsp_cuda_check converts an error of CUDA. Returns
 * HSP_EUNSUPPORTED if the library has no code for the call. */
enum hsp_status hsp_cuda_check_lt(struct hsp_cuda *g, cublasStatus_t e, const char *what,
                                  struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
