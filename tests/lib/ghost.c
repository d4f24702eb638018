#include "tests/lib/ghostint.h"
#include "worker/backend/cpu/cpu.h"

#include <inttypes.h> /* PRIu64 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "worker/backend/call_check.h"

#define MAX_THREADS 16
#define FOREIGN_US  50 /* between two looks whether another library's work may begin */

struct job {
    struct job *next;
    struct hsp_ghost_call c; /* addresses of the real memory */
    uint64_t number;
    uint32_t delay_us;
    uint64_t hash; /* of a copy's source on the host */
    bool hashed, fails;
    bool refused; /* a breach: not to be done */
    struct hsp_ghost_work foreign;
};

/* What is known of a replay key. */
struct record {
    struct record *next;
    struct hsp_digest key;
    struct hsp_ghost_call *call;
    size_t n, cap;
};

struct ghost;
struct queue {
    struct ghost *g;
    enum hsp_devq q;
    bool open; /* used once: */
    pthread_t thread;
    pthread_cond_t todo; /* its thread waits for work */
    struct hsp_backend *cpu;
    struct job *first, **last;
    struct hsp_ghost_clock known;
    uint64_t given; /* work */
    uint64_t tickets, reached;
    struct hsp_ghost_clock *mark; /* what each ticket stands for */
    size_t mark_cap;
    int64_t when_ns[HSP_MAX_MARKS];
    struct record *record; /* between begin and end */
    bool comparing;
    size_t at; /* calls compared */
};

struct ghost {
    struct hsp_backend base;
    struct hsp_ghost_opts o;
    pthread_mutex_t lock;
    pthread_cond_t cond; /* who waits for work to be done */
    uint32_t n_waiting;
    struct queue queue[HSP_N_DEVQ];
    struct hsp_ghost_clock done;         /* in truth */
    struct hsp_ghost_area *areas, *kept; /* released, but not freed before trim */
    bool peers;                          /* another library may be at work */
    struct record *records;
    struct {
        uint64_t id, seen; /* seen: when last, in calls of caller() */
        struct hsp_ghost_clock known;
    } thread[MAX_THREADS];
    size_t n_threads;
    uint64_t n_seen;
    struct hsp_ghost_tally tally;
    uint64_t drawn, work;
    bool fail_copy; /* the next of HSP_DEVQ_STATE */
    struct hsp_err failure;
    bool quit;
};

static struct ghost *ghost_of(struct hsp_backend *b)
{
    return (struct ghost *)b;
}

static int64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t draw(struct ghost *g)
{
    return hsp_mix64(g->o.seed + 0x9e3779b97f4a7c15U * ++g->drawn);
}

/* Waits for something to be done. The lock is held. */
static void wait_done(struct ghost *g)
{
    g->n_waiting++;
    (void)pthread_cond_wait(&g->cond, &g->lock);
    g->n_waiting--;
}

static void tell_done(struct ghost *g)
{
    if (g->n_waiting > 0) {
        (void)pthread_cond_broadcast(&g->cond);
    }
}

static void fail(struct ghost *g, const struct hsp_err *why)
{
    if (g->failure.code == HSP_OK) {
        g->failure = *why;
    }
    tell_done(g);
}

static enum hsp_status failed(const struct ghost *g, struct hsp_err *err)
{
    if (g->failure.code != HSP_OK && err != NULL) {
        *err = g->failure;
    }
    return g->failure.code;
}

static void learn(struct hsp_ghost_clock *to, const struct hsp_ghost_clock *from)
{
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        to->done[q] = to->done[q] > from->done[q] ? to->done[q] : from->done[q];
    }
}

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

/* What the calling thread knows. A new one takes the place of the one that was silent for longest. */
static struct hsp_ghost_clock *caller(struct ghost *g)
{
    uint64_t me = thread_number();
    struct hsp_ghost_clock all = {{0}};
    size_t k = 0, oldest = 0;
    while (k < g->n_threads && g->thread[k].id != me) {
        learn(&all, &g->thread[k].known);
        oldest = g->thread[k].seen < g->thread[oldest].seen ? k : oldest;
        k++;
    }
    if (k == g->n_threads) {
        k = g->n_threads < MAX_THREADS ? g->n_threads++ : oldest;
        g->thread[k].id = me;
        g->thread[k].known = all;
    }
    g->thread[k].seen = ++g->n_seen;
    return &g->thread[k].known;
}

