/* Runs the mockdev's queues: work is judged when it is given, and done late by the thread of its
 * queue. */
#include "tests/lib/mockdevqueue.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker/backend/cpu/cpu.h"

#define FOREIGN_US 50 /* between two looks whether another library's work may begin */

struct hsp_mockdev *hsp_mockdev_of(struct hsp_backend *b)
{
    return (struct hsp_mockdev *)b;
}

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t hsp_mockdev_draw(struct hsp_mockdev *g)
{
    return hsp_mix64(g->o.seed + 0x9e3779b97f4a7c15U * ++g->drawn);
}

void hsp_mockdev_wait_done(struct hsp_mockdev *g)
{
    g->n_waiting++;
    (void)pthread_cond_wait(&g->cond, &g->lock);
    g->n_waiting--;
}

static void tell_done(struct hsp_mockdev *g)
{
    if (g->n_waiting > 0) {
        (void)pthread_cond_broadcast(&g->cond);
    }
}

void hsp_mockdev_fail(struct hsp_mockdev *g, const struct hsp_err *why)
{
    if (g->failure.code == HSP_OK) {
        g->failure = *why;
    }
    tell_done(g);
}

enum hsp_status hsp_mockdev_failed(const struct hsp_mockdev *g, struct hsp_err *err)
{
    if (g->failure.code != HSP_OK && err != NULL) {
        *err = g->failure;
    }
    return g->failure.code;
}

enum hsp_status hsp_mockdev_breach(struct hsp_mockdev *g, const char *words, struct hsp_err *err)
{
    struct hsp_err e;
    (void)hsp_err_set(&e, HSP_EIO, 0, "mockdev: %s", words);
    hsp_mockdev_fail(g, &e);
    return hsp_mockdev_failed(g, err);
}

void hsp_mockdev_learn(struct hsp_mockdev_clock *to, const struct hsp_mockdev_clock *from)
{
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        to->done[q] = to->done[q] > from->done[q] ? to->done[q] : from->done[q];
    }
}

/* ---- the knowledge of threads ---- */

/* The calling thread's number; a pthread_t is given again to another thread when one has ended. */
static uint64_t thread_number(void)
{
    static atomic_uint_fast64_t last;
    static _Thread_local uint64_t mine;
    if (mine == 0) {
        mine = atomic_fetch_add(&last, 1) + 1;
    }
    return mine;
}

/* A new thread takes the place of the one that was silent for longest. */
struct hsp_mockdev_clock *hsp_mockdev_caller(struct hsp_mockdev *g)
{
    uint64_t me = thread_number();
    struct hsp_mockdev_clock all = {{0}};
    size_t k = 0, oldest = 0;
    while (k < g->n_threads && g->thread[k].id != me) {
        hsp_mockdev_learn(&all, &g->thread[k].known);
        oldest = g->thread[k].seen < g->thread[oldest].seen ? k : oldest;
        k++;
    }
    if (k == g->n_threads) {
        k = g->n_threads < HSP_MOCKDEV_THREADS ? g->n_threads++ : oldest;
        g->thread[k].id = me;
        g->thread[k].known = all;
    }
    g->thread[k].seen = ++g->n_seen;
    return &g->thread[k].known;
}

/* ---- doing ---- */

static enum hsp_status do_work(struct hsp_mockdev_queue *q, struct hsp_mockdev_job *j,
                               struct hsp_err *err)
{
    struct hsp_mockdev_call *c = &j->c;
    if (j->hashed && hsp_hash64(c->from.data, (size_t)c->n, 0) != j->hash) {
        return hsp_err_set(err, HSP_EIO, 0,
                           "mockdev: the host changed %" PRId64 " bytes that a copy still reads",
                           c->n);
    }
    return hsp_mockdev_do(q->cpu, q->q, c, err);
}

static void do_foreign(const struct hsp_mockdev_work *w)
{
    while (!w->ready(w->arg)) {
        (void)usleep(FOREIGN_US);
    }
    w->run(w->arg);
}

/* The lock is held, and given back for the work. */
static void do_job(struct hsp_mockdev_queue *q, struct hsp_mockdev_job *j)
{
    struct hsp_mockdev *g = q->g;
    struct hsp_err err = {0};
    if (j->c.kind == MOCKDEV_MARK) {
        q->reached = j->c.ticket;
        q->when_ns[q->reached % HSP_MAX_MARKS] = now_ns();
        return;
    }
    if (j->c.kind == MOCKDEV_AWAIT) {
        while (g->queue[j->c.of].reached < j->c.ticket) {
            hsp_mockdev_wait_done(g);
        }
        return;
    }
    bool dead = g->failure.code != HSP_OK || j->refused;
    (void)pthread_mutex_unlock(&g->lock);
    enum hsp_status st = HSP_OK;
    if (j->c.kind == MOCKDEV_FOREIGN) {
        do_foreign(&j->foreign);
    } else if (!dead && j->fails) {
        st = hsp_err_set(&err, HSP_EIO, 0, "mockdev: the device failed");
    } else if (!dead) {
        if (j->delay_us > 0) {
            (void)usleep(j->delay_us);
        }
        st = do_work(q, j, &err);
    }
    (void)pthread_mutex_lock(&g->lock);
    if (st != HSP_OK) {
        err.code = st;
        hsp_mockdev_fail(g, &err);
    }
    g->done.done[q->q] = j->number;
}

