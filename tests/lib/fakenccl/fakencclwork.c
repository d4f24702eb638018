/* Does operations when their members have met. */
#include <stdlib.h>
#include <string.h>

#include "proto/op/bf16.h"
#include "tests/lib/fakenccl/fakencclint.h"

static void *need(void *p)
{
    if (p == NULL) {
        abort();
    }
    return p;
}

static size_t size_of(enum nccl_type t)
{
    return t == NCCL_FLOAT64 ? 8 : t == NCCL_FLOAT32 ? 4 : t == NCCL_BFLOAT16 ? 2 : 1;
}

/* ---- meeting ---- */

static struct meet *meet_of(struct clique *q, uint64_t number, int from, int to)
{
    for (struct meet *m = q->meets; m != NULL; m = m->next) {
        if (m->number == number && m->from == from && m->to == to) {
            return m;
        }
    }
    struct meet *m = need(calloc(1, sizeof *m));
    *m = (struct meet){.next = q->meets, .number = number, .from = from, .to = to};
    m->of = need(calloc((size_t)q->n, sizeof(struct op *)));
    m->n_awaited = from < 0 ? q->n : 2;
    q->meets = m;
    return m;
}

static void disagree(const struct nccl_comm *c, const struct op *a, const struct op *b)
{
    bool p2p = a->kind == OP_SEND || a->kind == OP_RECV;
    if (p2p ? a->n != b->n || a->type != b->type
            : a->kind != b->kind || a->n != b->n || a->type != b->type || a->op != b->op ||
                  a->root != b->root) {
        fake_misuse(
            "member %d of %d disagrees: operation %d of %zu elements, another has %d of %zu", c->me,
            c->q->n, (int)a->kind, a->n, (int)b->kind, b->n);
    }
}

static void arrive(struct nccl_comm *c, struct op *o)
{
    bool send = o->kind == OP_SEND, recv = o->kind == OP_RECV;
    int from = send ? c->me : recv ? o->root : -1, to = send ? o->root : recv ? c->me : -1;
    uint64_t number = send   ? c->n_sent[o->root]++
                      : recv ? c->n_taken[o->root]++
                             : c->n_collective++;
    o->meet = meet_of(c->q, number, from, to);
    for (int k = 0; k < c->q->n; k++) {
        if (o->meet->of[k] != NULL) {
            disagree(c, o, o->meet->of[k]);
            break;
        }
    }
    o->meet->of[c->me] = o;
    o->meet->n_here++;
    (void)pthread_cond_broadcast(&fake.cond);
}

bool fake_connected(const struct nccl_comm *c)
{
    for (int k = 0; k < c->q->n; k++) {
        const struct nccl_comm *peer = c->q->member[k];
        bool sent = c->asked[2 * k], took = c->asked[2 * k + 1];
        if ((sent && (peer == NULL || !peer->asked[2 * c->me + 1])) ||
            (took && (peer == NULL || !peer->asked[2 * c->me])) ||
            (c->collects && (peer == NULL || !peer->collects))) {
            return false;
        }
    }
    return true;
}

bool fake_ready(struct kernel *k)
{
    if (k->number > k->c->n_done) {
        return false; /* a communicator does one thing at a time, on any streams */
    }
    if (!k->here) {
        k->here = true;
        for (struct op *o = k->ops; o != NULL; o = o->next) {
            if (!k->c->aborted) {
                arrive(k->c, o);
            }
        }
    }
    bool all = true;
    for (struct op *o = k->ops; o != NULL; o = o->next) {
        all = all && o->meet != NULL && o->meet->n_here == o->meet->n_awaited;
    }
    return all || k->c->aborted;
}

/* ---- effects ---- */

static double get(enum nccl_type t, const void *p, size_t i)
{
    return t == NCCL_FLOAT64   ? ((const double *)p)[i]
           : t == NCCL_FLOAT32 ? (double)((const float *)p)[i]
                               : (double)hsp_bf16_float(((const uint16_t *)p)[i]);
}

static void put(enum nccl_type t, void *p, size_t i, double v)
{
    switch (t) {
    case NCCL_FLOAT64: ((double *)p)[i] = v; break;
    case NCCL_FLOAT32: ((float *)p)[i] = (float)v; break;
    case NCCL_BFLOAT16: ((uint16_t *)p)[i] = hsp_bf16_of((float)v); break;
    case NCCL_INT8: abort(); /* nobody sums bytes */
    }
}

