/* Holds structures and limits that host files of the CUDA backend share; kernels need cuda.h only.
 *
 * Threads: as backend.h says. A queue's fields belong to its caller, those marked atomic to all.
 * Locks:   memory->lock and the lock of graphs are taken in this order, fault->lock alone.
 */
#ifndef HSP_CUDA_HOST_H
#define HSP_CUDA_HOST_H
#include <pthread.h>
#include <stdatomic.h>
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/plugin.h"

#define HSP_CUDA_MIN_SM     75  /* Turing: the oldest GPU that the plugin is built for */
#define HSP_CUDA_RECENT     16  /* ops of a queue that are remembered by name */
#define HSP_CUDA_MAX_GRAPHS 512 /* kept for each queue, the least recently used goes */
#define HSP_CUDA_MAX_BLOCKS 8 /* blocks of memory a graph may name before it counts as naming all */
#define HSP_CUDA_MAX_OLD    64 /* scratch that was too small; each is at most half of the next */

enum hsp_cuda_graph_state {
    HSP_CUDA_GRAPH_FREE,
    HSP_CUDA_GRAPH_SEEN,
    HSP_CUDA_GRAPH_READY,
    HSP_CUDA_GRAPH_NEVER /* the library would not make or start it: its calls run as they are */
};

/* The graph that is replayed for one key. */
struct hsp_cuda_graph {
    struct hsp_digest key;
    enum hsp_cuda_graph_state state;
    bool stale;         /* memory that it names is gone: only good as a pattern for another */
    uint64_t used;      /* when, in uses of the queue's cache */
    uint64_t signature; /* of the calls, without their pointers */
    uint32_t n_calls;
    cudaGraphExec_t exec; /* READY */
    uint8_t n_blocks;     /* above HSP_CUDA_MAX_BLOCKS: any */
    const void *block[HSP_CUDA_MAX_BLOCKS];
};

struct hsp_cuda_queue {
    cudaEvent_t *event; /* HSP_MAX_MARKS, made when first used: ticket t has t mod HSP_MAX_MARKS */
    _Atomic uint64_t given, reached; /* tickets */
    struct { /* the last ops, for messages; written by the queue's caller, read when all is lost */
        const char *_Atomic name;
        _Atomic uint64_t ticket; /* the one that covers it */
    } recent[HSP_CUDA_RECENT];
    atomic_uint n_recent;

    struct hsp_cuda_graph *graph; /* HSP_CUDA_MAX_GRAPHS, made when first used; g->graphs_lock */
    uint64_t uses;
    bool between, capturing,     /* begin was called; its calls are captured */
        failed, again;           /* one of them failed; one could not be captured */
    struct hsp_cuda_graph now;   /* the calls being captured */
    bool rehearses;              /* calls take scratch and give nothing (rehearse of backend.h) */
    void *old[HSP_CUDA_MAX_OLD]; /* scratch that graphs may still name */
    unsigned n_old;
};

#endif