static void *queue_main(void *arg)
{
    struct hsp_mockdev_queue *q = arg;
    struct hsp_mockdev *g = q->g;
    (void)pthread_mutex_lock(&g->lock);
    while (!g->quit || q->first != NULL) {
        struct hsp_mockdev_job *j = q->first;
        if (j == NULL) {
            (void)pthread_cond_wait(&q->todo, &g->lock);
            continue;
        }
        do_job(q, j);
        q->first = j->next;
        if (q->first == NULL) {
            q->last = &q->first;
        }
        free(j);
        tell_done(g);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- giving ---- */

/* A queue has a thread from its first work on. */
static void open_queue(struct hsp_mockdev_queue *q)
{
    if (!q->open && (hsp_backend_cpu_open(1, &q->cpu, NULL) != HSP_OK ||
                     pthread_create(&q->thread, NULL, queue_main, q) != 0)) {
        abort(); /* a test that cannot run */
    }
    q->open = true;
}

void hsp_mockdev_append(struct hsp_mockdev_queue *q, struct hsp_mockdev_job *j)
{
    open_queue(q);
    *q->last = j;
    q->last = &j->next;
    (void)pthread_cond_signal(&q->todo);
}

/* Memory of the host that a copy reads must not change before it does; its results are not to be
 * read before. */
static void watch_host(struct hsp_mockdev *g, struct hsp_mockdev_job *j,
                       const struct hsp_mockdev_call *c)
{
    struct hsp_mockdev_area *from = hsp_mockdev_find(g->areas, c->from.data, (size_t)c->n);
    struct hsp_mockdev_area *to = hsp_mockdev_find(g->areas, c->to.data, (size_t)c->n);
    if (c->kind != MOCKDEV_COPY || c->n == 0) {
        return;
    }
    if (from == NULL || (from->mem == HSP_MEM_HOST &&
                         !hsp_mockdev_pending(from, c->from.data, (size_t)c->n, &g->done, false))) {
        j->hashed = true;
        j->hash = hsp_hash64(c->from.data, (size_t)c->n, 0);
    }
    if (to != NULL && to->mem == HSP_MEM_HOST &&
        !hsp_mockdev_pending(to, c->to.data, (size_t)c->n, &g->done, true)) {
        memset(c->to.data, 0x5a, (size_t)c->n);
    }
}

/* Work is numbered, judged and made ready. Refused work stays in its queue, undone, so that no
 * waiter for its number waits for ever. */
static void judge(struct hsp_mockdev *g, struct hsp_mockdev_queue *q, struct hsp_mockdev_job *j,
                  const struct hsp_mockdev_call *c)
{
    struct hsp_err why = {0};
    watch_host(g, j, c); /* before it is pending itself */
    j->number = ++q->given;
    q->known.done[q->q] = q->given;
    struct hsp_mockdev_touch t = {
        .q = q->q, .number = j->number, .known = &q->known, .what = hsp_mockdev_name(c)};
    if (!hsp_mockdev_visit(g->areas, c, t, &why)) {
        hsp_mockdev_fail(g, &why);
        j->refused = true;
        return;
    }
    hsp_mockdev_make_real(g->areas, &j->c);
    j->fails = ++g->work == g->o.fail_at ||
               (g->fail_copy && q->q == HSP_DEVQ_STATE && c->kind == MOCKDEV_COPY);
    g->tally.work++;
    if (g->o.max_delay_us > 0 && hsp_mockdev_draw(g) % 4 == 0) {
        j->delay_us = (uint32_t)(hsp_mockdev_draw(g) % g->o.max_delay_us);
    }
}

enum hsp_status hsp_mockdev_give(struct hsp_mockdev *g, enum hsp_devq at,
                                 const struct hsp_mockdev_call *c, struct hsp_err *err)
{
    struct hsp_mockdev_queue *q = &g->queue[at];
    struct hsp_mockdev_job *j = calloc(1, sizeof(*j));
    if (hsp_mockdev_failed(g, err) != HSP_OK || j == NULL) {
        free(j);
        return j == NULL ? HSP_ENOMEM : hsp_mockdev_failed(g, err);
    }
    j->c = *c;
    hsp_mockdev_learn(&q->known,
                      hsp_mockdev_caller(g)); /* later work in the queue comes after this call */
    if (c->kind < MOCKDEV_MARK) {
        g->peers = g->peers || g->o.keeps;
        judge(g, q, j, c);
    }
    hsp_mockdev_append(q, j);
    return j->refused ? hsp_mockdev_failed(g, err) : HSP_OK;
}