/* The sums of all members' elements from @first on, in ascending order, of fp32 and bf16 in
 * fp32. */
static void *sums(const struct meet *m, int n, size_t first, size_t count)
{
    const struct op *o = m->of[0];
    uint8_t *s = need(malloc(count * size_of(o->type) + 1));
    for (size_t i = 0; i < count; i++) {
        double sum = get(o->type, o->in, first + i);
        for (int k = 1; k < n; k++) {
            sum += get(o->type, m->of[k]->in, first + i);
            sum = o->type == NCCL_FLOAT64 ? sum : (double)(float)sum;
        }
        put(o->type, s, i, sum);
    }
    return s;
}

static void gather(const struct meet *m, int n)
{
    size_t bytes = m->of[0]->n * size_of(m->of[0]->type);
    uint8_t *all = need(malloc((size_t)n * bytes + 1));
    for (int k = 0; k < n; k++) {
        memcpy(all + (size_t)k * bytes, m->of[k]->in, bytes);
    }
    for (int k = 0; k < n; k++) {
        memcpy(m->of[k]->out, all, (size_t)n * bytes);
    }
    free(all);
}

static void scatter(const struct meet *m, int n)
{
    size_t count = m->of[0]->n, bytes = count * size_of(m->of[0]->type);
    uint8_t *all = sums(m, n, 0, (size_t)n * count);
    for (int k = 0; k < n; k++) {
        memcpy(m->of[k]->out, all + (size_t)k * bytes, bytes);
    }
    free(all);
}

static void effect(struct meet *m, int n)
{
    if (m->from >= 0) {
        const struct op *s = m->of[m->from], *r = m->of[m->to];
        memcpy(r->out, s->in, (s->n < r->n ? s->n : r->n) * size_of(s->type));
        return;
    }
    const struct op *o = m->of[0];
    size_t bytes = o->n * size_of(o->type);
    uint8_t *s = NULL;
    switch (o->kind) {
    case OP_ALL_REDUCE:
        s = sums(m, n, 0, o->n);
        for (int k = 0; k < n; k++) {
            memcpy(m->of[k]->out, s, bytes);
        }
        break;
    case OP_REDUCE:
        s = sums(m, n, 0, o->n);
        memcpy(m->of[o->root]->out, s, bytes);
        break;
    case OP_REDUCE_SCATTER: scatter(m, n); break;
    case OP_ALL_GATHER: gather(m, n); break;
    case OP_BROADCAST:
        for (int k = 0; k < n; k++) {
            memmove(m->of[k]->out, m->of[o->root]->in, bytes);
        }
        break;
    case OP_SEND:
    case OP_RECV: break;
    }
    free(s);
}

static void leave(struct clique *q, struct meet *m)
{
    if (++m->n_left < m->n_awaited) {
        return;
    }
    struct meet **at = &q->meets;
    while (*at != m) {
        at = &(*at)->next;
    }
    *at = m->next;
    free(m->of);
    free(m);
}

/* Bytes the member itself reads and writes of an operation, 0: nothing. */
static size_t reads(const struct nccl_comm *c, const struct op *o)
{
    size_t bytes = o->n * size_of(o->type);
    bool source = o->kind != OP_BROADCAST || o->root == c->me;
    return o->in == NULL || !source       ? 0
           : o->kind == OP_REDUCE_SCATTER ? (size_t)c->q->n * bytes
                                          : bytes;
}

static size_t writes(const struct nccl_comm *c, const struct op *o)
{
    size_t bytes = o->n * size_of(o->type);
    bool target = o->kind != OP_REDUCE || o->root == c->me;
    return o->out == NULL || !target  ? 0
           : o->kind == OP_ALL_GATHER ? (size_t)c->q->n * bytes
                                      : bytes;
}

static void touch(const struct kernel *k, const struct op *o)
{
    const struct nccl_comm *c = k->c;
    if (fake.touch == NULL) {
        return;
    }
    if (reads(c, o) > 0) {
        fake.touch(o->in, reads(c, o), false);
    }
    if (writes(c, o) > 0) {
        fake.touch(o->out, writes(c, o), true);
    }
}

