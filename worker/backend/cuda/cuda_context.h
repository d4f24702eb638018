/* Binds threads to the device, and makes and ends the streams of its queues.
 *
 * CUDA keeps the current device by thread. hsp_cuda_bind sets it where it is another one.
 */
#ifndef HSP_CUDA_CONTEXT_H
#define HSP_CUDA_CONTEXT_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread uses this device from now on. All changes go through here: every thread
 * remembers its own device. */
cudaError_t hsp_cuda_use(int device);
/* The calling thread forgets its device, so that the next bind sets it anew. */
void hsp_cuda_unbind(void);
/* The calling thread uses the device of @g from now on. Every function of backend.h begins with it.
 * HSP_EIO: the device is lost. */
enum hsp_status hsp_cuda_bind(struct hsp_cuda *g, struct hsp_err *err);
/* Makes the stream and the room for tickets of queue @q, if it has none yet. HSP_ENOMEM,
 * HSP_EIO. */
enum hsp_status hsp_cuda_queue_need(struct hsp_cuda *g, enum hsp_devq q, struct hsp_err *err);
/* Ends the stream, tickets and graphs of queue @q; nothing may be under way. */
void hsp_cuda_queue_fini(struct hsp_cuda *g, enum hsp_devq q);

#ifdef __cplusplus
}
#endif
#endif
