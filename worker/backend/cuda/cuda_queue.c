#include "worker/backend/cuda/cuda_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_fault.h"
#include "worker/backend/cuda/cuda_host.h"
#include "worker/backend/cuda/cuda_replay.h"

/* How long the host looks before it sleeps: work of a step ends within microseconds of each other,
 * a sleep costs some 20 of them. */
#define SPIN_NS 50000

static const char *queue_name(unsigned q)
{
    return q == HSP_DEVQ_COMPUTE ? "compute"
           : q == HSP_DEVQ_COMM  ? "comm"
           : q == HSP_DEVQ_STATE ? "state"
           : q == HSP_DEVQ_GREET ? "greet"
                                 : "lane";
}

static cudaEvent_t *event_of(struct hsp_cuda_queue *u, uint64_t ticket)
{
    return &u->event[ticket % HSP_MAX_MARKS];
}

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
    if (e == cudaSuccess) { /* what others wait for comes first */
        e = cudaStreamCreateWithPriority(&g->stream[q], cudaStreamNonBlocking,
                                         q == HSP_DEVQ_COMPUTE || q == HSP_DEVQ_STATE ? least
                                                                                      : most);
    }
    return hsp_cuda_check(g, e, "a stream", err);
}

void hsp_cuda_queue_fini(struct hsp_cuda *g, enum hsp_devq q)
{
    struct hsp_cuda_queue *u = &g->queue[q];
    hsp_cuda_graphs_drop(g, q);
    free(u->graph);
    for (size_t i = 0; u->event != NULL && i < HSP_MAX_MARKS; i++) {
        if (u->event[i] != NULL) {
            (void)cudaEventDestroy(u->event[i]); /* the queue is over, whatever it says */
        }
    }
    free(u->event);
    if (g->stream[q] != NULL) {
        (void)cudaStreamDestroy(g->stream[q]);
    }
}

/* ---- names of what is under way ---- */

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
                                             queue_name(q), name)
                                  : snprintf(text + at, bytes - at, ", %s", name);
            at += k > 0 ? (size_t)k : 0;
        }
    }
}

/* ---- tickets ---- */

static void note_reached(struct hsp_cuda_queue *u, uint64_t ticket)
{
    uint64_t old = atomic_load(&u->reached);
    while (old < ticket && !atomic_compare_exchange_weak(&u->reached, &old, ticket)) {
    }
}

/* cudaErrorNotReady, or how the event of a ticket came out. */
static cudaError_t look(struct hsp_cuda_queue *u, uint64_t ticket)
{
    if (ticket <= atomic_load(&u->reached)) {
        return cudaSuccess;
    }
    cudaError_t e = cudaEventQuery(*event_of(u, ticket));
    if (e == cudaSuccess) {
        note_reached(u, ticket);
    } else if (e == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* or the next launch would seem to fail */
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
        if (!covered || look(u, given) != cudaSuccess) {
            return false;
        }
    }
    return true;
}

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
        e = look(u, ticket);
    } while (e == cudaErrorNotReady && now_ns() < until);
    if (e == cudaErrorNotReady) {
        e = cudaEventSynchronize(*event_of(u, ticket));
    }
    if (e != cudaSuccess) {
        char what[64];
        (void)snprintf(what, sizeof(what), "work of queue %s", queue_name(of));
        return hsp_cuda_check(g, e, what, err);
    }
    note_reached(u, ticket);
    return HSP_OK;
}

static enum hsp_status is_given(struct hsp_cuda *g, enum hsp_devq of, uint64_t ticket,
                                struct hsp_err *err)
{
    uint64_t given = atomic_load(&g->queue[of].given);
    return ticket <= given
               ? HSP_OK
               : hsp_err_set(err, HSP_EINVAL, 0, "ticket %llu of queue %s, which has given %llu",
                             (unsigned long long)ticket, queue_name(of), (unsigned long long)given);
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
    cudaEvent_t *event = event_of(u, ticket);
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
    return hsp_cuda_check(g, cudaStreamWaitEvent(g->stream[q], *event_of(u, ticket), 0),
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
    cudaError_t e = look(u, ticket);
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
        cudaError_t e = cudaEventElapsedTime(&ms, *event_of(u, from), *event_of(u, to));
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