/* The lock is not held. */
static void announce(struct kernel *k)
{
    for (struct op *o = k->ops; fake.announce != NULL && o != NULL; o = o->next) {
        size_t in = reads(k->c, o), out = writes(k->c, o);
        const void *from = in > 0 ? fake.announce(k->stream, o->in, in, false) : o->in;
        o->out = out > 0 ? fake.announce(k->stream, o->out, out, true) : o->out;
        o->in = from;
    }
}

void fake_run(struct kernel *k)
{
    struct nccl_comm *c = k->c;
    while (k->ops != NULL) {
        struct op *o = k->ops;
        k->ops = o->next;
        if (o->meet != NULL && o->meet->n_here == o->meet->n_awaited) {
            touch(k, o);
            if (!o->meet->done) {
                effect(o->meet, c->q->n);
                o->meet->done = true;
            }
            leave(c->q, o->meet);
        } else if (o->meet != NULL) { /* aborted: it stays away for good */
            o->meet->of[c->me] = NULL;
            o->meet->n_here = -1 - c->q->n;
        }
        free(o);
    }
    c->n_done++;
    fake_stream(k->stream)->done++;
    free(k);
    (void)pthread_cond_broadcast(&fake.cond);
}

/* ---- streams ---- */

static void *stream_main(void *arg)
{
    struct nccl_comm *c = arg;
    (void)pthread_mutex_lock(&fake.lock);
    while (!c->gone || c->first != NULL) {
        struct kernel *k = c->first;
        if (k != NULL && fake_ready(k)) {
            c->first = k->next;
            c->last = c->first == NULL ? &c->first : c->last;
            fake_run(k);
        } else {
            (void)pthread_cond_wait(&fake.cond, &fake.lock);
        }
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return NULL;
}

struct stream *fake_stream(const void *id)
{
    unsigned k = 0;
    while (k < fake.n_streams && fake.stream[k].id != id) {
        k++;
    }
    if (k == fake.n_streams) {
        need(k < FAKE_STREAMS ? &fake : NULL);
        fake.stream[fake.n_streams++] = (struct stream){.id = id};
    }
    return &fake.stream[k];
}

static bool work_ready(void *arg)
{
    (void)pthread_mutex_lock(&fake.lock);
    bool ready = fake_ready(arg);
    (void)pthread_mutex_unlock(&fake.lock);
    return ready;
}

static void work_run(void *arg)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake_run(arg);
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_give(struct kernel *k, void *stream)
{
    struct nccl_comm *c = k->c;
    k->number = c->n_given++;
    c->polls = (int)fake_draw(3);
    for (const struct op *o = k->ops; o != NULL; o = o->next) {
        if (o->kind == OP_SEND || o->kind == OP_RECV) {
            c->asked[2 * o->root + (o->kind == OP_RECV)] = true;
        } else {
            c->collects = true;
        }
    }
    c->waits = stream == NULL;
    k->stream = stream;
    fake_stream(stream)->given++;
    if (stream != NULL && fake.submit != NULL) {
        const struct hsp_fakenccl_work w = {work_ready, work_run, k};
        (void)pthread_mutex_unlock(&fake.lock);
        announce(k);
        fake.submit(stream, &w);
        (void)pthread_mutex_lock(&fake.lock);
        return;
    }
    if (!c->has_thread) {
        c->has_thread = pthread_create(&c->thread, NULL, stream_main, c) == 0;
        need(c->has_thread ? c : NULL);
    }
    *c->last = k;
    c->last = &k->next;
    (void)pthread_cond_broadcast(&fake.cond);
}

void fake_mark(struct nccl_comm *c)
{
    c->aborted = true;
    fake_partings_leave(c);
    (void)pthread_cond_broadcast(&fake.cond);
}

void fake_withdraw(struct nccl_comm *c)
{
    fake_mark(c);
    while (c->n_done < c->n_given && fake.submit == NULL) { /* its kernels see the flag and end */
        (void)pthread_cond_wait(&fake.cond, &fake.lock);
    }
}

void fake_meets_free(struct clique *q)
{
    while (q->meets != NULL) {
        struct meet *m = q->meets;
        q->meets = m->next;
        free(m->of);
        free(m);
    }
}
