#include <stdlib.h>
#include <string.h>

#include "tests/lib/mockdevmemory.h"
#include "tests/lib/mockdevqueue.h"
#include "worker/backend/call_check.h"

/* ---- calls ---- */

/* Keeps the calls between begin and end, or compares them with the kept ones. */
static enum hsp_status keep(struct hsp_mockdev *g, struct hsp_mockdev_queue *q,
                            const struct hsp_mockdev_call *c, struct hsp_err *err)
{
    struct hsp_mockdev_record *r = q->record;
    if (r == NULL) {
        return HSP_OK;
    }
    if (q->comparing) {
        bool same = q->at < r->n && memcmp(&r->call[q->at], c, sizeof(*c)) == 0;
        q->at++;
        return same ? HSP_OK
                    : hsp_mockdev_breach(g, "a replay key stands for other calls than before", err);
    }
    if (r->n == r->cap) {
        size_t cap = r->cap == 0 ? 16 : 2 * r->cap;
        struct hsp_mockdev_call *more = realloc(r->call, cap * sizeof(*more));
        if (more == NULL) {
            return hsp_err_set(err, HSP_ENOMEM, 0, "mockdev: no memory");
        }
        r->call = more;
        r->cap = cap;
    }
    r->call[r->n++] = *c;
    return HSP_OK;
}

static enum hsp_status give_work(struct hsp_backend *b, enum hsp_devq q,
                                 const struct hsp_mockdev_call *c, struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = keep(g, &g->queue[q], c, err);
    if (st == HSP_OK) {
        st = hsp_mockdev_give(g, q, c, err);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status mockdev_run(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    struct hsp_mockdev_call x;
    hsp_mockdev_call_run(&x, c);
    return give_work(b, q, &x, err);
}

static enum hsp_status mockdev_run_sum(struct hsp_backend *b, enum hsp_devq q,
                                       const struct hsp_call *c, const struct hsp_sum *s,
                                       bool *ret_done, struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_call x;
    enum hsp_status st = hsp_sum_check(c, s, err);
    *ret_done = st == HSP_OK && hsp_mockdev_call_sum(&x, c, s);
    (void)pthread_mutex_lock(&g->lock);
    g->tally.sums += *ret_done;
    g->tally.apart += st == HSP_OK && !*ret_done;
    (void)pthread_mutex_unlock(&g->lock);
    return *ret_done ? give_work(b, q, &x, err) : st;
}

static enum hsp_status mockdev_accumulate(struct hsp_backend *b, enum hsp_devq q,
                                          enum hsp_dtype dst_type, void *dst,
                                          enum hsp_dtype src_type, const void *src, int64_t n,
                                          struct hsp_err *err)
{
    struct hsp_mockdev_call x;
    memset(&x, 0, sizeof(x));
    x.kind = MOCKDEV_ACCUMULATE;
    x.to.data = dst;
    x.to.dtype = dst_type;
    x.from.data = (void *)(uintptr_t)src;
    x.from.dtype = src_type;
    x.n = n;
    return give_work(b, q, &x, err);
}

static enum hsp_status mockdev_copy(struct hsp_backend *b, enum hsp_devq q, void *dst,
                                    const void *src, size_t bytes, struct hsp_err *err)
{
    struct hsp_mockdev_call x;
    memset(&x, 0, sizeof(x));
    x.kind = MOCKDEV_COPY;
    x.to.data = dst;
    x.from.data = (void *)(uintptr_t)src;
    x.n = (int64_t)bytes;
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&g->lock);
    if (g->o.must_pin && q == HSP_DEVQ_STATE && bytes > 0 &&
        (hsp_mockdev_find(g->areas, dst, bytes) == NULL ||
         hsp_mockdev_find(g->areas, src, bytes) == NULL)) {
        st = hsp_mockdev_breach(g, "a copy of memory that is not pinned", err);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st == HSP_OK ? give_work(b, q, &x, err) : st;
}

static enum hsp_status mockdev_fill(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype t,
                                    void *dst, double value, int64_t n, struct hsp_err *err)
{
    struct hsp_mockdev_call x;
    memset(&x, 0, sizeof(x));
    x.kind = MOCKDEV_FILL;
    x.to.data = dst;
    x.to.dtype = t;
    x.value = value;
    x.n = n;
    return give_work(b, q, &x, err);
}

static enum hsp_status mockdev_cells(struct hsp_backend *b, enum hsp_devq q,
                                     const struct hsp_cell_view *dst,
                                     const struct hsp_cell_view *src, const struct hsp_box *cell,
                                     enum hsp_cells how, struct hsp_err *err)
{
    struct hsp_mockdev_call x;
    hsp_mockdev_call_cells(&x, dst, src, cell, how);
    return give_work(b, q, &x, err);
}

static enum hsp_status mockdev_hash(struct hsp_backend *b, enum hsp_devq q,
                                    const struct hsp_hash_call *c, uint32_t n, uint64_t *ret,
                                    struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        struct hsp_mockdev_call x;
        if (c[k].dtype != HSP_F32 && c[k].dtype != HSP_F64) {
            return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "mockdev: the hash of %s",
                               hsp_dtype_name(c[k].dtype));
        }
        hsp_mockdev_call_hash(&x, &c[k], &ret[k]);
        st = give_work(b, q, &x, err);
    }
    return st;
}

