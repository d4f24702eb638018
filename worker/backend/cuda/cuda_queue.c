#include "worker/backend/cuda/cuda_queue.h"

#include <stdio.h>
#include <time.h>

#include "worker/backend/cuda/cuda_context.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_progress.h"

/* How long the host looks at an event before it sleeps. Pieces of work of a step end within
 * microseconds of each other, and a sleep costs some 20 microseconds. */
#define SPIN_NS 50000

/* ---- tickets ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static enum hsp_status wait_for(struct hsp_cuda *g, enum hsp_devq of, uint64_t ticket,
                                struct hsp_err *err)
{
    struct hsp_cuda_queue *u = &g->queue[of];
    int64_t until = now_ns() + SPIN_NS;
    cudaError_t e;
    do {
        e = hsp_cuda_look(u, ticket);
    } while (e == cudaErrorNotReady && now_ns() < until);
    if (e == cudaErrorNotReady) {
        e = cudaEventSynchronize(*hsp_cuda_event_of(u, ticket));
    }
    if (e != cudaSuccess) {
        char what[64];
        (void)snprintf(what, sizeof(what), "work of queue %s", hsp_cuda_queue_name(of));
        return hsp_cuda_check(g, e, what, err);
    }
    hsp_cuda_note_reached(u, ticket);
    return HSP_OK;
}

static enum hsp_status is_given(struct hsp_cuda *g, enum hsp_devq of, uint64_t ticket,
                                struct hsp_err *err)
{
    uint64_t given = atomic_load(&g->queue[of].given);
    return ticket <= given
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "ticket %llu of queue %s, which has given %llu",
                             (unsigned long long)ticket, hsp_cuda_queue_name(of),
                             (unsigned long long)given);
}

enum hsp_status hsp_cuda_mark(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret,
                              struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_cuda_queue *u = &g->queue[q];
    enum hsp_status st = hsp_cuda_bind(g, err);
    if (st == HSP_OK && u->between) {
        st = hsp_err_set(err, HSP_ESTATE, 0, "a mark between begin and end");
    }
    if (st == HSP_OK) {
        st = hsp_cuda_queue_need(g, q, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    uint64_t ticket = atomic_load(&u->given) + 1;
    cudaEvent_t *event = hsp_cuda_event_of(u, ticket);
    if (ticket > HSP_MAX_MARKS) {
        st = wait_for(g, q, ticket - HSP_MAX_MARKS, err);
    }
    if (st == HSP_OK && *event == NULL) {
        st = hsp_cuda_check(g, cudaEventCreateWithFlags(event, cudaEventBlockingSync), "an event",
                            err);
    }
    if (st == HSP_OK) {
        st = hsp_cuda_check(g, cudaEventRecord(*event, g->stream[q]), "a ticket", err);
    }
    if (st == HSP_OK) {
        atomic_store(&u->given, ticket);
        *ret = ticket;
    }
    return st;
}

enum hsp_status hsp_cuda_await(struct hsp_backend *b, enum hsp_devq q, enum hsp_devq of,
                               uint64_t ticket, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_cuda_queue *u = &g->queue[of];
    enum hsp_status st = hsp_cuda_bind(g, err);
    if (st == HSP_OK && g->queue[q].between) {
        st = hsp_err_set(err, HSP_ESTATE, 0, "a wait between begin and end");
    }
    if (st == HSP_OK) {
        st = is_given(g, of, ticket, err);
    }
    if (st == HSP_OK) {
        st = hsp_cuda_queue_need(g, q, err);
    }
    if (st != HSP_OK || q == of || ticket <= atomic_load(&u->reached)) {
        return st;
    }
    return hsp_cuda_check(g, cudaStreamWaitEvent(g->stream[q], *hsp_cuda_event_of(u, ticket), 0),
                          "a wait between queues", err);
}

enum hsp_status hsp_cuda_finish(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket,
                                struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    enum hsp_status st = hsp_cuda_bind(g, err);
    if (st == HSP_OK) {
        st = is_given(g, of, ticket, err);
    }
    return st == HSP_OK && ticket > atomic_load(&g->queue[of].reached)
               ? wait_for(g, of, ticket, err)
               : st;
}

bool hsp_cuda_reached(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_cuda_queue *u = &g->queue[of];
    struct hsp_err err;
    if (ticket <= atomic_load(&u->reached) || ticket > atomic_load(&u->given) ||
        hsp_cuda_bind(g, &err) != HSP_OK) {
        return ticket <= atomic_load(&u->given);
    }
    cudaError_t e = hsp_cuda_look(u, ticket);
    if (e != cudaSuccess && e != cudaErrorNotReady) {
        (void)hsp_cuda_check(g, e, "work of a queue", &err);
    }
    return e != cudaErrorNotReady;
}

enum hsp_status hsp_cuda_seconds(struct hsp_backend *b, enum hsp_devq of, uint64_t from,
                                 uint64_t to, double *ret, struct hsp_err *err)
{
    struct hsp_cuda *g = (struct hsp_cuda *)b;
    struct hsp_cuda_queue *u = &g->queue[of];
    uint64_t given = atomic_load(&u->given);
    enum hsp_status st = hsp_cuda_bind(g, err);
    bool wrong = from == 0 || to < from || to > given;
    if (st == HSP_OK && (wrong || given - from >= HSP_MAX_MARKS)) {
        st = hsp_err_set(err, wrong ? HSP_EINVAL : HSP_ENOENT, 0,
                         "no time is kept from ticket %llu to %llu of %llu",
                         (unsigned long long)from, (unsigned long long)to,
                         (unsigned long long)given);
    }
    float ms = 0.0f;
    if (st == HSP_OK && from != to) {
        cudaError_t e =
            cudaEventElapsedTime(&ms, *hsp_cuda_event_of(u, from), *hsp_cuda_event_of(u, to));
        if (e == cudaErrorNotReady) {
            (void)cudaGetLastError();
            return hsp_err_set(err, HSP_ESTATE, 0, "ticket %llu is not reached",
                               (unsigned long long)to);
        }
        st = hsp_cuda_check(g, e, "the time between two tickets", err);
    }
    if (st == HSP_OK) {
        *ret = (double)ms * 1e-3;
    }
    return st;
}
