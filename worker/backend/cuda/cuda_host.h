/* Declares the structures and limits that only host files of the CUDA backend share; kernels
 * include cuda.h.
 *
 * Threads: as in backend.h: the fields of a queue belong to its caller. Any thread may use the
 *          atomic fields.
 * Locks:   memory->lock is taken before the lock of graphs. No lock is taken while fault->lock is
 *          held. */
#ifndef HSP_CUDA_HOST_H
#define HSP_CUDA_HOST_H
#include <pthread.h>
#include <stdatomic.h>
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/plugin.h"

#define HSP_CUDA_MIN_SM     75  /* Turing: the oldest GPU that the plugin is built for */
#define HSP_CUDA_RECENT     16  /* the last ops of a queue whose names are kept */
#define HSP_CUDA_MAX_GRAPHS 512 /* graphs that a queue keeps at most */
/* blocks of memory that a graph may name; with more it counts as naming all */
#define HSP_CUDA_MAX_BLOCKS 8
/* blocks of scratch that were too small; each is at most half of the next */
#define HSP_CUDA_MAX_OLD 64

enum hsp_cuda_graph_state {
    HSP_CUDA_GRAPH_FREE,
    HSP_CUDA_GRAPH_SEEN,
    HSP_CUDA_GRAPH_READY,
    /* the library would not build or start a graph: the calls run as they are */
    HSP_CUDA_GRAPH_NEVER
};

/* The graph of one key. SEEN: the calls have run once. READY: the graph can be started, unless
 * stale. */
struct hsp_cuda_graph {
    struct hsp_digest key;
    enum hsp_cuda_graph_state state;
    /* memory that it names was released: only good as a pattern for another graph */
    bool stale;
    uint64_t used;      /* the number of its last use among the uses of the queue's cache */
    uint64_t signature; /* a hash of the calls without their pointers */
    uint32_t n_calls;
    cudaGraphExec_t exec; /* of a READY graph */
    uint8_t n_blocks;     /* blocks that it names; above HSP_CUDA_MAX_BLOCKS: any block */
    const void *block[HSP_CUDA_MAX_BLOCKS];
};

struct hsp_cuda_queue {
    /* HSP_MAX_MARKS events, made when first used: ticket t has event t mod HSP_MAX_MARKS */
    cudaEvent_t *event;
    /* the last ticket given; the last one that the device has reached */
    _Atomic uint64_t given, reached;
    /* the last ops, for messages; written by the queue's caller, read when the device is lost */
    struct {
        const char *_Atomic name;
        _Atomic uint64_t ticket; /* the ticket that covers the op */
    } recent[HSP_CUDA_RECENT];
    atomic_uint n_recent;

    struct hsp_cuda_graph *graph; /* HSP_CUDA_MAX_GRAPHS, made when first used; g->graphs_lock */
    uint64_t uses;
    bool between, capturing,   /* begin was called; the calls are captured */
        failed, again;         /* a call failed; a call could not be captured */
    struct hsp_cuda_graph now; /* the calls being captured */
    /* a rehearsal: calls take scratch and give the device nothing (backend.h) */
    bool rehearses;
    void *old[HSP_CUDA_MAX_OLD]; /* scratch that graphs may still name */
    unsigned n_old;
};

#endif
