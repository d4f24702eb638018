#include "worker/backend/cpu/work_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "proto/base/check.h"
#include "proto/base/size.h"

/* How often a thread looks at a condition before it sleeps: some tens of microseconds, about the
 * cost of a wake-up and longer than the gap between two ops of a step. */
#define SPINS 1000

struct pool_thread {
    struct hsp_workpool *pool;
    unsigned worker;
    pthread_t id;
};

/* The pool. The caller publishes a loop under the lock by raising `round`. Every thread takes part
 * in every round (perhaps with an empty range), and the last thread to finish wakes the caller.
 *
 * A thread that runs a loop on the pool holds `turn`. `loops` counts the loops of the pool's
 * caller, also those that it runs alone. hsp_workpool_beside takes the turn if the caller has begun
 * no loop during the last block. A caller that waits for the turn has already counted its loop, so
 * after the next block hsp_workpool_beside leaves the turn to the caller. */
struct hsp_workpool {
    unsigned n;      /* workers, with the caller */
    unsigned n_live; /* threads started */
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    /* Written under the lock. Read without the lock only to guess whether to sleep. */
    _Atomic uint64_t round;
    _Atomic unsigned left; /* threads that have not finished this round yet */
    _Atomic bool stop;
    hsp_range_fn fn;
    const void *ctx;
    int64_t items, chunk;
    struct pool_thread *threads;
    pthread_mutex_t turn;
    _Atomic uint64_t loops; /* the loops that the caller has begun */
};

static void run_share(hsp_range_fn fn, const void *ctx, unsigned worker, int64_t items,
                      int64_t chunk)
{
    int64_t lo = hsp_min_i64(items, chunk * (int64_t)worker);
    int64_t hi = hsp_min_i64(items, lo + chunk);
    if (lo < hi) {
        fn(ctx, worker, lo, hi);
    }
}

static inline void spin(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void *thread_main(void *arg)
{
    struct pool_thread *t = arg;
    struct hsp_workpool *p = t->pool;
    uint64_t seen = 0;
    for (;;) {
        for (int i = 0; i < SPINS && p->round == seen && !p->stop; i++) {
            spin();
        }
        pthread_mutex_lock(&p->lock);
        while (!p->stop && p->round == seen) {
            pthread_cond_wait(&p->start, &p->lock);
        }
        if (p->stop) {
            break;
        }
        seen = p->round;
        hsp_range_fn fn = p->fn;
        const void *ctx = p->ctx;
        int64_t items = p->items, chunk = p->chunk;
        pthread_mutex_unlock(&p->lock);
        run_share(fn, ctx, t->worker, items, chunk);
        pthread_mutex_lock(&p->lock);
        if (--p->left == 0) {
            pthread_cond_signal(&p->done);
        }
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

enum hsp_status hsp_workpool_new(int threads, struct hsp_workpool **ret, struct hsp_err *err)
{
    if (threads < 1 || threads > HSP_WORKPOOL_MAX) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%d threads, must be 1 to %d", threads,
                           HSP_WORKPOOL_MAX);
    }
    struct hsp_workpool *p = calloc(1, sizeof(*p));
    struct pool_thread *t = calloc((size_t)threads, sizeof(*t));
    if (p == NULL || t == NULL) {
        free(p);
        free(t);
        return hsp_err_nomem(err, "%d threads", threads);
    }
    p->threads = t;
    p->n = (unsigned)threads;
    HSP_ASSERT(pthread_mutex_init(&p->lock, NULL) == 0);
    HSP_ASSERT(pthread_mutex_init(&p->turn, NULL) == 0);
    HSP_ASSERT(pthread_cond_init(&p->start, NULL) == 0);
    HSP_ASSERT(pthread_cond_init(&p->done, NULL) == 0);
    for (unsigned i = 1; i < p->n; i++) {
        t[i] = (struct pool_thread){.pool = p, .worker = i};
        int rc = pthread_create(&t[i].id, NULL, thread_main, &t[i]);
        if (rc != 0) {
            hsp_workpool_free(p);
            return hsp_err_set(err, HSP_ELIMIT, rc, "thread %u of %d", i, threads);
        }
        p->n_live++;
    }
    *ret = p;
    return HSP_OK;
}

struct hsp_workpool *hsp_workpool_free(struct hsp_workpool *p)
{
    if (p == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 1; i <= p->n_live; i++) {
        /* cannot fail: each thread is joinable, and joined once */
        (void)pthread_join(p->threads[i].id, NULL);
    }
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->start);
    pthread_mutex_destroy(&p->turn);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p);
    return NULL;
}

unsigned hsp_workpool_size(const struct hsp_workpool *p)
{
    return p->n;
}

/* Runs one round for a thread that holds the turn; each worker gets at most @chunk items. */
static void run_round(struct hsp_workpool *p, int64_t items, int64_t chunk, hsp_range_fn fn,
                      const void *ctx)
{
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->ctx = ctx;
    p->items = items;
    p->chunk = chunk;
    p->left = p->n - 1;
    p->round++;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    run_share(fn, ctx, 0, items, chunk);
    for (int i = 0; i < SPINS && p->left > 0; i++) {
        spin();
    }
    pthread_mutex_lock(&p->lock);
    while (p->left > 0) {
        pthread_cond_wait(&p->done, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

void hsp_workpool_for(struct hsp_workpool *p, int64_t n, int64_t grain, hsp_range_fn fn,
                      const void *ctx)
{
    HSP_ASSERT(grain >= 1);
    if (n <= 0) {
        return;
    }
    p->loops++;
    if (p->n == 1 || n <= grain) {
        fn(ctx, 0, 0, n);
        return;
    }
    int64_t grains = (n - 1) / grain + 1;
    int64_t chunk = ((grains - 1) / (int64_t)p->n + 1) * grain;
    pthread_mutex_lock(&p->turn);
    run_round(p, n, chunk, fn, ctx);
    pthread_mutex_unlock(&p->turn);
}

/* The blocks of hsp_workpool_beside; a worker that has done a block takes the next. */
struct blocks {
    struct hsp_workpool *pool;
    int64_t n, block;
    hsp_range_fn fn;
    const void *ctx;
    /* the value of `loops` before this block; when it changes, the pool is given back */
    uint64_t seen;
    _Atomic int64_t next;
};

static bool run_block(struct blocks *b, unsigned worker)
{
    int64_t lo = atomic_fetch_add(&b->next, b->block);
    if (lo < b->n) {
        b->fn(b->ctx, worker, lo, hsp_min_i64(b->n, lo + b->block));
    }
    return lo < b->n;
}

static void run_blocks(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    struct blocks *b = (struct blocks *)(uintptr_t)ctx;
    (void)lo;
    (void)hi;
    while (b->pool->loops == b->seen && run_block(b, worker)) {
    }
}

void hsp_workpool_beside(struct hsp_workpool *p, int64_t n, int64_t block, hsp_range_fn fn,
                         const void *ctx)
{
    HSP_ASSERT(block >= 1);
    struct blocks b = {.pool = p, .n = n, .block = block, .fn = fn, .ctx = ctx, .seen = p->loops};
    bool idle = false; /* whether the caller began no loop during the last block */
    while (b.next < n) {
        if (idle && p->n > 1 && n - b.next > block && pthread_mutex_trylock(&p->turn) == 0) {
            run_round(p, p->n, 1, run_blocks, &b);
            pthread_mutex_unlock(&p->turn);
        } else {
            (void)run_block(&b, 0);
        }
        uint64_t loops = p->loops;
        idle = loops == b.seen;
        b.seen = loops;
    }
}
