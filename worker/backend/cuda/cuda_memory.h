/* Allocates memory of the device, pinned memory of the host, and the scratch of each queue.
 *
 * Threads: any; the table of blocks is locked. Scratch belongs to the caller of its queue.
 */
#ifndef HSP_CUDA_MEMORY_H
#define HSP_CUDA_MEMORY_H
#include "worker/backend/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* @limit_bytes: of device memory; 0: no limit. HSP_ENOMEM. */
enum hsp_status hsp_cuda_memory_new(struct hsp_cuda *g, size_t limit_bytes, struct hsp_err *err);
void hsp_cuda_memory_free(struct hsp_cuda *g); /* all of it, also blocks that were not released */
/* @what names the use in messages. HSP_ENOMEM says how many bytes; HSP_EIO: the device is lost. */
enum hsp_status hsp_cuda_alloc(struct hsp_cuda *g, enum hsp_mem mem, size_t bytes, const char *what,
                               void **ret, struct hsp_err *err);
/* Frees a block, or retires it; see cuda_memory.c. NULL is fine. */
void hsp_cuda_release(struct hsp_cuda *g, enum hsp_mem mem, void *p);
/* hsp_backend.pin, unpin and trim. */
enum hsp_status hsp_cuda_register(struct hsp_cuda *g, void *p, size_t bytes, struct hsp_err *err);
bool hsp_cuda_unregister(struct hsp_cuda *g, const void *p);
bool hsp_cuda_trim(struct hsp_cuda *g);
/* Until the next trim work of this device may wait for that of another one. */
void hsp_cuda_expect_peers(struct hsp_cuda *g);
/* The begin of the block that holds @p; NULL: none of ours. */
const void *hsp_cuda_block(struct hsp_cuda *g, const void *p);
/* Takes @bytes of scratch of queue @q, aligned to 256, for the work given to it next; contents
 * undefined. Work that was given before is done with its scratch by then. An op asks once, for all
 * it needs, before it launches anything. HSP_AGAIN: the queue rehearses without a capture, and the
 * op is to end. HSP_ENOMEM says how many bytes. */
enum hsp_status hsp_cuda_scratch(struct hsp_cuda *g, enum hsp_devq q, size_t bytes, void **ret,
                                 struct hsp_err *err);

#ifdef __cplusplus
}
#endif
#endif