/* Memory of the host that a copy reads must not change before it does; its results are not to be
 * read before. */
static void watch_host(struct ghost *g, struct job *j, const struct hsp_ghost_call *c)
{
    struct hsp_ghost_area *from = hsp_ghost_find(g->areas, c->from.data, (size_t)c->n);
    struct hsp_ghost_area *to = hsp_ghost_find(g->areas, c->to.data, (size_t)c->n);
    if (c->kind != GHOST_COPY || c->n == 0) {
        return;
    }
    if (from == NULL || (from->mem == HSP_MEM_HOST &&
                         !hsp_ghost_pending(from, c->from.data, (size_t)c->n, &g->done, false))) {
        j->hashed = true;
        j->hash = hsp_hash64(c->from.data, (size_t)c->n, 0);
    }
    if (to != NULL && to->mem == HSP_MEM_HOST &&
        !hsp_ghost_pending(to, c->to.data, (size_t)c->n, &g->done, true)) {
        memset(c->to.data, 0x5a, (size_t)c->n);
    }
}

/* ---- giving ---- */

static void *queue_main(void *arg);

/* A queue has a thread from its first work on. */
static void open_queue(struct queue *q)
{
    if (!q->open && (hsp_backend_cpu_open(1, &q->cpu, NULL) != HSP_OK ||
                     pthread_create(&q->thread, NULL, queue_main, q) != 0)) {
        abort(); /* a test that cannot run */
    }
    q->open = true;
}

static void append(struct queue *q, struct job *j)
{
    open_queue(q);
    *q->last = j;
    q->last = &j->next;
    (void)pthread_cond_signal(&q->todo);
}

/* Work is numbered, judged and made ready. Refused work stays in its queue, undone, so that no
 * waiter for its number waits for ever. */
static void judge(struct ghost *g, struct queue *q, struct job *j, const struct hsp_ghost_call *c)
{
    struct hsp_err why = {0};
    watch_host(g, j, c); /* before it is pending itself */
    j->number = ++q->given;
    q->known.done[q->q] = q->given;
    struct hsp_ghost_touch t = {
        .q = q->q, .number = j->number, .known = &q->known, .what = hsp_ghost_name(c)};
    if (!hsp_ghost_visit(g->areas, c, t, &why)) {
        fail(g, &why);
        j->refused = true;
        return;
    }
    hsp_ghost_make_real(g->areas, &j->c);
    j->fails = ++g->work == g->o.fail_at ||
               (g->fail_copy && q->q == HSP_DEVQ_STATE && c->kind == GHOST_COPY);
    g->tally.work++;
    if (g->o.max_delay_us > 0 && draw(g) % 4 == 0) {
        j->delay_us = (uint32_t)(draw(g) % g->o.max_delay_us);
    }
}

/* The lock is held. */
static enum hsp_status give(struct ghost *g, enum hsp_devq at, const struct hsp_ghost_call *c,
                            struct hsp_err *err)
{
    struct queue *q = &g->queue[at];
    struct job *j = calloc(1, sizeof(*j));
    if (failed(g, err) != HSP_OK || j == NULL) {
        free(j);
        return j == NULL ? HSP_ENOMEM : failed(g, err);
    }
    j->c = *c;
    learn(&q->known, caller(g)); /* what follows in the queue comes after this call */
    if (c->kind < GHOST_MARK) {
        g->peers = g->peers || g->o.keeps;
        judge(g, q, j, c);
    }
    append(q, j);
    return j->refused ? failed(g, err) : HSP_OK;
}

static enum hsp_status breach(struct ghost *g, const char *words, struct hsp_err *err)
{
    struct hsp_err e;
    (void)hsp_err_set(&e, HSP_EIO, 0, "ghost: %s", words);
    fail(g, &e);
    return failed(g, err);
}

