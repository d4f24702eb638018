/* Replays calls by CUDA graphs. The first time that a key comes, its calls run as they are: this
 * makes scratch large enough and lets cuBLASLt choose, and a key that never comes again costs no
 * graph. The second time the calls are captured, and the graph is started. From then on the graph
 * is only started. In a rehearsal scratch and choices have been made before, so the calls are
 * captured the first time; the graph is not started.
 *
 * Calls that the library will not capture, build or start are no failure, since none of them has
 * run: end asks for the calls once more, and from then on they run as they are.
 *
 * A graph whose memory has been released is stale: it is never started again. When the same calls
 * come with other pointers (after a switch), a stale graph is updated in place, which is several
 * times cheaper than building another. */
#include "worker/backend/cuda/cuda_replay.h"

#include <stdlib.h>

#include "worker/backend/cuda/cuda_context.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_graphs.h"
#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/cuda_progress.h"

/* ---- capture ---- */

static void trace_word(struct hsp_cuda_graph *x, const void *p, size_t bytes)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < bytes; i++) { /* FNV-1a */
        x->signature = (x->signature ^ b[i]) * UINT64_C(0x100000001b3);
    }
}

void hsp_cuda_trace(struct hsp_cuda *g, enum hsp_devq q, const void *words, size_t bytes)
{
    if (g->queue[q].capturing) {
        trace_word(&g->queue[q].now, words, bytes);
        g->queue[q].now.n_calls++;
    }
}

void hsp_cuda_trace_pointer(struct hsp_cuda *g, enum hsp_devq q, const void *p)
{
    struct hsp_cuda_graph *x = &g->queue[q].now;
    const void *block = g->queue[q].capturing && p != NULL ? hsp_cuda_block(g, p) : NULL;
    if (block == NULL || hsp_cuda_graph_names(x, block)) {
        return;
    }
    if (x->n_blocks < HSP_CUDA_MAX_BLOCKS) {
        x->block[x->n_blocks] = block;
    }
    x->n_blocks++;
}

/* ---- begin and end ---- */

/* Starts a graph. *ret_started is false if the library refused and the device still works. */
static enum hsp_status start(struct hsp_cuda *g, enum hsp_devq q, cudaGraphExec_t exec,
                             bool *ret_started, struct hsp_err *err)
{
    hsp_cuda_note(g, q, "replay");
    *ret_started = cudaGraphLaunch(exec, g->stream[q]) == cudaSuccess;
    return *ret_started ? HSP_OK : hsp_cuda_goes_on(g, q, "the start of a graph", err);
}

/* Lets the calls of @key run as they are from now on. After a rehearsal the key instead counts as
 * one that never came: calls that have run once may be captured though they were refused before. */
static void give_up(struct hsp_cuda *g, struct hsp_cuda_queue *u, const struct hsp_digest *key)
{
    hsp_cuda_graphs_lock(g);
    struct hsp_cuda_graph *x = hsp_cuda_graph_find(u, key);
    x = x != NULL ? x : hsp_cuda_graph_room(u);
    hsp_cuda_graph_destroy(x);
    if (!u->rehearses) {
        *x = (struct hsp_cuda_graph){.key = *key, .state = HSP_CUDA_GRAPH_NEVER, .used = ++u->uses};
    }
    hsp_cuda_graphs_unlock(g);
}

static enum hsp_status prepare(struct hsp_cuda *g, enum hsp_devq q, struct hsp_err *err)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    enum hsp_status st = hsp_cuda_bind(g, err);
    if (st == HSP_OK && u->between) {
        st = hsp_err_set(err, HSP_ESTATE, 0, "begin twice");
    }
    if (st == HSP_OK && u->graph == NULL) {
        u->graph = calloc(HSP_CUDA_MAX_GRAPHS, sizeof(*u->graph));
        st = u->graph != NULL ? HSP_OK : hsp_err_nomem(err, "the graphs");
    }
    return st == HSP_OK ? hsp_cuda_queue_need(g, q, err) : st;
}

/* Finds the graph of the key, or takes a place for it. *ret_exec is the executable to start, or
 * NULL. *ret_idle is true if a rehearsal need not record the calls: their graph is ready or was
 * given up, or no place is free. Returns whether the calls are to be captured. */
static bool look_up(struct hsp_cuda *g, struct hsp_cuda_queue *u, const struct hsp_digest *key,
                    cudaGraphExec_t *ret_exec, bool *ret_idle)
{
    hsp_cuda_graphs_lock(g);
    struct hsp_cuda_graph *x = hsp_cuda_graph_find(u, key);
    bool seen = x != NULL && x->state == HSP_CUDA_GRAPH_SEEN;
    *ret_exec = NULL;
    *ret_idle = u->rehearses && (x != NULL ? !seen : !hsp_cuda_graph_has_room(u));
    if (x != NULL) {
        x->used = ++u->uses;
        *ret_exec = x->exec;
    } else if (!*ret_idle) {
        *hsp_cuda_graph_room(u) =
            (struct hsp_cuda_graph){.key = *key, .state = HSP_CUDA_GRAPH_SEEN, .used = ++u->uses};
    }
    hsp_cuda_graphs_unlock(g);
    return seen || u->rehearses;
}

