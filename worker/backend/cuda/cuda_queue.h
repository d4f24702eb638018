/* @@SENTENCE@@ cuda_queue: purpose to be written. */
#ifndef HSP_CUDA_QUEUE_H
#define HSP_CUDA_QUEUE_H
#include "worker/backend/cuda/cuda.h"

enum hsp_status hsp_cuda_queue_need(struct hsp_cuda *g, enum hsp_devq q, struct hsp_err *err);
void hsp_cuda_queue_fini(struct hsp_cuda *g, enum hsp_devq q);
/* An op, by a literal name, has been given to @q. */
void hsp_cuda_note(struct hsp_cuda *g, enum hsp_devq q, const char *name);
/* The ops that may be under way, in words: "compute: linear, gelu". */
void hsp_cuda_under_way(struct hsp_cuda *g, char *text, size_t bytes);
/* Whether the device has nothing to do, as far as one knows without waiting. */
bool hsp_cuda_idle(struct hsp_cuda *g);
enum hsp_status hsp_cuda_mark(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret,
                              struct hsp_err *err);
enum hsp_status hsp_cuda_await(struct hsp_backend *b, enum hsp_devq q, enum hsp_devq of,
                               uint64_t ticket, struct hsp_err *err);
enum hsp_status hsp_cuda_finish(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket,
                                struct hsp_err *err);
bool hsp_cuda_reached(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket);
enum hsp_status hsp_cuda_seconds(struct hsp_backend *b, enum hsp_devq of, uint64_t from,
                                 uint64_t to, double *ret, struct hsp_err *err);

#endif