/* What was given between begin and end is kept, or held against what is known. */
static enum hsp_status keep(struct ghost *g, struct queue *q, const struct hsp_ghost_call *c,
                            struct hsp_err *err)
{
    struct record *r = q->record;
    if (r == NULL) {
        return HSP_OK;
    }
    if (q->comparing) {
        bool same = q->at < r->n && memcmp(&r->call[q->at], c, sizeof(*c)) == 0;
        q->at++;
        return same ? HSP_OK : breach(g, "a replay key stands for other calls than before", err);
    }
    if (r->n == r->cap) {
        size_t cap = r->cap == 0 ? 16 : 2 * r->cap;
        struct hsp_ghost_call *more = realloc(r->call, cap * sizeof(*more));
        if (more == NULL) {
            return hsp_err_set(err, HSP_ENOMEM, 0, "ghost: no memory");
        }
        r->call = more;
        r->cap = cap;
    }
    r->call[r->n++] = *c;
    return HSP_OK;
}

static enum hsp_status give_work(struct hsp_backend *b, enum hsp_devq q,
                                 const struct hsp_ghost_call *c, struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = keep(g, &g->queue[q], c, err);
    if (st == HSP_OK) {
        st = give(g, q, c, err);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status ghost_run(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    struct hsp_ghost_call x;
    hsp_ghost_call_run(&x, c);
    return give_work(b, q, &x, err);
}

static enum hsp_status ghost_run_sum(struct hsp_backend *b, enum hsp_devq q,
                                     const struct hsp_call *c, const struct hsp_sum *s,
                                     bool *ret_done, struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct hsp_ghost_call x;
    enum hsp_status st = hsp_sum_check(c, s, err);
    *ret_done = st == HSP_OK && hsp_ghost_call_sum(&x, c, s);
    (void)pthread_mutex_lock(&g->lock);
    g->tally.sums += *ret_done;
    g->tally.apart += st == HSP_OK && !*ret_done;
    (void)pthread_mutex_unlock(&g->lock);
    return *ret_done ? give_work(b, q, &x, err) : st;
}

static enum hsp_status ghost_accumulate(struct hsp_backend *b, enum hsp_devq q,
                                        enum hsp_dtype dst_type, void *dst, enum hsp_dtype src_type,
                                        const void *src, int64_t n, struct hsp_err *err)
{
    struct hsp_ghost_call x;
    memset(&x, 0, sizeof(x));
    x.kind = GHOST_ACCUMULATE;
    x.to.data = dst;
    x.to.dtype = dst_type;
    x.from.data = (void *)(uintptr_t)src;
    x.from.dtype = src_type;
    x.n = n;
    return give_work(b, q, &x, err);
}

static enum hsp_status ghost_copy(struct hsp_backend *b, enum hsp_devq q, void *dst,
                                  const void *src, size_t bytes, struct hsp_err *err)
{
    struct hsp_ghost_call x;
    memset(&x, 0, sizeof(x));
    x.kind = GHOST_COPY;
    x.to.data = dst;
    x.from.data = (void *)(uintptr_t)src;
    x.n = (int64_t)bytes;
    struct ghost *g = ghost_of(b);
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&g->lock);
    if (g->o.must_pin && q == HSP_DEVQ_STATE && bytes > 0 &&
        (hsp_ghost_find(g->areas, dst, bytes) == NULL ||
         hsp_ghost_find(g->areas, src, bytes) == NULL)) {
        st = breach(g, "a copy of memory that is not pinned", err);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st == HSP_OK ? give_work(b, q, &x, err) : st;
}

static enum hsp_status ghost_fill(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype t,
                                  void *dst, double value, int64_t n, struct hsp_err *err)
{
    struct hsp_ghost_call x;
    memset(&x, 0, sizeof(x));
    x.kind = GHOST_FILL;
    x.to.data = dst;
    x.to.dtype = t;
    x.value = value;
    x.n = n;
    return give_work(b, q, &x, err);
}

static enum hsp_status ghost_cells(struct hsp_backend *b, enum hsp_devq q,
                                   const struct hsp_cell_view *dst, const struct hsp_cell_view *src,
                                   const struct hsp_box *cell, enum hsp_cells how,
                                   struct hsp_err *err)
{
    struct hsp_ghost_call x;
    hsp_ghost_call_cells(&x, dst, src, cell, how);
    return give_work(b, q, &x, err);
}

static enum hsp_status ghost_hash(struct hsp_backend *b, enum hsp_devq q,
                                  const struct hsp_hash_call *c, uint32_t n, uint64_t *ret,
                                  struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        struct hsp_ghost_call x;
        if (c[k].dtype != HSP_F32 && c[k].dtype != HSP_F64) {
            return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "ghost: the hash of %s",
                               hsp_dtype_name(c[k].dtype));
        }
        hsp_ghost_call_hash(&x, &c[k], &ret[k]);
        st = give_work(b, q, &x, err);
    }
    return st;
}