/* ---- work of another library ---- */

void *hsp_mockdev_announce(void *native, const void *p, size_t bytes, bool write)
{
    struct hsp_mockdev_queue *q = native;
    struct hsp_mockdev *g = q->g;
    struct hsp_err why = {0};
    (void)pthread_mutex_lock(&g->lock);
    hsp_mockdev_learn(&q->known, hsp_mockdev_caller(g));
    const struct hsp_mockdev_touch t = {.q = q->q,
                                        .number = q->given + 1,
                                        .known = &q->known,
                                        .what = "another library",
                                        .write = write};
    if (!hsp_mockdev_visit_bytes(g->areas, p, bytes, &t, &why)) {
        hsp_mockdev_fail(g, &why);
    }
    void *real = hsp_mockdev_real(g->areas, p);
    (void)pthread_mutex_unlock(&g->lock);
    return real;
}

void hsp_mockdev_submit(void *native, const struct hsp_mockdev_work *w)
{
    struct hsp_mockdev_queue *q = native;
    struct hsp_mockdev *g = q->g;
    struct hsp_mockdev_job *j = calloc(1, sizeof(*j));
    if (j == NULL) {
        abort(); /* a test that cannot run */
    }
    (void)pthread_mutex_lock(&g->lock);
    hsp_mockdev_learn(&q->known, hsp_mockdev_caller(g));
    j->c.kind = MOCKDEV_FOREIGN;
    j->foreign = *w;
    j->number = ++q->given;
    q->known.done[q->q] = q->given;
    g->tally.work++;
    g->tally.foreign++;
    hsp_mockdev_append(q, j);
    (void)pthread_mutex_unlock(&g->lock);
}

/* ---- tickets ---- */

