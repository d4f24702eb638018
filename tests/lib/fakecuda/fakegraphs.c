#include <stdlib.h>
#include <string.h>

#include "tests/lib/fakecuda/fakeint.h"

cudaError_t fake_capture(cudaStream_t s, struct piece *c)
{
    if (s->invalid) {
        (void)fake_piece_free(c);
        return cudaErrorStreamCaptureInvalidated;
    }
    *s->capture->last = c;
    s->capture->last = &c->next;
    s->capture->n++;
    return cudaSuccess;
}

static void free_pieces(struct piece *c)
{
    while (c != NULL) {
        struct piece *next = c->next;
        (void)fake_piece_free(c);
        c = next;
    }
}

static struct piece *clone_pieces(const struct piece *c)
{
    struct piece *first = NULL, **last = &first;
    for (; c != NULL; c = c->next) {
        *last = fake_piece_clone(c);
        last = &(*last)->next;
    }
    return first;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    cudaError_t e = fake_enter("cudaStreamBeginCapture");
    if (e == cudaSuccess && (!fake_stream_ok(s) || s->capture != NULL)) {
        e = s == NULL ? cudaErrorStreamCaptureUnsupported : cudaErrorInvalidValue;
    }
    struct CUgraph_st *g = e == cudaSuccess ? calloc(1, sizeof(*g)) : NULL;
    if (g != NULL) {
        g->last = &g->first;
        s->capture = g;
        s->mode = mode;
        s->invalid = false;
        s->by = pthread_self();
        fake.use.graphs++;
    }
    return fake_leave(e == cudaSuccess && g == NULL ? cudaErrorMemoryAllocation : e);
}

/* Ends the capture with any result: the capture of a device that failed is gone. */
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    cudaError_t e = fake_enter("cudaStreamEndCapture");
    *g = NULL;
    if (!fake_stream_ok(s) || s->capture == NULL) {
        return fake_leave(e == cudaSuccess ? cudaErrorStreamCaptureUnmatched : e);
    }
    if (s->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(s->by, pthread_self())) {
        return fake_leave(e == cudaSuccess ? cudaErrorStreamCaptureWrongThread : e);
    }
    struct CUgraph_st *own = s->capture;
    s->capture = NULL;
    e = e == cudaSuccess && s->invalid ? cudaErrorStreamCaptureInvalidated : e;
    if (e == cudaSuccess) {
        *g = own;
    } else {
        free_pieces(own->first);
        free(own);
        fake.use.graphs--;
    }
    return fake_leave(e);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    cudaError_t e = fake_enter("cudaStreamIsCapturing");
    if (e == cudaSuccess && !fake_stream_ok(s)) {
        e = cudaErrorInvalidResourceHandle;
    } else if (e == cudaSuccess) {
        *status = s->capture == NULL ? cudaStreamCaptureStatusNone
                  : s->invalid       ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
    }
    return fake_leave(e);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    static _Thread_local enum cudaStreamCaptureMode mine = cudaStreamCaptureModeGlobal;
    enum cudaStreamCaptureMode old = mine;
    mine = *mode;
    *mode = old;
    return fake_leave(fake_enter("cudaThreadExchangeStreamCaptureMode"));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t *nodes, size_t *n)
{
    cudaError_t e = fake_enter("cudaGraphGetNodes");
    const struct piece *c = e == cudaSuccess && g != NULL ? g->first : NULL;
    for (size_t i = 0; nodes != NULL && c != NULL && i < *n; i++, c = c->next) {
        nodes[i] = (cudaGraphNode_t)(uintptr_t)c;
    }
    if (e == cudaSuccess) {
        *n = g->n;
    }
    return fake_leave(e);
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    cudaError_t e = fake_enter("cudaGraphDestroy");
    if (g != NULL) {
        free_pieces(g->first);
        free(g);
        fake.use.graphs--;
    }
    return fake_leave(e);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret, cudaGraph_t g, unsigned long long flags)
{
    (void)flags;
    cudaError_t e = fake_enter("cudaGraphInstantiate");
    struct CUgraphExec_st *x = e == cudaSuccess ? calloc(1, sizeof(*x)) : NULL;
    if (x != NULL) {
        *x = (struct CUgraphExec_st){.first = clone_pieces(g->first), .n = g->n};
        fake.use.execs++;
        *ret = x;
    }
    return fake_leave(e == cudaSuccess && x == NULL ? cudaErrorMemoryAllocation : e);
}

/* Numbers may differ, the kind of work may not. */
static enum cudaGraphExecUpdateResult compare(const struct CUgraphExec_st *x,
                                              const struct CUgraph_st *g)
{
    const struct piece *a = x->first, *b = g->first;
    if (x->n != g->n) {
        return cudaGraphExecUpdateErrorTopologyChanged;
    }
    for (; a != NULL; a = a->next, b = b->next) {
        if (a->kind != b->kind) {
            return cudaGraphExecUpdateErrorNodeTypeChanged;
        }
        if (a->func != b->func) {
            return cudaGraphExecUpdateErrorFunctionChanged;
        }
    }
    return cudaGraphExecUpdateSuccess;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t x, cudaGraph_t g,
                                cudaGraphExecUpdateResultInfo *ret)
{
    cudaError_t e = fake_enter("cudaGraphExecUpdate");
    if (e == cudaSuccess) {
        *ret = (cudaGraphExecUpdateResultInfo){.result = compare(x, g)};
        if (ret->result != cudaGraphExecUpdateSuccess) {
            e = cudaErrorGraphExecUpdateFailure;
        } else {
            free_pieces(x->first);
            x->first = clone_pieces(g->first);
        }
    }
    return fake_leave(e);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t x, cudaStream_t s)
{
    cudaError_t e = fake_enter("cudaGraphUpload");
    e = e == cudaSuccess && (x == NULL || !fake_stream_ok(s)) ? cudaErrorInvalidResourceHandle : e;
    return fake_leave(e);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    cudaError_t e = fake_enter("cudaGraphLaunch");
    if (e == cudaSuccess && (x == NULL || !fake_stream_ok(s))) {
        e = cudaErrorInvalidResourceHandle;
    } else if (e == cudaSuccess && s->capture != NULL) {
        s->invalid = true;
        e = cudaErrorStreamCaptureUnsupported;
    }
    for (const struct piece *c = x != NULL ? x->first : NULL; e == cudaSuccess && c != NULL;
         c = c->next) {
        e = fake_give(s, c);
    }
    return fake_leave(e);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    cudaError_t e = fake_enter("cudaGraphExecDestroy");
    if (x != NULL) {
        free_pieces(x->first);
        free(x);
        fake.use.execs--;
    }
    return fake_leave(e);
}
