/* Orders the queues of a device by tickets: records marks, waits for tickets, and measures the time
 * between two marks.
 *
 * The functions implement those of struct hsp_backend with the same names (backend.h). */
#ifndef HSP_CUDA_QUEUE_H
#define HSP_CUDA_QUEUE_H
#include "worker/backend/cuda/cuda.h"

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
