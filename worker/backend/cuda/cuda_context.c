#include "worker/backend/cuda/cuda_context.h"

#include <stdlib.h>
#include <time.h>

#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_graphs.h"
#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_memory.h"

static _Thread_local int bound = -1; /* the device that this thread uses; -1: unknown */

enum hsp_status hsp_cuda_queue_need(struct hsp_cuda *g, enum hsp_devq q, struct hsp_err *err)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    if (g->stream[q] != NULL) {
        return HSP_OK;
    }
    if (u->event == NULL) {
        u->event = calloc(HSP_MAX_MARKS, sizeof(cudaEvent_t));
        if (u->event == NULL) {
            return hsp_err_nomem(err, "the tickets of a queue");
        }
    }
    int least = 0, most = 0;
    cudaError_t e = cudaDeviceGetStreamPriorityRange(&least, &most);
    if (e == cudaSuccess) { /* queues for which other queues or devices wait get priority */
        e = cudaStreamCreateWithPriority(&g->stream[q], cudaStreamNonBlocking,
                                         q == HSP_DEVQ_COMPUTE || q == HSP_DEVQ_STATE ? least
                                                                                      : most);
    }
    return hsp_cuda_check(g, e, "a stream", err);
}

cudaError_t hsp_cuda_use(int device)
{
    cudaError_t e = cudaSetDevice(device);
    bound = e == cudaSuccess ? device : -1;
    return e;
}

void hsp_cuda_unbind(void)
{
    bound = -1;
}

enum hsp_status hsp_cuda_bind(struct hsp_cuda *g, struct hsp_err *err)
{
    enum hsp_status st = hsp_cuda_alive(g, err);
    return st == HSP_OK && bound != g->device
               ? hsp_cuda_check(g, hsp_cuda_use(g->device), "its use by a thread", err)
               : st;
}

void hsp_cuda_queue_fini(struct hsp_cuda *g, enum hsp_devq q)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    hsp_cuda_graphs_drop(g, q);
    free(u->graph);
    for (size_t i = 0; u->event != NULL && i < HSP_MAX_MARKS; i++) {
        if (u->event[i] != NULL) {
            (void)cudaEventDestroy(u->event[i]); /* the queue is closed: errors are ignored */
        }
    }
    free(u->event);
    if (g->stream[q] != NULL) {
        (void)cudaStreamDestroy(g->stream[q]);
    }
}
