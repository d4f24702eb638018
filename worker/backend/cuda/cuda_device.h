/* @@SENTENCE@@ cuda_device: purpose to be written. */
#ifndef HSP_CUDA_DEVICE_H
#define HSP_CUDA_DEVICE_H
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread uses this device from now on. All changes of it go through here: every thread remembers its own. */
cudaError_t hsp_cuda_use(int device);
/* The calling thread uses this device from now on. Every function of backend.h begins with it. */
enum hsp_status hsp_cuda_bind(struct hsp_cuda *g, struct hsp_err *err);
/* @bytes of scratch of queue @q, aligned to 256, for the work given to it next; contents undefined. What was given
 * before is done with its own by then; an op asks once, for all it needs. HSP_ENOMEM says how many bytes. */
enum hsp_status hsp_cuda_scratch(struct hsp_cuda *g, enum hsp_devq q, size_t bytes, void **ret,
                                 struct hsp_err *err);
/* As struct hsp_device_plugin says. */
enum hsp_status hsp_backend_cuda_open(int device, const struct hsp_device_opts *o,
                                      struct hsp_backend **ret, struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
