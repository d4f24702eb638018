/* Opens a GPU as a backend, and gives ops, copies and fills to its queues. */
#ifndef HSP_CUDA_DEVICE_H
#define HSP_CUDA_DEVICE_H
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Implements open of struct hsp_device_plugin (worker/backend/plugin.h). */
enum hsp_status hsp_backend_cuda_open(int device, const struct hsp_device_opts *o,
                                      struct hsp_backend **ret, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
