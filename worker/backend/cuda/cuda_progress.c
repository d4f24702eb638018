#include "worker/backend/cuda/cuda_progress.h"

#include <stdio.h>

const char *hsp_cuda_queue_name(unsigned q)
{
    return q == HSP_DEVQ_COMPUTE ? "compute"
           : q == HSP_DEVQ_COMM  ? "comm"
           : q == HSP_DEVQ_STATE ? "state"
           : q == HSP_DEVQ_GREET ? "greet"
                                 : "lane";
}

void hsp_cuda_note(struct hsp_cuda *g, enum hsp_devq q, const char *name)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    unsigned i = atomic_fetch_add(&u->n_recent, 1) % HSP_CUDA_RECENT;
    atomic_store(&u->recent[i].name, name);
    atomic_store(&u->recent[i].ticket, atomic_load(&u->given) + 1);
}

void hsp_cuda_under_way(struct hsp_cuda *g, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (unsigned q = 0; q < HSP_N_DEVQ; q++) {
        struct hsp_cuda_queue *u = &g->queue[q];
        uint64_t reached = atomic_load(&u->reached);
        unsigned n = atomic_load(&u->n_recent), listed = 0;
        for (unsigned i = n < HSP_CUDA_RECENT ? 0 : n - HSP_CUDA_RECENT; i < n; i++) {
            const char *name = atomic_load(&u->recent[i % HSP_CUDA_RECENT].name);
            if (atomic_load(&u->recent[i % HSP_CUDA_RECENT].ticket) <= reached || at >= bytes) {
                continue;
            }
            int k = listed++ == 0 ? snprintf(text + at, bytes - at, "%s%s: %s", at > 0 ? "; " : "",
                                             hsp_cuda_queue_name(q), name)
                                  : snprintf(text + at, bytes - at, ", %s", name);
            at += k > 0 ? (size_t)k : 0;
        }
    }
}

void hsp_cuda_note_reached(struct hsp_cuda_queue *u, uint64_t ticket)
{
    uint64_t old = atomic_load(&u->reached);
    while (old < ticket && !atomic_compare_exchange_weak(&u->reached, &old, ticket)) {
    }
}

cudaError_t hsp_cuda_look(struct hsp_cuda_queue *u, uint64_t ticket)
{
    if (ticket <= atomic_load(&u->reached)) {
        return cudaSuccess;
    }
    cudaError_t e = cudaEventQuery(*hsp_cuda_event_of(u, ticket));
    if (e == cudaSuccess) {
        hsp_cuda_note_reached(u, ticket);
    } else if (e == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* clears the error, which else the next launch would report */
    }
    return e;
}

bool hsp_cuda_idle(struct hsp_cuda *g)
{
    for (unsigned q = 0; q < HSP_N_DEVQ; q++) {
        struct hsp_cuda_queue *u = &g->queue[q];
        uint64_t given = atomic_load(&u->given);
        unsigned n = atomic_load(&u->n_recent);
        bool covered = n == 0 || atomic_load(&u->recent[(n - 1) % HSP_CUDA_RECENT].ticket) <= given;
        if (!covered || hsp_cuda_look(u, given) != cudaSuccess) {
            return false;
        }
    }
    return true;
}
