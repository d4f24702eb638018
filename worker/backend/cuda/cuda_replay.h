/* @@SENTENCE@@ cuda_replay: purpose to be written. */
#ifndef HSP_CUDA_REPLAY_H
#define HSP_CUDA_REPLAY_H
#include "worker/backend/cuda/cuda.h"

/* Destroys the graphs of @q. */
void hsp_cuda_graphs_drop(struct hsp_cuda *g, enum hsp_devq q);
/* Graphs that name the block are not replayed any more. */
void hsp_cuda_forget_block(struct hsp_cuda *g, const void *block);
/* A call between begin and end: what it is (its words without pointers), and what it points to. */
void hsp_cuda_trace(struct hsp_cuda *g, enum hsp_devq q, const void *words, size_t bytes);
void hsp_cuda_trace_pointer(struct hsp_cuda *g, enum hsp_devq q, const void *p);

enum hsp_status hsp_cuda_begin(struct hsp_backend *b, enum hsp_devq q, const struct hsp_digest *key,
                               bool *ret_replayed, struct hsp_err *err);
enum hsp_status hsp_cuda_end(struct hsp_backend *b, enum hsp_devq q, struct hsp_err *err);

#endif
