/* Keeps the last ops given to each queue, and the last ticket that the device has reached.
 *
 * Role:    error messages name the ops under way; cuda_memory.c frees blocks only if the device is
 *          idle.
 * Threads: any thread; all fields are atomic. */
#ifndef HSP_CUDA_PROGRESS_H
#define HSP_CUDA_PROGRESS_H
#include "worker/backend/cuda/cuda_host.h"

/* Returns the name of a queue for messages: "compute", "comm", ... */
const char *hsp_cuda_queue_name(unsigned q);
/* Returns the event of a ticket; tickets that are HSP_MAX_MARKS apart share an event. */
static inline cudaEvent_t *hsp_cuda_event_of(struct hsp_cuda_queue *u, uint64_t ticket)
{
    return &u->event[ticket % HSP_MAX_MARKS];
}

/* Records that the device has reached @ticket, and so all tickets before it. */
void hsp_cuda_note_reached(struct hsp_cuda_queue *u, uint64_t ticket);
/* Records that an op has been given to @q; @name is a string literal. */
void hsp_cuda_note(struct hsp_cuda *g, enum hsp_devq q, const char *name);
/* Writes to @text the ops that may be under way: "compute: linear, gelu". */
void hsp_cuda_under_way(struct hsp_cuda *g, char *text, size_t bytes);
/* Returns, without waiting, the state of a ticket's event: cudaErrorNotReady, cudaSuccess or an
 * error. */
cudaError_t hsp_cuda_look(struct hsp_cuda_queue *u, uint64_t ticket);
/* Returns whether the device has no work, as far as the host can tell without waiting. */
bool hsp_cuda_idle(struct hsp_cuda *g);

#endif