/* ---- work of another library ---- */

void *hsp_ghost_announce(void *native, const void *p, size_t bytes, bool write)
{
    struct queue *q = native;
    struct ghost *g = q->g;
    struct hsp_err why = {0};
    (void)pthread_mutex_lock(&g->lock);
    learn(&q->known, caller(g));
    const struct hsp_ghost_touch t = {.q = q->q,
                                      .number = q->given + 1,
                                      .known = &q->known,
                                      .what = "another library",
                                      .write = write};
    if (!hsp_ghost_visit_bytes(g->areas, p, bytes, &t, &why)) {
        fail(g, &why);
    }
    void *real = hsp_ghost_real(g->areas, p);
    (void)pthread_mutex_unlock(&g->lock);
    return real;
}

void hsp_ghost_submit(void *native, const struct hsp_ghost_work *w)
{
    struct queue *q = native;
    struct ghost *g = q->g;
    struct job *j = calloc(1, sizeof(*j));
    if (j == NULL) {
        abort(); /* a test that cannot run */
    }
    (void)pthread_mutex_lock(&g->lock);
    learn(&q->known, caller(g));
    j->c.kind = GHOST_FOREIGN;
    j->foreign = *w;
    j->number = ++q->given;
    q->known.done[q->q] = q->given;
    g->tally.work++;
    g->tally.foreign++;
    append(q, j);
    (void)pthread_mutex_unlock(&g->lock);
}

/* ---- doing ---- */

static enum hsp_status do_work(struct queue *q, struct job *j, struct hsp_err *err)
{
    struct hsp_ghost_call *c = &j->c;
    if (j->hashed && hsp_hash64(c->from.data, (size_t)c->n, 0) != j->hash) {
        return hsp_err_set(err, HSP_EIO, 0,
                           "ghost: the host changed %" PRId64 " bytes that a copy still reads",
                           c->n);
    }
    return hsp_ghost_do(q->cpu, q->q, c, err);
}

static void do_foreign(const struct hsp_ghost_work *w)
{
    while (!w->ready(w->arg)) {
        (void)usleep(FOREIGN_US);
    }
    w->run(w->arg);
}

/* The lock is held, and given back for the work. */
static void do_job(struct queue *q, struct job *j)
{
    struct ghost *g = q->g;
    struct hsp_err err = {0};
    if (j->c.kind == GHOST_MARK) {
        q->reached = j->c.ticket;
        q->when_ns[q->reached % HSP_MAX_MARKS] = now_ns();
        return;
    }
    if (j->c.kind == GHOST_AWAIT) {
        while (g->queue[j->c.of].reached < j->c.ticket) {
            wait_done(g);
        }
        return;
    }
    bool dead = g->failure.code != HSP_OK || j->refused;
    (void)pthread_mutex_unlock(&g->lock);
    enum hsp_status st = HSP_OK;
    if (j->c.kind == GHOST_FOREIGN) {
        do_foreign(&j->foreign);
    } else if (!dead && j->fails) {
        st = hsp_err_set(&err, HSP_EIO, 0, "ghost: the device failed");
    } else if (!dead) {
        if (j->delay_us > 0) {
            (void)usleep(j->delay_us);
        }
        st = do_work(q, j, &err);
    }
    (void)pthread_mutex_lock(&g->lock);
    if (st != HSP_OK) {
        err.code = st;
        fail(g, &err);
    }
    g->done.done[q->q] = j->number;
}

