/* Captures the calls between begin and end as a CUDA graph, and starts the graph when they come
 * again. */
#ifndef HSP_CUDA_REPLAY_H
#define HSP_CUDA_REPLAY_H
#include "worker/backend/cuda/cuda.h"

/* Add a call between begin and end to the description of its graph: the words of the call without
 * pointers, and each of its pointers. */
void hsp_cuda_trace(struct hsp_cuda *g, enum hsp_devq q, const void *words, size_t bytes);
void hsp_cuda_trace_pointer(struct hsp_cuda *g, enum hsp_devq q, const void *p);

/* Implement begin and end of struct hsp_backend. */
enum hsp_status hsp_cuda_begin(struct hsp_backend *b, enum hsp_devq q, const struct hsp_digest *key,
                               bool *ret_replayed, struct hsp_err *err);
enum hsp_status hsp_cuda_end(struct hsp_backend *b, enum hsp_devq q, struct hsp_err *err);

#endif
