/* @@SENTENCE@@ cuda_memory: purpose to be written. */
#ifndef HSP_CUDA_MEMORY_H
#define HSP_CUDA_MEMORY_H
#include "worker/backend/cuda/cuda.h"

enum hsp_status hsp_cuda_memory_new(struct hsp_cuda *g, size_t limit_bytes, struct hsp_err *err);
void hsp_cuda_memory_free(struct hsp_cuda *g); /* all of it, also what nobody released */
enum hsp_status hsp_cuda_alloc(struct hsp_cuda *g, enum hsp_mem mem, size_t bytes, const char *what,
                               void **ret, struct hsp_err *err);
void hsp_cuda_release(struct hsp_cuda *g, enum hsp_mem mem, void *p);
/* The begin of the block that holds @p; NULL: none of ours. */
const void *hsp_cuda_block(struct hsp_cuda *g, const void *p);

#endif