static void *queue_main(void *arg)
{
    struct queue *q = arg;
    struct ghost *g = q->g;
    (void)pthread_mutex_lock(&g->lock);
    while (!g->quit || q->first != NULL) {
        struct job *j = q->first;
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

/* ---- tickets ---- */

static enum hsp_status ghost_mark(struct hsp_backend *b, enum hsp_devq at, uint64_t *ret_ticket,
                                  struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct queue *q = &g->queue[at];
    struct hsp_ghost_call c;
    memset(&c, 0, sizeof(c));
    c.kind = GHOST_MARK;
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = q->record == NULL ? failed(g, err) : breach(g, "mark in a replay", err);
    while (st == HSP_OK && q->tickets - q->reached >= HSP_MAX_MARKS) {
        wait_done(g);
    }
    if (st == HSP_OK && q->tickets + 1 >= q->mark_cap) {
        size_t cap = q->mark_cap == 0 ? 256 : 2 * q->mark_cap;
        struct hsp_ghost_clock *more = realloc(q->mark, cap * sizeof(*more));
        q->mark = more != NULL ? more : q->mark;
        q->mark_cap = more != NULL ? cap : q->mark_cap;
        st = more != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "ghost: no memory");
    }
    if (st == HSP_OK) {
        c.ticket = q->tickets + 1;
        st = give(g, at, &c, err);
    }
    if (st == HSP_OK) {
        q->mark[++q->tickets] = q->known;
        *ret_ticket = q->tickets;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status ghost_await(struct hsp_backend *b, enum hsp_devq at, enum hsp_devq of,
                                   uint64_t ticket, struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct hsp_ghost_call c;
    memset(&c, 0, sizeof(c));
    c.kind = GHOST_AWAIT;
    c.of = of;
    c.ticket = ticket;
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = HSP_OK;
    if (g->queue[at].record != NULL) {
        st = breach(g, "await in a replay", err);
    } else if (ticket > g->queue[of].tickets) {
        st = breach(g, "a ticket that was not given", err);
    }
    if (st == HSP_OK && ticket > 0) {
        st = give(g, at, &c, err);
    }
    if (st == HSP_OK && ticket > 0) {
        learn(&g->queue[at].known, &g->queue[of].mark[ticket]);
        g->tally.awaits++;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status ghost_finish(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket,
                                    struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct queue *q = &g->queue[of];
    (void)pthread_mutex_lock(&g->lock);
    if (ticket > q->tickets) {
        (void)breach(g, "a ticket that was not given", NULL);
        ticket = 0;
    }
    g->tally.finishes += q->reached < ticket;
    while (q->reached < ticket) {
        wait_done(g);
    }
    if (ticket > 0) {
        learn(caller(g), &q->mark[ticket]);
    }
    enum hsp_status st = failed(g, err);
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static bool ghost_reached(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    bool reached = g->queue[of].reached >= ticket || g->failure.code != HSP_OK;
    if (reached && ticket > 0 && ticket <= g->queue[of].tickets) {
        learn(caller(g), &g->queue[of].mark[ticket]);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return reached;
}

static enum hsp_status ghost_seconds(struct hsp_backend *b, enum hsp_devq of, uint64_t from,
                                     uint64_t to, double *ret, struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct queue *q = &g->queue[of];
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = failed(g, err);
    if (st == HSP_OK && (from == 0 || to < from || q->reached < to)) {
        st = breach(g, "seconds of marks that are not reached", err);
    } else if (st == HSP_OK && q->tickets - from >= HSP_MAX_MARKS) {
        st = HSP_ENOENT;
    }
    if (st == HSP_OK) {
        *ret = (double)(q->when_ns[to % HSP_MAX_MARKS] - q->when_ns[from % HSP_MAX_MARKS]) * 1e-9;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

/* ---- replay ---- */

static struct record *find_record(struct ghost *g, const struct hsp_digest *key)
{
    struct record *r = g->records;
    while (r != NULL && !hsp_digest_equal(r->key, *key)) {
        r = r->next;
    }
    return r;
}

static enum hsp_status ghost_begin(struct hsp_backend *b, enum hsp_devq at,
                                   const struct hsp_digest *key, bool *ret_replayed,
                                   struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct queue *q = &g->queue[at];
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = q->record == NULL ? failed(g, err) : breach(g, "begin in begin", err);
    struct record *r = find_record(g, key);
    *ret_replayed = st == HSP_OK && r != NULL && draw(g) % 2 == 0;
    if (*ret_replayed) {
        for (size_t k = 0; k < r->n && st == HSP_OK; k++) {
            st = give(g, at, &r->call[k], err);
        }
        g->tally.replayed++;
    } else if (st == HSP_OK) {
        q->comparing = r != NULL;
        q->at = 0;
        if (r == NULL) {
            r = calloc(1, sizeof(*r));
            st = r != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "ghost: no memory");
        }
        if (st == HSP_OK && !q->comparing) {
            *r = (struct record){.next = g->records, .key = *key};
            g->records = r;
        }
        g->tally.compared += q->comparing;
        g->tally.recorded += !q->comparing;
        q->record = r;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status ghost_end(struct hsp_backend *b, enum hsp_devq at, struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct queue *q = &g->queue[at];
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = failed(g, err);
    if (q->record == NULL) {
        st = breach(g, "end without begin", err);
    } else if (st == HSP_OK && q->comparing && q->at != q->record->n) {
        st = breach(g, "a replay key stands for other calls than before", err);
    }
    q->record = NULL;
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

/* ---- memory ---- */

static void free_kept(struct ghost *g, struct hsp_ghost_area **at)
{
    struct hsp_ghost_area *a = *at;
    *at = a->next;
    g->tally.memory -= a->mem == HSP_MEM_DEVICE ? a->bytes : 0;
    hsp_ghost_area_free(a);
}

/* The room of a block that was kept may be taken again by one of its size. */
static void free_like(struct ghost *g, enum hsp_mem mem, size_t bytes)
{
    struct hsp_ghost_area **a = &g->kept;
    while (*a != NULL && ((*a)->mem != mem || (*a)->bytes != bytes)) {
        a = &(*a)->next;
    }
    if (*a != NULL) {
        free_kept(g, a);
    }
}

static bool ghost_trim(struct hsp_backend *b)
{
    struct ghost *g = ghost_of(b);
    bool busy = false;
    (void)pthread_mutex_lock(&g->lock);
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        busy = busy || g->queue[q].given > g->done.done[q];
    }
    for (struct hsp_ghost_area **a = &g->areas; !busy && *a != NULL;) {
        struct hsp_ghost_area *x = *a;
        if (x->leaves) {
            *a = x->next;
            g->tally.pinned--;
            hsp_ghost_area_free(x);
        } else {
            a = &x->next;
        }
    }
    while (!busy && g->kept != NULL) {
        free_kept(g, &g->kept);
    }
    g->peers = g->peers && busy;
    (void)pthread_mutex_unlock(&g->lock);
    return !busy;
}

static enum hsp_status ghost_alloc(struct hsp_backend *b, enum hsp_mem mem, size_t bytes,
                                   void **ret, struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    if (bytes == 0) {
        *ret = NULL;
        return HSP_OK;
    }
    (void)pthread_mutex_lock(&g->lock);
    free_like(g, mem, bytes);
    size_t room = g->o.memory > 0 ? g->o.memory - g->tally.memory : SIZE_MAX;
    bool device = mem == HSP_MEM_DEVICE;
    struct hsp_ghost_area *a = device && bytes > room ? NULL : hsp_ghost_area_new(mem, bytes);
    enum hsp_status st = failed(g, err);
    if (a == NULL) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %zu bytes", bytes);
    } else {
        a->next = g->areas;
        g->areas = a;
        g->tally.memory += device ? bytes : 0;
        if (g->tally.memory > g->tally.most_memory) {
            g->tally.most_memory = g->tally.memory;
        }
        *ret = a->at;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static void ghost_release(struct hsp_backend *b, enum hsp_mem mem, void *p)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    struct hsp_ghost_area **a = &g->areas;
    while (p != NULL && *a != NULL && ((*a)->at != p || (*a)->mem != mem)) {
        a = &(*a)->next;
    }
    if (p != NULL && *a == NULL) {
        (void)breach(g, "release of what was not allocated", NULL);
    } else if (p != NULL) {
        struct hsp_ghost_area *x = *a;
        if (hsp_ghost_pending(x, x->at, x->bytes, caller(g), true)) {
            (void)breach(g, "release of memory in use", NULL);
        }
        while (hsp_ghost_pending(x, x->at, x->bytes, &g->done, true)) {
            wait_done(g);
        }
        *a = x->next;
        x->next = g->kept;
        g->kept = x;
        if (!g->peers) {
            free_kept(g, &g->kept);
        }
    }
    (void)pthread_mutex_unlock(&g->lock);
}

static bool touches(const struct hsp_ghost_area *a, const void *p, size_t bytes)
{
    uintptr_t x = (uintptr_t)p, from = (uintptr_t)a->at;
    return x < from + a->bytes && from < x + bytes;
}

/* Memory of the caller, from now on judged as our own of the host. */
static enum hsp_status ghost_pin(struct hsp_backend *b, void *p, size_t bytes, struct hsp_err *err)
{
    struct ghost *g = ghost_of(b);
    struct hsp_ghost_area *a = NULL;
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = failed(g, err);
    for (struct hsp_ghost_area *o = g->areas; st == HSP_OK && o != NULL; o = o->next) {
        st = touches(o, p, bytes) ? breach(g, "memory is pinned twice", err) : HSP_OK;
    }
    if (st == HSP_OK && (p == NULL || bytes == 0)) {
        st = breach(g, "pin of nothing", err);
    } else if (st == HSP_OK && g->o.no_pin) {
        st = hsp_err_set(err, HSP_EUNSUPPORTED, 0, "ghost: cannot pin %zu bytes", bytes);
    }
    if (st == HSP_OK && (a = hsp_ghost_area_of(p, bytes)) == NULL) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory to pin %zu bytes", bytes);
    }
    if (st == HSP_OK) {
        a->next = g->areas;
        g->areas = a;
        g->tally.pinned++;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static bool ghost_unpin(struct hsp_backend *b, void *p)
{
    struct ghost *g = ghost_of(b);
    void *page = (void *)((uintptr_t)p & ~(uintptr_t)4095);
    unsigned char there;
    (void)pthread_mutex_lock(&g->lock);
    if (mincore(page, 1, &there) != 0) {
        (void)breach(g, "unpin of memory that is mapped no more", NULL);
    }
    struct hsp_ghost_area *a = g->areas;
    while (a != NULL && (a->at != p || a->mem != HSP_MEM_HOST)) {
        a = a->next;
    }
    bool goes = a != NULL && !g->peers;
    g->tally.pinned -= goes;
    if (a != NULL && g->peers) {
        a->leaves = true;
    }
    (void)pthread_mutex_unlock(&g->lock);
    if (goes) {
        ghost_release(b, HSP_MEM_HOST, p);
    }
    return goes || a == NULL; /* a trim may have been faster */
}

/* ---- life ---- */

static void *ghost_native(struct hsp_backend *b, enum hsp_devq q)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    g->peers = true;
    (void)pthread_mutex_unlock(&g->lock);
    return &g->queue[q];
}

static void ghost_close(struct hsp_backend *b)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    g->quit = true;
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        (void)pthread_cond_signal(&g->queue[q].todo);
    }
    (void)pthread_mutex_unlock(&g->lock);
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        if (g->queue[q].open) {
            (void)pthread_join(g->queue[q].thread, NULL);
            g->queue[q].cpu->close(g->queue[q].cpu);
        }
        free(g->queue[q].mark);
        (void)pthread_cond_destroy(&g->queue[q].todo);
    }
    while (g->areas != NULL) {
        struct hsp_ghost_area *a = g->areas;
        g->areas = a->next;
        hsp_ghost_area_free(a);
    }
    while (g->kept != NULL) {
        free_kept(g, &g->kept);
    }
    while (g->records != NULL) {
        struct record *r = g->records;
        g->records = r->next;
        free(r->call);
        free(r);
    }
    (void)pthread_cond_destroy(&g->cond);
    (void)pthread_mutex_destroy(&g->lock);
    free(g);
}

#define HSP_GHOST_MANY                                                                        \
    (UINT64_C(1) << HSP_OP_ADAMW | UINT64_C(1) << HSP_OP_SGDM | UINT64_C(1) << HSP_OP_SQSUM | \
     UINT64_C(1) << HSP_OP_NARROW)

static const struct hsp_backend vtable = {.name = "ghost",
                                          .device = true,
                                          .alloc = ghost_alloc,
                                          .release = ghost_release,
                                          .pin = ghost_pin,
                                          .unpin = ghost_unpin,
                                          .trim = ghost_trim,
                                          .run = ghost_run,
                                          .adds = UINT64_MAX,
                                          .many = HSP_GHOST_MANY,
                                          .run_many = hsp_ghost_run_many,
                                          .run_chain = hsp_ghost_run_chain,
                                          .accumulate = ghost_accumulate,
                                          .copy = ghost_copy,
                                          .fill = ghost_fill,
                                          .cells = ghost_cells,
                                          .hash = ghost_hash,
                                          .mark = ghost_mark,
                                          .await = ghost_await,
                                          .finish = ghost_finish,
                                          .reached = ghost_reached,
                                          .seconds = ghost_seconds,
                                          .native = ghost_native,
                                          .close = ghost_close};

enum hsp_status hsp_ghost_open(const struct hsp_ghost_opts *o, struct hsp_backend **ret,
                               struct hsp_err *err)
{
    struct ghost *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "ghost: no memory");
    }
    g->base = vtable;
    g->o = *o;
    if (o->replay) {
        g->base.begin = ghost_begin;
        g->base.end = ghost_end;
    }
    g->base.run_sum = o->sums ? ghost_run_sum : NULL;
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_cond_init(&g->cond, NULL);
    for (int k = 0; k < HSP_N_DEVQ; k++) {
        struct queue *q = &g->queue[k];
        q->g = g;
        q->q = (enum hsp_devq)k;
        q->last = &q->first;
        (void)pthread_cond_init(&q->todo, NULL);
    }
    *ret = &g->base;
    return HSP_OK;
}

uint8_t *hsp_ghost_byte(struct hsp_backend *b, const void *p)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    uint8_t *real = hsp_ghost_real(g->areas, p);
    (void)pthread_mutex_unlock(&g->lock);
    return real;
}

void hsp_ghost_fail_copy(struct hsp_backend *b)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    g->fail_copy = true;
    (void)pthread_mutex_unlock(&g->lock);
}

struct hsp_ghost_tally hsp_ghost_tally(struct hsp_backend *b)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    struct hsp_ghost_tally t = g->tally;
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        t.pending += g->queue[q].given - g->done.done[q];
    }
    (void)pthread_mutex_unlock(&g->lock);
    return t;
}

bool hsp_ghost_forgive(struct hsp_backend *b, struct hsp_err *ret)
{
    struct ghost *g = ghost_of(b);
    (void)pthread_mutex_lock(&g->lock);
    bool was = failed(g, ret) != HSP_OK;
    g->failure = (struct hsp_err){0};
    (void)pthread_mutex_unlock(&g->lock);
    return was;
}
