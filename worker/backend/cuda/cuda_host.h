/* What the host files of the CUDA backend share among themselves; kernels need cuda.h only.
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

#define HSP_CUDA_MIN_SM     75  /* Turing: what the plugin is built for, at least */
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

/* What is replayed for one key. */
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
    struct hsp_cuda_graph now;   /* what is being captured */
    void *old[HSP_CUDA_MAX_OLD]; /* scratch that graphs may still name */
    unsigned n_old;
};

/* --- cuda_device.c -------------------------------------------------------------------------------- */

/* The calling thread uses this device from now on. All changes of it go through here: every thread remembers its own. */
cudaError_t hsp_cuda_use(int device);
/* As struct hsp_device_plugin says. */
enum hsp_status hsp_backend_cuda_open(int device, const struct hsp_device_opts *o,
                                      struct hsp_backend **ret, struct hsp_err *err);

/* --- cuda_fault.c -------------------------------------------------------------------------------- */

enum hsp_status hsp_cuda_fault_new(struct hsp_cuda_fault **ret, struct hsp_err *err);
void hsp_cuda_fault_free(struct hsp_cuda_fault *f); /* NULL is fine */
/* HSP_EIO with the first failure when the device is lost. */
enum hsp_status hsp_cuda_alive(struct hsp_cuda *g, struct hsp_err *err);
/* The device is lost from now on, for this reason. Returns HSP_EIO with the first such reason. */
enum hsp_status hsp_cuda_lose(struct hsp_cuda *g, struct hsp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* --- cuda_memory.c ------------------------------------------------------------------------------- */

enum hsp_status hsp_cuda_memory_new(struct hsp_cuda *g, size_t limit_bytes, struct hsp_err *err);
void hsp_cuda_memory_free(struct hsp_cuda *g); /* all of it, also what nobody released */
enum hsp_status hsp_cuda_alloc(struct hsp_cuda *g, enum hsp_mem mem, size_t bytes, const char *what,
                               void **ret, struct hsp_err *err);
void hsp_cuda_release(struct hsp_cuda *g, enum hsp_mem mem, void *p);
/* The begin of the block that holds @p; NULL: none of ours. */
const void *hsp_cuda_block(struct hsp_cuda *g, const void *p);

/* --- cuda_queue.c -------------------------------------------------------------------------------- */

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

/* --- cuda_replay.c ------------------------------------------------------------------------------- */

enum hsp_status hsp_cuda_begin(struct hsp_backend *b, enum hsp_devq q, const struct hsp_digest *key,
                               bool *ret_replayed, struct hsp_err *err);
enum hsp_status hsp_cuda_end(struct hsp_backend *b, enum hsp_devq q, struct hsp_err *err);
/* A call between begin and end: what it is (its words without pointers), and what it points to. */
void hsp_cuda_trace(struct hsp_cuda *g, enum hsp_devq q, const void *words, size_t bytes);
void hsp_cuda_trace_pointer(struct hsp_cuda *g, enum hsp_devq q, const void *p);
/* Graphs that name the block are not replayed any more. */
void hsp_cuda_forget_block(struct hsp_cuda *g, const void *block);
/* Destroys the graphs of @q. */
void hsp_cuda_graphs_drop(struct hsp_cuda *g, enum hsp_devq q);

#endif