static enum hsp_status mockdev_mark(struct hsp_backend *b, enum hsp_devq at, uint64_t *ret_ticket,
                                    struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_queue *q = &g->queue[at];
    struct hsp_mockdev_call c;
    memset(&c, 0, sizeof(c));
    c.kind = MOCKDEV_MARK;
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = q->record == NULL ? hsp_mockdev_failed(g, err)
                                           : hsp_mockdev_breach(g, "mark in a replay", err);
    while (st == HSP_OK && q->tickets - q->reached >= HSP_MAX_MARKS) {
        hsp_mockdev_wait_done(g);
    }
    if (st == HSP_OK && q->tickets + 1 >= q->mark_cap) {
        size_t cap = q->mark_cap == 0 ? 256 : 2 * q->mark_cap;
        struct hsp_mockdev_clock *more = realloc(q->mark, cap * sizeof(*more));
        q->mark = more != NULL ? more : q->mark;
        q->mark_cap = more != NULL ? cap : q->mark_cap;
        st = more != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "mockdev: no memory");
    }
    if (st == HSP_OK) {
        c.ticket = q->tickets + 1;
        st = hsp_mockdev_give(g, at, &c, err);
    }
    if (st == HSP_OK) {
        q->mark[++q->tickets] = q->known;
        *ret_ticket = q->tickets;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status mockdev_await(struct hsp_backend *b, enum hsp_devq at, enum hsp_devq of,
                                     uint64_t ticket, struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_call c;
    memset(&c, 0, sizeof(c));
    c.kind = MOCKDEV_AWAIT;
    c.of = of;
    c.ticket = ticket;
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = HSP_OK;
    if (g->queue[at].record != NULL) {
        st = hsp_mockdev_breach(g, "await in a replay", err);
    } else if (ticket > g->queue[of].tickets) {
        st = hsp_mockdev_breach(g, "a ticket that was not given", err);
    }
    if (st == HSP_OK && ticket > 0) {
        st = hsp_mockdev_give(g, at, &c, err);
    }
    if (st == HSP_OK && ticket > 0) {
        hsp_mockdev_learn(&g->queue[at].known, &g->queue[of].mark[ticket]);
        g->tally.awaits++;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status mockdev_finish(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket,
                                      struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_queue *q = &g->queue[of];
    (void)pthread_mutex_lock(&g->lock);
    if (ticket > q->tickets) {
        (void)hsp_mockdev_breach(g, "a ticket that was not given", NULL);
        ticket = 0;
    }
    g->tally.finishes += q->reached < ticket;
    while (q->reached < ticket) {
        hsp_mockdev_wait_done(g);
    }
    if (ticket > 0) {
        hsp_mockdev_learn(hsp_mockdev_caller(g), &q->mark[ticket]);
    }
    enum hsp_status st = hsp_mockdev_failed(g, err);
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static bool mockdev_reached(struct hsp_backend *b, enum hsp_devq of, uint64_t ticket)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    bool reached = g->queue[of].reached >= ticket || g->failure.code != HSP_OK;
    if (reached && ticket > 0 && ticket <= g->queue[of].tickets) {
        hsp_mockdev_learn(hsp_mockdev_caller(g), &g->queue[of].mark[ticket]);
    }
    (void)pthread_mutex_unlock(&g->lock);
    return reached;
}

static enum hsp_status mockdev_seconds(struct hsp_backend *b, enum hsp_devq of, uint64_t from,
                                       uint64_t to, double *ret, struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_queue *q = &g->queue[of];
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = hsp_mockdev_failed(g, err);
    if (st == HSP_OK && (from == 0 || to < from || q->reached < to)) {
        st = hsp_mockdev_breach(g, "seconds of marks that are not reached", err);
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

static struct hsp_mockdev_record *find_record(struct hsp_mockdev *g, const struct hsp_digest *key)
{
    struct hsp_mockdev_record *r = g->records;
    while (r != NULL && !hsp_digest_equal(r->key, *key)) {
        r = r->next;
    }
    return r;
}

static enum hsp_status mockdev_begin(struct hsp_backend *b, enum hsp_devq at,
                                     const struct hsp_digest *key, bool *ret_replayed,
                                     struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_queue *q = &g->queue[at];
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = q->record == NULL ? hsp_mockdev_failed(g, err)
                                           : hsp_mockdev_breach(g, "begin in begin", err);
    struct hsp_mockdev_record *r = find_record(g, key);
    *ret_replayed = st == HSP_OK && r != NULL && hsp_mockdev_draw(g) % 2 == 0;
    if (*ret_replayed) {
        for (size_t k = 0; k < r->n && st == HSP_OK; k++) {
            st = hsp_mockdev_give(g, at, &r->call[k], err);
        }
        g->tally.replayed++;
    } else if (st == HSP_OK) {
        q->comparing = r != NULL;
        q->at = 0;
        if (r == NULL) {
            r = calloc(1, sizeof(*r));
            st = r != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "mockdev: no memory");
        }
        if (st == HSP_OK && !q->comparing) {
            *r = (struct hsp_mockdev_record){.next = g->records, .key = *key};
            g->records = r;
        }
        g->tally.compared += q->comparing;
        g->tally.recorded += !q->comparing;
        q->record = r;
    }
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

static enum hsp_status mockdev_end(struct hsp_backend *b, enum hsp_devq at, struct hsp_err *err)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    struct hsp_mockdev_queue *q = &g->queue[at];
    (void)pthread_mutex_lock(&g->lock);
    enum hsp_status st = hsp_mockdev_failed(g, err);
    if (q->record == NULL) {
        st = hsp_mockdev_breach(g, "end without begin", err);
    } else if (st == HSP_OK && q->comparing && q->at != q->record->n) {
        st = hsp_mockdev_breach(g, "a replay key stands for other calls than before", err);
    }
    q->record = NULL;
    (void)pthread_mutex_unlock(&g->lock);
    return st;
}

/* ---- life ---- */

static void *mockdev_native(struct hsp_backend *b, enum hsp_devq q)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    g->peers = true;
    (void)pthread_mutex_unlock(&g->lock);
    return &g->queue[q];
}

static void mockdev_close(struct hsp_backend *b)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
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
    hsp_mockdev_memory_fini(g);
    while (g->records != NULL) {
        struct hsp_mockdev_record *r = g->records;
        g->records = r->next;
        free(r->call);
        free(r);
    }
    (void)pthread_cond_destroy(&g->cond);
    (void)pthread_mutex_destroy(&g->lock);
    free(g);
}

#define HSP_MOCKDEV_MANY                                                                      \
    (UINT64_C(1) << HSP_OP_ADAMW | UINT64_C(1) << HSP_OP_SGDM | UINT64_C(1) << HSP_OP_SQSUM | \
     UINT64_C(1) << HSP_OP_NARROW)

static const struct hsp_backend vtable = {.name = "mockdev",
                                          .device = true,
                                          .alloc = hsp_mockdev_alloc,
                                          .release = hsp_mockdev_release,
                                          .pin = hsp_mockdev_pin,
                                          .unpin = hsp_mockdev_unpin,
                                          .trim = hsp_mockdev_trim,
                                          .run = mockdev_run,
                                          .adds = UINT64_MAX,
                                          .many = HSP_MOCKDEV_MANY,
                                          .run_many = hsp_mockdev_run_many,
                                          .run_chain = hsp_mockdev_run_chain,
                                          .accumulate = mockdev_accumulate,
                                          .copy = mockdev_copy,
                                          .fill = mockdev_fill,
                                          .cells = mockdev_cells,
                                          .hash = mockdev_hash,
                                          .mark = mockdev_mark,
                                          .await = mockdev_await,
                                          .finish = mockdev_finish,
                                          .reached = mockdev_reached,
                                          .seconds = mockdev_seconds,
                                          .native = mockdev_native,
                                          .close = mockdev_close};

enum hsp_status hsp_mockdev_open(const struct hsp_mockdev_opts *o, struct hsp_backend **ret,
                                 struct hsp_err *err)
{
    struct hsp_mockdev *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "mockdev: no memory");
    }
    g->base = vtable;
    g->o = *o;
    if (o->replay) {
        g->base.begin = mockdev_begin;
        g->base.end = mockdev_end;
    }
    g->base.run_sum = o->sums ? mockdev_run_sum : NULL;
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_cond_init(&g->cond, NULL);
    for (int k = 0; k < HSP_N_DEVQ; k++) {
        struct hsp_mockdev_queue *q = &g->queue[k];
        q->g = g;
        q->q = (enum hsp_devq)k;
        q->last = &q->first;
        (void)pthread_cond_init(&q->todo, NULL);
    }
    *ret = &g->base;
    return HSP_OK;
}

uint8_t *hsp_mockdev_byte(struct hsp_backend *b, const void *p)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    uint8_t *real = hsp_mockdev_real(g->areas, p);
    (void)pthread_mutex_unlock(&g->lock);
    return real;
}

void hsp_mockdev_fail_copy(struct hsp_backend *b)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    g->fail_copy = true;
    (void)pthread_mutex_unlock(&g->lock);
}

struct hsp_mockdev_tally hsp_mockdev_tally(struct hsp_backend *b)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    struct hsp_mockdev_tally t = g->tally;
    for (int q = 0; q < HSP_N_DEVQ; q++) {
        t.pending += g->queue[q].given - g->done.done[q];
    }
    (void)pthread_mutex_unlock(&g->lock);
    return t;
}

bool hsp_mockdev_forgive(struct hsp_backend *b, struct hsp_err *ret)
{
    struct hsp_mockdev *g = hsp_mockdev_of(b);
    (void)pthread_mutex_lock(&g->lock);
    bool was = hsp_mockdev_failed(g, ret) != HSP_OK;
    g->failure = (struct hsp_err){0};
    (void)pthread_mutex_unlock(&g->lock);
    return was;
}
