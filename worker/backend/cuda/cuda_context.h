/* Binds threads to the device, and makes and closes the streams of its queues.
 *
 * CUDA has a current device for each thread. hsp_cuda_bind sets it if the thread used another
 * device before. */
#ifndef HSP_CUDA_CONTEXT_H
#define HSP_CUDA_CONTEXT_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes @device the current device of the calling thread. Every change of the current device calls
 * this function, since each thread remembers its device. */
cudaError_t hsp_cuda_use(int device);
/* Makes the calling thread forget its device, so that the next bind sets it again. */
void hsp_cuda_unbind(void);
/* Makes the device of @g the current device of the calling thread. Every function of backend.h
 * calls it first. Returns HSP_EIO if the device is lost. */
enum hsp_status hsp_cuda_bind(struct hsp_cuda *g, struct hsp_err *err);
/* Makes the stream of queue @q and the room for its tickets, if the queue has none yet. Returns
 * HSP_ENOMEM or HSP_EIO. */
enum hsp_status hsp_cuda_queue_need(struct hsp_cuda *g, enum hsp_devq q, struct hsp_err *err);
/* Destroys the stream, tickets and graphs of queue @q; no work may be under way. */
void hsp_cuda_queue_fini(struct hsp_cuda *g, enum hsp_devq q);

#ifdef __cplusplus
}
#endif
#endif
