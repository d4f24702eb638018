/* Keeps the last work given to each queue, and the last work that the device has done.
 *
 * Role:    error messages name the ops under way; cuda_memory.c frees blocks only on an idle
 *          device.
 * Threads: any; all fields are atomic.
 */
#ifndef HSP_CUDA_PROGRESS_H
#define HSP_CUDA_PROGRESS_H
#include "worker/backend/cuda/cuda_host.h"

/* "compute", "comm", ... for messages. */
const char *hsp_cuda_queue_name(unsigned q);
/* The event of a ticket; tickets that are HSP_MAX_MARKS apart share one. */
static inline cudaEvent_t *hsp_cuda_event_of(struct hsp_cuda_queue *u, uint64_t ticket)
{
    return &u->event[ticket % HSP_MAX_MARKS];
}

/* The device has come to @ticket, and so to all tickets before it. */
void hsp_cuda_note_reached(struct hsp_cuda_queue *u, uint64_t ticket);
/* An op, by a literal name, has been given to @q. */
void hsp_cuda_note(struct hsp_cuda *g, enum hsp_devq q, const char *name);
/* The ops that may be under way, in words: "compute: linear, gelu". */
void hsp_cuda_under_way(struct hsp_cuda *g, char *text, size_t bytes);
/* Looks without waiting: cudaErrorNotReady, or how the event of a ticket came out. */
cudaError_t hsp_cuda_look(struct hsp_cuda_queue *u, uint64_t ticket);
/* Whether the device has nothing to do, as far as one knows without waiting. */
bool hsp_cuda_idle(struct hsp_cuda *g);

#endif
