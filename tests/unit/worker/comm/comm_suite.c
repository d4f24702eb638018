#include "tests/unit/worker/comm/comm_suite.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "proto/base/rng.h"
#include "proto/op/bf16.h"
#include "worker/comm/collective.h"
#include "worker/comm/reduce.h"

#define MAX_RANKS 8

static const struct suite_transport *transport;

/* Returns true if the transport under test does not give the guarantee @what of comm.h. */
static bool lacks(unsigned what)
{
    return (transport->lacks & what) != 0;
}

/* ---- ranks as threads ---- */

struct world {
    uint32_t n;
    struct hsp_comm *comm[MAX_RANKS];
    atomic_uint reached; /* free use by a test */
    void *arg;
    atomic_int n_failed;
    char first[200]; /* message of the first failed expectation */
};
typedef void (*rank_fn)(struct world *w, uint32_t rank);
struct start {
    struct world *w;
    uint32_t rank;
    rank_fn fn;
};

#define EXPECT(w, x)                                                                               \
    do {                                                                                           \
        if (!(x) && atomic_fetch_add(&(w)->n_failed, 1) == 0) {                                    \
            (void)snprintf((w)->first, sizeof(w)->first, "%s:%d: rank %u: %s", __FILE__, __LINE__, \
                           rank, #x);                                                              \
        }                                                                                          \
    } while (0)

static void *rank_main(void *p)
{
    struct start *s = p;
    s->fn(s->w, s->rank);
    return NULL;
}

static void run_ranks(uint32_t n, rank_fn fn, void *arg)
{
    struct world w = {.n = n, .arg = arg};
    struct start s[MAX_RANKS];
    pthread_t th[MAX_RANKS];
    transport->open(n, w.comm);
    for (uint32_t i = 0; i < n; i++) {
        s[i] = (struct start){.w = &w, .rank = i, .fn = fn};
        assert_int_equal(pthread_create(&th[i], NULL, rank_main, &s[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(th[i], NULL);
    }
    for (uint32_t i = 0; i < n; i++) {
        w.comm[i]->ops->close(w.comm[i]);
    }
    transport->done();
    if (atomic_load(&w.n_failed) != 0) {
        fail_msg("%s: %s (%d in all)", transport->name, w.first, atomic_load(&w.n_failed));
    }
}

#ifdef HSP_SANITIZE
enum { SLOW = 1 }; /* fewer large cases */
#else
enum { SLOW = 0 };
#endif

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double rounded(enum hsp_dtype t, double v)
{
    return t == HSP_F32    ? (double)(float)v
           : t == HSP_BF16 ? (double)hsp_bf16_float(hsp_bf16_of((float)v))
                           : v;
}

/* Numbers with a full mantissa. Their count is a prime, so no two pieces begin at the same value.
 * They are drawn once, since each rank compares with the values of all ranks. */
#define N_DRAWN 65521u
static double drawn[N_DRAWN];

static void draw(void)
{
    for (uint32_t i = 0; i < N_DRAWN; i++) {
        drawn[i] = (double)(hsp_test_rand("comm", i) >> 11) / 9007199254740992.0 - 0.5;
    }
}

/* Returns the value of rank r at index i, chosen so that another order of summing changes the
 * sum. */
static double value(enum hsp_dtype t, uint32_t r, size_t i)
{
    return rounded(t, drawn[(i + 9973u * (size_t)r) % N_DRAWN] * (double)(1u << ((i + r) % 13)));
}

static void put(enum hsp_dtype t, void *buf, size_t i, double v)
{
    if (t == HSP_F64) {
        ((double *)buf)[i] = v;
    } else if (t == HSP_BF16) {
        ((uint16_t *)buf)[i] = hsp_bf16_of((float)v);
    } else {
        ((float *)buf)[i] = (float)v;
    }
}

/* Returns the maximum over the group, or the sum in ascending order, rounded to the type. For bf16
 * the sum is taken in fp32 and rounded once. */
static double sum_of(enum hsp_dtype t, enum hsp_reduce how, const struct hsp_group *g, size_t i)
{
    double s = value(t, g->ranks[0], i);
    for (uint32_t k = 1; k < g->n; k++) {
        double v = value(t, g->ranks[k], i);
        s = how == HSP_REDUCE_MAX ? fmax(s, v) : s + v;
        s = rounded(hsp_dtype_wide(t), s);
    }
    return rounded(t, s);
}

static bool bits_equal(enum hsp_dtype t, const void *buf, size_t i, double v)
{
    uint8_t want[8];
    put(t, want, 0, v);
    size_t n = hsp_dtype_size(t);
    return memcmp((const uint8_t *)buf + i * n, want, n) == 0;
}

static const uint32_t all_ranks[MAX_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct hsp_group whole(const struct world *w, uint32_t rank)
{
    return (struct hsp_group){.n = w->n, .ranks = all_ranks, .me = rank};
}

/* ---- point to point ---- */

/* Sends several messages to a peer, which receives their channels in another order. */
static void channels_rank(struct world *w, uint32_t rank)
{
    enum { N_CH = 5, N_MSG = 4 };
    static const size_t size[N_CH] = {0, 1, 1000, 70000, 1300000};
    struct hsp_comm *c = w->comm[rank];
    struct hsp_err err;
    uint8_t *buf = malloc(size[N_CH - 1]);
    for (uint32_t k = 0; k < N_MSG; k++) {
        for (uint32_t ch = 0; ch < N_CH; ch++) {
            for (uint32_t p = 0; p < w->n; p++) {
                if (p != rank) {
                    memset(buf, (int)(16 * k + 3 * ch + rank), size[ch]);
                    EXPECT(w, c->ops->send(c, p, ch, buf, size[ch], &err) == HSP_OK);
                }
            }
        }
    }
    for (uint32_t i = N_CH; i-- > 0;) {
        uint32_t ch = (i * 2 + rank) % N_CH;
        for (uint32_t k = 0; k < N_MSG; k++) {
            for (uint32_t p = 0; p < w->n; p++) {
                if (p != rank) {
                    memset(buf, 255, size[ch]);
                    EXPECT(w, c->ops->recv(c, p, ch, buf, size[ch], &err) == HSP_OK);
                    uint8_t v = (uint8_t)(16 * k + 3 * ch + p);
                    EXPECT(w, size[ch] == 0 || (buf[0] == v && buf[size[ch] - 1] == v));
                }
            }
        }
    }
    free(buf);
}

static void test_channels(void **state)
{
    (void)state;
    if (lacks(SUITE_LACKS_TAGS)) {
        return;
    }
    run_ranks(2, channels_rank, NULL);
    run_ranks(4, channels_rank, NULL);
}

/* Two ranks send big messages to each other at once. Neither may wait for the other to receive. */
static void crossing_rank(struct world *w, uint32_t rank)
{
    size_t bytes = (SLOW ? 12u : 48u) << 20;
    struct hsp_comm *c = w->comm[rank];
    struct hsp_err err;
    uint8_t *buf = malloc(bytes);
    memset(buf, (int)rank + 1, bytes);
    EXPECT(w, c->ops->send(c, 1 - rank, 7, buf, bytes, &err) == HSP_OK);
    memset(buf, 99, bytes); /* the buffer is ours again */
    EXPECT(w, c->ops->recv(c, 1 - rank, 7, buf, bytes, &err) == HSP_OK);
    bool ok = true;
    for (size_t i = 0; i < bytes; i += 4095) {
        ok = ok && buf[i] == 2 - rank;
    }
    EXPECT(w, ok);
    free(buf);
}

static void test_crossing_sends(void **state)
{
    (void)state;
    run_ranks(2, crossing_rank, NULL);
}

/* Posts requests of several channels early, and waits for them in another order. */
static void requests_rank(struct world *w, uint32_t rank)
{
    enum { N = 20 };
    struct hsp_comm *c = w->comm[rank];
    struct hsp_comm_req rr[N], sr[N];
    struct hsp_err err;
    size_t bytes = 100003;
    uint8_t *in = malloc(N * bytes), *out = malloc(N * bytes);
    uint32_t peer = 1 - rank;
    for (uint32_t i = 0; i < N; i++) {
        memset(out + i * bytes, (int)(i + 50 * rank), bytes);
        EXPECT(w, c->ops->irecv(c, peer, i % 3, hsp_run(in + i * bytes, bytes), &rr[i], &err) ==
                      HSP_OK);
    }
    for (uint32_t i = 0; i < N; i++) {
        EXPECT(w, c->ops->isend(c, peer, i % 3, hsp_run(out + i * bytes, bytes), &sr[i], &err) ==
                      HSP_OK);
    }
    for (uint32_t i = N; i-- > 0;) {
        EXPECT(w, c->ops->wait(c, &rr[i], &err) == HSP_OK);
        EXPECT(w, in[i * bytes] == i + 50 * peer && in[(i + 1) * bytes - 1] == i + 50 * peer);
        EXPECT(w, c->ops->wait(c, &sr[i], &err) == HSP_OK);
    }
    free(in);
    free(out);
}

static void test_requests(void **state)
{
    (void)state;
    run_ranks(2, requests_rank, NULL);
}

/* ---- messages that do not lie in one piece ---- */

#define MANY_RUNS 3000

/* Makes the runs of message @k at one end: a random shape of that many bytes, with gaps. There may
 * be many or few runs, short or long ones, or none. */
static struct hsp_runs shape(uint64_t k, bool sender)
{
    static const size_t run[] = {1, 4, 416, 1664, 4096, 5000, 16384, 20000, 70000};
    size_t bytes = 4 * (size_t)hsp_test_range("bytes", k, 0, k % 7 == 0 ? 300000 : 15000);
    size_t want = run[(size_t)hsp_test_range(sender ? "from" : "to", k, 0, 8)];
    want = want < bytes / MANY_RUNS + 1 ? bytes / MANY_RUNS + 1 : want;
    while (want < bytes && bytes % want != 0) {
        want++;
    }
    want = want > bytes && bytes > 0 ? bytes : want;
    return (struct hsp_runs){.run = want,
                             .stride =
                                 want + (size_t)hsp_test_range(sender ? "gap" : "hole", k, 0, 200),
                             .n = bytes / want};
}

static uint8_t letter(uint64_t k, size_t i)
{
    return (uint8_t)(i * 31 + i / 251 + 17 * k + 1);
}

static struct hsp_runs sent_runs(uint64_t k)
{
    struct hsp_runs r = shape(k, true);
    r.base = calloc(r.n * r.stride + 1, 1);
    for (size_t j = 0, at = 0; j < r.n; j++) {
        for (size_t i = 0; i < r.run; i++) {
            r.base[j * r.stride + i] = letter(k, at++);
        }
    }
    return r;
}

/* Checks that the message is in its runs, and that the gaps are unchanged. */
static bool arrived(uint64_t k, const struct hsp_runs *r)
{
    bool same = true;
    for (size_t j = 0, at = 0; j < r->n; j++) {
        for (size_t i = 0; i < r->stride; i++) {
            uint8_t want = i < r->run ? letter(k, at++) : 0xEE;
            same = same && r->base[j * r->stride + i] == want;
        }
    }
    return same;
}

/* Sends messages of random shapes, with different shapes at the two ends. Some receives are posted
 * before their message, others after it. */
static void strided_rank(struct world *w, uint32_t rank)
{
    enum { N = 24 };
    struct hsp_comm *c = w->comm[rank];
    struct hsp_comm_req rr[N], sr[N];
    struct hsp_runs in[N], out[N];
    struct hsp_err err;
    uint32_t peer = 1 - rank;
    for (uint64_t round = 0; round < (SLOW ? 2 : 5); round++) {
        for (uint32_t i = 0; i < N; i++) {
            out[i] = sent_runs(2 * (round * N + i) + rank);
            in[i] = shape(2 * (round * N + i) + peer, false);
            in[i].base = malloc(in[i].n * in[i].stride + 1);
            memset(in[i].base, 0xEE, in[i].n * in[i].stride + 1);
        }
        for (uint32_t i = 0; i < N / 2; i++) {
            EXPECT(w, c->ops->irecv(c, peer, i % 3, in[i], &rr[i], &err) == HSP_OK);
        }
        for (uint32_t i = 0; i < N; i++) {
            EXPECT(w, c->ops->isend(c, peer, i % 3, out[i], &sr[i], &err) == HSP_OK);
        }
        for (uint32_t i = 0; i < N; i++) {
            if (i >= N / 2) {
                EXPECT(w, c->ops->irecv(c, peer, i % 3, in[i], &rr[i], &err) == HSP_OK);
            }
            EXPECT(w, c->ops->wait(c, &rr[i], &err) == HSP_OK);
            EXPECT(w, arrived(2 * (round * N + i) + peer, &in[i]));
            free(in[i].base);
        }
        for (uint32_t i = 0; i < N; i++) {
            EXPECT(w, c->ops->wait(c, &sr[i], &err) == HSP_OK);
            free(out[i].base);
        }
    }
}

static void test_strided(void **state)
{
    (void)state;
    run_ranks(2, strided_rank, NULL);
}

/* A receive with other runs of the same number of bytes matches. A receive of another number of
 * bytes does not. */
static void strided_mismatch_rank(struct world *w, uint32_t rank)
{
    struct hsp_comm *c = w->comm[rank];
    struct hsp_comm_req req;
    struct hsp_err err = {.code = HSP_OK};
    uint8_t buf[64] = {0};
    struct hsp_runs r = {.base = buf, .run = 8, .stride = 7, .n = 4};
    EXPECT(w, c->ops->irecv(c, 1 - rank, 3, r, &req, &err) == HSP_EINVAL);
    EXPECT(w, c->ops->isend(c, 1 - rank, 3, r, &req, &err) == HSP_EINVAL);
    r.n = SIZE_MAX;
    EXPECT(w, c->ops->isend(c, 1 - rank, 3, r, &req, &err) == HSP_ELIMIT);
    r = (struct hsp_runs){
        .base = buf, .run = rank == 0 ? 8 : 4, .stride = 8, .n = rank == 0 ? 2 : 3};
    if (rank == 0) {
        if (c->ops->isend(c, 1, 3, r, &req, &err) == HSP_OK) {
            (void)c->ops->wait(c, &req, &err);
        }
        EXPECT(w, c->ops->recv(c, 1, 0, buf, 1, &err) != HSP_OK);
    } else {
        enum hsp_status st = c->ops->irecv(c, 0, 3, r, &req, &err);
        EXPECT(w, (st == HSP_OK ? c->ops->wait(c, &req, &err) : st) == HSP_EPROTO);
        EXPECT(w, strstr(err.msg, "sent 16 bytes on channel 3, rank 1 expected 12") != NULL);
    }
}

static void test_strided_mismatch(void **state)
{
    (void)state;
    if (lacks(SUITE_LACKS_TAGS)) {
        return;
    }
    run_ranks(2, strided_mismatch_rank, NULL);
}

static void misuse_rank(struct world *w, uint32_t rank)
{
    struct hsp_comm *c = w->comm[rank];
    struct hsp_err err;
    uint32_t descending[2] = {1, 0};
    struct hsp_group g = {.n = 2, .ranks = descending, .me = 1 - rank};
    float x = 0;
    EXPECT(w, c->ops->send(c, rank, 0, &x, 4, &err) == HSP_EINVAL);
    EXPECT(w, c->ops->recv(c, 2, 0, &x, 4, &err) == HSP_EINVAL);
    EXPECT(w, hsp_comm_all_reduce(c, &g, 0, HSP_F32, HSP_REDUCE_SUM, &x, 1, &err) == HSP_EINVAL);
    struct hsp_group all = whole(w, rank);
    EXPECT(w, hsp_comm_all_reduce(c, &all, 0, HSP_I32, HSP_REDUCE_SUM, &x, 1, &err) == HSP_EINVAL);
    /* and it is still alive */
    EXPECT(w, hsp_comm_all_reduce(c, &all, 0, HSP_F32, HSP_REDUCE_SUM, &x, 1, &err) == HSP_OK);
}

static void test_misuse(void **state)
{
    (void)state;
    run_ranks(2, misuse_rank, NULL);
}

static void mismatch_rank(struct world *w, uint32_t rank)
{
    struct hsp_comm *c = w->comm[rank];
    struct hsp_err err = {.code = HSP_OK};
    uint8_t buf[8] = {0};
    if (rank == 0) {
        (void)c->ops->send(c, 1, 3, buf, 5, &err);
        EXPECT(w, c->ops->recv(c, 1, 0, buf, 1, &err) != HSP_OK);
    } else {
        EXPECT(w, c->ops->recv(c, 0, 3, buf, 8, &err) == HSP_EPROTO);
        EXPECT(w, strstr(err.msg, "5 bytes on channel 3") != NULL);
    }
}

static void test_size_mismatch(void **state)
{
    (void)state;
    if (lacks(SUITE_LACKS_TAGS)) {
        return;
    }
    run_ranks(2, mismatch_rank, NULL);
}

/* ---- collectives ---- */

struct reduce_case {
    enum hsp_dtype t;
    enum hsp_reduce how;
    size_t count;
};

static void all_reduce_in(struct world *w, uint32_t rank, const struct hsp_group *g,
                          uint32_t channel, const struct reduce_case *rc)
{
    struct hsp_comm *c = w->comm[rank];
    struct hsp_err err = {.code = HSP_OK};
    void *buf = malloc(rc->count * 8 + 8);
    for (size_t i = 0; i < rc->count; i++) {
        put(rc->t, buf, i, value(rc->t, rank, i));
    }
    EXPECT(w, hsp_comm_all_reduce(c, g, channel, rc->t, rc->how, buf, rc->count, &err) == HSP_OK);
    bool same = true;
    for (size_t i = 0; i < rc->count; i++) {
        same = same && bits_equal(rc->t, buf, i, sum_of(rc->t, rc->how, g, i));
    }
    EXPECT(w, same);
    free(buf);
}

static void all_reduce_rank(struct world *w, uint32_t rank)
{
    struct hsp_group g = whole(w, rank);
    all_reduce_in(w, rank, &g, 11, w->arg);
}

static void test_all_reduce(void **state)
{
    (void)state;
    static const uint32_t ns[] = {1, 2, 3, 5, 8};
    /* below and above the small path, not multiples of anything, several chunks per piece */
    static const size_t counts[] = {0, 1, 3, 4096, 4097, 8193, 70001, 300007};
    static const enum hsp_dtype types[] = {HSP_F32, HSP_F64, HSP_BF16};
    for (size_t a = 0; a < sizeof ns / sizeof ns[0]; a++) {
        for (size_t b = 0; b < sizeof counts / sizeof counts[0]; b++) {
            struct reduce_case rc = {.t = types[(a + b) % 3], .count = counts[b]};
            if (counts[b] > (SLOW ? 50000 : 100000) && (ns[a] > 3 || (SLOW && ns[a] != 2))) {
                continue;
            }
            run_ranks(ns[a], all_reduce_rank, &rc);
            rc.how = HSP_REDUCE_MAX;
            if (counts[b] < 100000) {
                run_ranks(ns[a], all_reduce_rank, &rc);
            }
        }
    }
}

/* Runs collectives in two subsets of the ranks, which overlap in one rank and have channels of
 * their own. */
static void subset_rank(struct world *w, uint32_t rank)
{
    static const uint32_t even[] = {0, 2, 4}, low[] = {0, 1}, high[] = {3, 4};
    static const struct {
        uint32_t n;
        const uint32_t *ranks;
    } group[] = {{3, even}, {2, low}, {2, high}, {5, all_ranks}};
    static const struct reduce_case rc[] = {{HSP_F32, HSP_REDUCE_SUM, 100},
                                            {HSP_F64, HSP_REDUCE_SUM, 50001}};
    for (uint32_t round = 0; round < (SLOW ? 2 : 6); round++) {
        for (uint32_t k = 0; k < 4; k++) {
            for (uint32_t i = 0; i < group[k].n; i++) {
                if (group[k].ranks[i] == rank) {
                    struct hsp_group g = {.n = group[k].n, .ranks = group[k].ranks, .me = i};
                    all_reduce_in(w, rank, &g, 100 + k, &rc[round % 2]);
                }
            }
        }
    }
}

static void test_subsets(void **state)
{
    (void)state;
    run_ranks(5, subset_rank, NULL);
}

/* The maximum of numbers with a NaN on any rank is NaN, so that a fault of one rank is seen by
 * all. */
static void nan_of(struct world *w, uint32_t rank, enum hsp_dtype t, size_t n, uint32_t bad)
{
    struct hsp_group g = whole(w, rank);
    struct hsp_err err;
    void *x = calloc(n, sizeof(double));
    bool right = x != NULL;
    for (size_t i = 0; right && i < n; i++) {
        put(t, x, i, i % 2 == 0 && rank == bad ? (double)NAN : -5 - (double)rank);
    }
    EXPECT(w, right && hsp_comm_all_reduce(w->comm[rank], &g, 9, t, HSP_REDUCE_MAX, x, n, &err) ==
                           HSP_OK);
    for (size_t i = 0; right && i < n; i++) {
        double v = t == HSP_F64    ? ((const double *)x)[i]
                   : t == HSP_BF16 ? (double)hsp_bf16_float(((const uint16_t *)x)[i])
                                   : (double)((const float *)x)[i];
        right = i % 2 == 0 ? isnan(v) != 0 : !(v < -5) && !(v > -5);
    }
    EXPECT(w, right);
    free(x);
}

static void nan_rank(struct world *w, uint32_t rank)
{
    static const enum hsp_dtype types[] = {HSP_F32, HSP_F64, HSP_BF16};
    for (uint32_t k = 0; k < 3 * w->n; k++) { /* in a message of its own, and in pieces */
        nan_of(w, rank, types[k % 3], 6, k / 3);
        nan_of(w, rank, types[k % 3], 6000, k / 3);
    }
}

static void test_nan(void **state)
{
    (void)state;
    run_ranks(3, nan_rank, NULL);
}

/* Uneven pieces, some empty. */
static void uneven_rank(struct world *w, uint32_t rank)
{
    const size_t *count = w->arg;
    struct hsp_comm *c = w->comm[rank];
    struct hsp_err err;
    struct hsp_group g = whole(w, rank);
    size_t total = 0, before = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        before += i < rank ? count[i] : 0;
        total += count[i];
    }
    for (int k = 0; k < 6; k++) {
        enum hsp_dtype t = k % 3 == 0 ? HSP_F32 : k % 3 == 1 ? HSP_F64 : HSP_BF16;
        enum hsp_reduce how = k < 3 ? HSP_REDUCE_SUM : HSP_REDUCE_MAX;
        size_t el = hsp_dtype_size(t);
        uint8_t *in = malloc(total * el + 8), *out = malloc(total * el + 8);
        uint8_t *ag = malloc(total * el + 8);
        for (size_t i = 0; i < total; i++) {
            put(t, in, i, value(t, rank, i));
        }
        EXPECT(w, hsp_comm_reduce_scatter(c, &g, 5, t, how, in, count, out, &err) == HSP_OK);
        bool same = true;
        for (size_t i = 0; i < count[rank]; i++) {
            same = same && bits_equal(t, out, i, sum_of(t, how, &g, before + i));
        }
        EXPECT(w, same);
        EXPECT(w, hsp_comm_all_gather(c, &g, 5, t, out, count, ag, &err) == HSP_OK);
        /* and in place, where the piece lies in the whole */
        EXPECT(w, hsp_comm_reduce_scatter(c, &g, 6, t, how, in, count, in + before * el, &err) ==
                      HSP_OK);
        EXPECT(w, hsp_comm_all_gather(c, &g, 6, t, in + before * el, count, in, &err) == HSP_OK);
        same = true;
        for (size_t i = 0; i < total; i++) {
            same = same && bits_equal(t, ag, i, sum_of(t, how, &g, i));
        }
        EXPECT(w, same);
        EXPECT(w, total == 0 || memcmp(in, ag, total * el) == 0);
        free(in);
        free(out);
        free(ag);
    }
}

static void test_uneven_pieces(void **state)
{
    (void)state;
    static const size_t a[] = {0, 0, 0}, b[] = {5, 0, 2}, c[] = {0, 100001, 17, 40000},
                        d[] = {1, 2, 3, 4, 0, 5, 6, 40000};
    run_ranks(3, uneven_rank, (void *)(uintptr_t)a);
    run_ranks(3, uneven_rank, (void *)(uintptr_t)b);
    run_ranks(4, uneven_rank, (void *)(uintptr_t)c);
    run_ranks(8, uneven_rank, (void *)(uintptr_t)d);
}

/* Runs a mix of operations with random groups and sizes. All ranks draw the same list from the
 * seed. */
static void random_rank(struct world *w, uint32_t rank)
{
    for (uint64_t k = 0; k < hsp_test_rounds(60); k++) {
        uint32_t ranks[MAX_RANKS], n = 0, me = UINT32_MAX;
        int64_t set = hsp_test_range("set", k, 1, (1 << w->n) - 1);
        for (uint32_t i = 0; i < w->n; i++) {
            if (set >> i & 1) {
                me = i == rank ? n : me;
                ranks[n++] = i;
            }
        }
        if (me != UINT32_MAX) {
            struct hsp_group g = {.n = n, .ranks = ranks, .me = me};
            struct reduce_case rc = {.t = k % 2 ? HSP_F32 : HSP_F64,
                                     .count = (size_t)hsp_test_range("count", k, 0, 20000)};
            all_reduce_in(w, rank, &g, (uint32_t)hsp_test_range("channel", k, 0, 3), &rc);
        }
    }
}

static void test_random(void **state)
{
    (void)state;
    run_ranks(5, random_rank, NULL);
}

/* ---- the end ---- */

/* Rank 0 waits for a message that never comes, and another thread aborts the wait. The operations
 * of all ranks return. */
static void *abort_main(void *p)
{
    struct world *w = p;
    while (atomic_load(&w->reached) < w->n) {
        struct timespec t = {.tv_nsec = 1000000};
        nanosleep(&t, NULL);
    }
    for (uint32_t k = 0; k < w->n && (k == 0 || (transport->lacks & SUITE_LACKS_TOLD) != 0); k++) {
        w->comm[k]->ops->abort(w->comm[k]);
    }
    return NULL;
}

static void abort_rank(struct world *w, uint32_t rank)
{
    struct hsp_comm *c = w->comm[rank];
    struct hsp_err err = {.code = HSP_OK};
    struct hsp_group g = whole(w, rank);
    pthread_t th;
    if (rank == 0) {
        EXPECT(w, pthread_create(&th, NULL, abort_main, w) == 0);
    }
    atomic_fetch_add(&w->reached, 1);
    size_t count = 500000;
    float *buf = calloc(count, sizeof *buf);
    double t0 = now_s();
    enum hsp_status st;
    if (rank == 1) { /* never joins the collective */
        st = c->ops->recv(c, 0, 77, buf, 4, &err);
    } else {
        st = hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, buf, count, &err);
    }
    if (st != HSP_ECANCELED && st != HSP_EPEER) {
        print_error("rank %u: %s: %s\n", rank, hsp_test_status_name(st), err.msg);
    }
    EXPECT(w, st == HSP_ECANCELED || st == HSP_EPEER);
    EXPECT(w, rank != 0 || st == HSP_ECANCELED);
    EXPECT(w, err.code == st && err.msg[0] != 0);
    EXPECT(w, now_s() - t0 < 15.0);
    /* dead for good */
    st = c->ops->send(c, (rank + 1) % w->n, 1, buf, 4, &err);
    EXPECT(w, st == HSP_ECANCELED || st == HSP_EPEER);
    free(buf);
    if (rank == 0) {
        pthread_join(th, NULL);
    }
}

static void test_abort(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        run_ranks(4, abort_rank, NULL);
    }
}

/* Messages that a rank sent before close are still received. A receive of a further message returns
 * HSP_EPEER. */
static void test_close_delivers(void **state)
{
    if (lacks(SUITE_LACKS_PARTING)) {
        return;
    }
    (void)state;
    struct hsp_comm *c[2];
    struct hsp_err err;
    size_t bytes = 5000000;
    uint8_t *buf = malloc(bytes);
    transport->open(2, c);
    memset(buf, 7, bytes);
    assert_ok(c[0]->ops->send(c[0], 1, 0, "abc", 3, &err), &err);
    assert_ok(c[0]->ops->send(c[0], 1, 1, buf, bytes, &err), &err);
    c[0]->ops->close(c[0]);
    memset(buf, 0, bytes);
    assert_ok(c[1]->ops->recv(c[1], 0, 1, buf, bytes, &err), &err);
    assert_int_equal(buf[bytes - 1], 7);
    assert_ok(c[1]->ops->recv(c[1], 0, 0, buf, 3, &err), &err);
    assert_memory_equal(buf, "abc", 3);
    assert_status(c[1]->ops->recv(c[1], 0, 0, buf, 3, &err), HSP_EPEER);
    assert_non_null(strstr(err.msg, "rank 0"));
    c[1]->ops->close(c[1]);
    transport->done();
    free(buf);
}

int suite_run(const struct suite_transport *t)
{
    transport = t;
    draw();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channels),      cmocka_unit_test(test_crossing_sends),
        cmocka_unit_test(test_requests),      cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_size_mismatch), cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_subsets),       cmocka_unit_test(test_nan),
        cmocka_unit_test(test_uneven_pieces), cmocka_unit_test(test_random),
        cmocka_unit_test(test_abort),         cmocka_unit_test(test_close_delivers),
        cmocka_unit_test(test_strided),       cmocka_unit_test(test_strided_mismatch),
    };
    return cmocka_run_group_tests_name(t->name, tests, NULL, NULL);
}
