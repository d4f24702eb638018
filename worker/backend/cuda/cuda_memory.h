/* Allocates memory of the device, pinned memory of the host, and the scratch of each queue.
 *
 * Threads: any thread; a lock protects the table of blocks. Scratch belongs to the caller of its
 *          queue. */
#ifndef HSP_CUDA_MEMORY_H
#define HSP_CUDA_MEMORY_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the table of blocks of @g, empty. @limit_bytes limits device memory; 0: no limit. Returns
 * HSP_ENOMEM if the host has no memory. */
enum hsp_status hsp_cuda_memory_new(struct hsp_cuda *g, size_t limit_bytes, struct hsp_err *err);
/* frees every block, also those that were not released */
void hsp_cuda_memory_free(struct hsp_cuda *g);
/* Allocates @bytes; @what names their use in messages. Returns HSP_ENOMEM, with the number of bytes
 * in the message, or HSP_EIO if the device is lost. */
enum hsp_status hsp_cuda_alloc(struct hsp_cuda *g, enum hsp_mem mem, size_t bytes, const char *what,
                               void **ret, struct hsp_err *err);
/* Releases a block: frees it, or retires it, that is keeps it for a request of the same size
 * (cuda_memory.c). @p may be NULL. */
void hsp_cuda_release(struct hsp_cuda *g, enum hsp_mem mem, void *p);
/* Implement pin, unpin and trim of struct hsp_backend. */
enum hsp_status hsp_cuda_register(struct hsp_cuda *g, void *p, size_t bytes, struct hsp_err *err);
bool hsp_cuda_unregister(struct hsp_cuda *g, const void *p);
bool hsp_cuda_trim(struct hsp_cuda *g);
/* Forbids to free and to unregister memory until the next trim, since work of this device may wait
 * for another device meanwhile. */
void hsp_cuda_expect_peers(struct hsp_cuda *g);
/* Returns the begin of the block that contains @p; NULL if @p lies in no block of ours. */
const void *hsp_cuda_block(struct hsp_cuda *g, const void *p);
/* Returns @bytes of scratch of queue @q, aligned to 256, for the work that is given to the queue
 * next; the contents are undefined. Earlier work of the queue is done with its scratch when the
 * next work runs. An op asks once, for all bytes that it needs, before it launches a kernel.
 * Returns HSP_AGAIN if the queue rehearses without a capture: the op must then end. Returns
 * HSP_ENOMEM, with the number of bytes in the message. */
enum hsp_status hsp_cuda_scratch(struct hsp_cuda *g, enum hsp_devq q, size_t bytes, void **ret,
                                 struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