enum hsp_status hsp_cuda_begin(struct hsp_backend *b, enum hsp_devq q, const struct hsp_digest *key,
                               bool *ret_replayed, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_cuda_queue *u = &g->queue[q];
    enum hsp_status st = prepare(g, q, err);
    if (st != HSP_OK) {
        return st;
    }
    cudaGraphExec_t exec;
    bool idle, captures = look_up(g, u, key, &exec, &idle);
    *ret_replayed = idle;
    if (idle) {
        return HSP_OK;
    }
    if (exec != NULL) {
        st = start(g, q, exec, ret_replayed, err);
        if (st != HSP_OK || *ret_replayed) {
            return st;
        }
        give_up(g, u, key);
    }
    *ret_replayed = false;
    /* Relaxed mode lets other threads allocate memory during the capture. */
    if (captures &&
        cudaStreamBeginCapture(g->stream[q], cudaStreamCaptureModeRelaxed) != cudaSuccess) {
        st = hsp_cuda_goes_on(g, q, "a capture", err);
        give_up(g, u, key);
        captures = false;
        *ret_replayed = u->rehearses;
    }
    if (st == HSP_OK && !*ret_replayed) {
        u->now = (struct hsp_cuda_graph){.key = *key, .state = HSP_CUDA_GRAPH_READY};
        u->between = true;
        u->capturing = captures;
        u->failed = u->again = false;
    }
    return st;
}

/* Makes an executable of the graph: updates a stale one of the same calls, or else builds a new
 * one. Locked. */
static cudaError_t build(struct hsp_cuda_queue *u, cudaGraph_t graph)
{
    struct hsp_cuda_graph *x = hsp_cuda_graph_pattern(u, &u->now);
    cudaGraphExecUpdateResultInfo info;
    if (x != NULL) {
        cudaGraphExec_t exec = x->exec;
        x->exec = NULL;
        hsp_cuda_graph_destroy(x);
        if (cudaGraphExecUpdate(exec, graph, &info) == cudaSuccess) {
            u->now.exec = exec;
            return cudaSuccess;
        }
        (void)cudaGetLastError();
        (void)cudaGraphExecDestroy(exec); /* CUDA says that the two graphs differ */
    }
    cudaError_t e = cudaGraphInstantiate(&u->now.exec, graph, 0);
    /* frees the memory of all other graphs, and tries again */
    if (e == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        for (int i = 0; i < HSP_CUDA_MAX_GRAPHS; i++) {
            hsp_cuda_graph_destroy(&u->graph[i]);
        }
        e = cudaGraphInstantiate(&u->now.exec, graph, 0);
    }
    return e;
}

static void keep(struct hsp_cuda_queue *u)
{
    struct hsp_cuda_graph *x = hsp_cuda_graph_find(u, &u->now.key);
    if (x == NULL) {
        x = hsp_cuda_graph_room(u);
    }
    hsp_cuda_graph_destroy(x);
    *x = u->now;
    x->used = ++u->uses;
}

enum hsp_status hsp_cuda_end(struct hsp_backend *b, enum hsp_devq q, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_cuda_queue *u = &g->queue[q];
    cudaGraph_t graph = NULL;
    bool captured = u->capturing, failed = u->failed;
    if (!u->between) {
        return hsp_err_set(err, HSP_ESTATE, 0, "end without begin");
    }
    u->between = u->capturing = false;
    if (!captured) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_cuda_bind(g, err);
    cudaError_t e = cudaStreamEndCapture(g->stream[q], &graph);
    bool whole = e == cudaSuccess && !failed && !u->again, started = false;
    if (st == HSP_OK && whole) {
        hsp_cuda_graphs_lock(g);
        whole = build(u, graph) == cudaSuccess;
        if (whole) {
            keep(u);
        }
        hsp_cuda_graphs_unlock(g);
    }
    if (graph != NULL && cudaGraphDestroy(graph) != cudaSuccess) {
        (void)cudaGetLastError(); /* if the error matters, the next call reports it */
    }
    if (st != HSP_OK || failed) {
        (void)cudaGetLastError();
        return failed ? HSP_OK : st;
    }
    if (!whole) {
        st = hsp_cuda_goes_on(g, q, "a graph", err);
    } else if (!u->rehearses) {
        st = start(g, q, u->now.exec, &started, err);
    }
    if (st == HSP_OK && !started && !(whole && u->rehearses)) {
        give_up(g, u, &u->now.key);
        st = u->rehearses ? HSP_OK : HSP_AGAIN;
    }
    return st;
}
