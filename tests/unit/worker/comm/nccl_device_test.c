/* Tests NCCL over the CUDA backend: the work given to streams and its order, seen by the fakes of
 * both libraries, which do the work late. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/unit/worker/comm/nccl_streams.h"
#include "tests/unit/worker/comm/nccl_world.h"
#include "tests/unit/worker/cuda/stand_in.h"
#include "worker/backend/cuda/cuda_device.h"
#include "worker/comm/collective.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_start.h"
#include "worker/comm/reduce.h"

#define N       12
#define HOLD_MS 50

struct rank {
    struct hsp_backend *b;
    struct hsp_nccl *nccl;
};
static struct rank ranks[3];
static struct nw_process process[3];
static const uint32_t all_ranks[3] = {0, 1, 2};

static void open_devices(uint32_t n, uint64_t seed)
{
    struct hsp_err err;
    nw_fake()->reset(seed, 0);
    nw_use_cuda_streams();
    hsp_fake_reset(&(struct hsp_fake_opts){.n_devices = (int)n, .seed = seed});
    for (uint32_t k = 0; k < n; k++) {
        assert_ok(hsp_backend_cuda_open((int)k, NULL, &ranks[k].b, &err), &err);
        const struct hsp_nccl_opts o = {.backend = ranks[k].b,
                                        .gpu = k + 1,
                                        .process = 50 + k,
                                        .patience_ms = NW_PATIENCE_MS,
                                        .greeting_bytes = NW_GREETING_BYTES,
                                        .hold_ms = HOLD_MS,
                                        .library = nw_library()};
        assert_ok(hsp_nccl_open(&o, &ranks[k].nccl, &err), &err);
        process[k] = (struct nw_process){.nccl = ranks[k].nccl};
    }
}

static void close_nccl(void *ctx, uint32_t k)
{
    (void)ctx;
    ranks[k].nccl = hsp_nccl_close(ranks[k].nccl);
}

static void close_devices(uint32_t n)
{
    nw_each(n, NULL, close_nccl, NULL);
    for (uint32_t k = 0; k < n; k++) {
        ranks[k].b->close(ranks[k].b);
    }
    standin_assert_clean();
    nw_expect_clean();
}

/* ---- the work of a rank ---- */

struct rank_run {
    struct nw_epoch *e;
    const char *wrong[3]; /* NULL: all was right */
};

static float *device(struct hsp_backend *b, size_t n)
{
    struct hsp_err err;
    void *p = NULL;
    return b->alloc(b, HSP_MEM_DEVICE, n * sizeof(float), &p, &err) == HSP_OK ? p : NULL;
}

/* To and from the device, in the order of the queue. */
static bool put(struct hsp_backend *b, float *to, const float *from, size_t n)
{
    struct hsp_err err;
    return b->copy(b, HSP_DEVQ_COMM, to, from, n * sizeof *to, &err) == HSP_OK;
}

static bool get(struct hsp_backend *b, float *to, const float *from, size_t n)
{
    struct hsp_err err;
    uint64_t t = 0;
    return put(b, to, from, n) && b->mark(b, HSP_DEVQ_COMM, &t, &err) == HSP_OK &&
           b->finish(b, HSP_DEVQ_COMM, t, &err) == HSP_OK;
}

static bool same(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* Sums and maxima of the compute queue's results, and back. */
static const char *collectives(struct hsp_comm *c, struct hsp_backend *b, uint32_t me, uint32_t n)
{
    struct hsp_group g = {.n = n, .ranks = all_ranks, .me = me};
    struct hsp_err err;
    float *x = device(b, N), *y = device(b, N), host[N], want[N];
    size_t count[3] = {5, 0, 7}, before[3] = {0, 5, 5};
    uint64_t t = 0;
    (void)b->fill(b, HSP_DEVQ_COMPUTE, HSP_F32, x, (double)me + 1.0, N, &err);
    (void)b->mark(b, HSP_DEVQ_COMPUTE, &t, &err);
    (void)b->await(b, HSP_DEVQ_COMM, HSP_DEVQ_COMPUTE, t, &err);
    if (hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, x, N, &err) != HSP_OK ||
        hsp_comm_reduce_scatter(c, &g, 1, HSP_F32, HSP_REDUCE_SUM, x, count, y + before[me],
                                &err) != HSP_OK ||
        hsp_comm_all_gather(c, &g, 1, HSP_F32, y + before[me], count, y, &err) != HSP_OK) {
        return "a collective";
    }
    (void)b->mark(b, HSP_DEVQ_COMM, &t, &err);
    (void)b->await(b, HSP_DEVQ_COMPUTE, HSP_DEVQ_COMM, t, &err);
    (void)b->fill(b, HSP_DEVQ_COMPUTE, HSP_F32, x, 10.0 * (double)me, N, &err);
    (void)b->mark(b, HSP_DEVQ_COMPUTE, &t, &err);
    (void)b->await(b, HSP_DEVQ_COMM, HSP_DEVQ_COMPUTE, t, &err);
    for (int k = 0; k < N; k++) {
        want[k] = (float)(n * (n + 1) / 2 * n);
    }
    bool sums = get(b, host, y, N) && same(host, want, N); /* goes on: others wait for this rank */
    if (hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_MAX, x, N, &err) != HSP_OK) {
        return "a maximum";
    }
    for (int k = 0; k < N; k++) {
        want[k] = 10.0f * (float)(n - 1);
    }
    bool maxima = get(b, host, x, N) && same(host, want, N);
    b->release(b, HSP_MEM_DEVICE, x);
    b->release(b, HSP_MEM_DEVICE, y);
    return !sums ? "sums" : !maxima ? "maxima" : NULL;
}

/* Two stages: the first sends twice before it receives, the second answers in between. */
static const char *stages(struct hsp_comm *c, struct hsp_backend *b, uint32_t me, uint32_t n)
{
    struct hsp_err err;
    float *x = device(b, N), *in[2] = {device(b, N), device(b, N)}, host[2][N];
    uint32_t next = (me + 1) % n, last = (me + n - 1) % n;
    enum hsp_status st = HSP_OK;
    uint64_t t = 0;
    bool right = true;
    for (int i = 0; i < 8 && st == HSP_OK; i++) {
        float v[N];
        for (int k = 0; k < 2 && st == HSP_OK; k++) {
            for (int j = 0; j < N; j++) {
                v[j] = (float)(1000 * (int)me + 100 * i + 10 * k + j);
            }
            st = put(b, x, v, N) ? c->ops->send(c, next, 3, x, sizeof v, &err) : HSP_EIO;
            if (st == HSP_OK && b->mark(b, HSP_DEVQ_COMM, &t, &err) == HSP_OK) {
                st = b->finish(b, HSP_DEVQ_COMM, t, &err); /* though nobody has taken it */
            }
        }
        for (int k = 0; k < 2 && st == HSP_OK; k++) {
            st = c->ops->recv(c, last, 3, in[k], sizeof v, &err);
        }
        for (int k = 0; k < 2 && st == HSP_OK; k++) {
            st = get(b, host[k], in[k], N) ? HSP_OK : HSP_EIO;
            float want = (float)(1000 * (int)last + 100 * i + 10 * k + N - 1);
            right = right && memcmp(&host[k][N - 1], &want, sizeof want) == 0;
        }
    }
    b->release(b, HSP_MEM_DEVICE, x);
    b->release(b, HSP_MEM_DEVICE, in[0]);
    b->release(b, HSP_MEM_DEVICE, in[1]);
    return st != HSP_OK ? "messages" : !right ? "a message" : NULL;
}

static void run_rank(void *ctx, uint32_t k)
{
    struct rank_run *r = ctx;
    struct hsp_comm *c = r->e->comm[k];
    struct hsp_backend *b = ranks[k].b;
    r->wrong[k] = collectives(c, b, k, r->e->n);
    const char *wrong = stages(c, b, k, r->e->n);
    r->wrong[k] = r->wrong[k] != NULL ? r->wrong[k] : wrong;
}

static void streams_are_in_order(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < hsp_test_rounds(6); seed++) {
        struct nw_epoch e;
        struct rank_run r = {.e = &e};
        open_devices(3, seed);
        nw_epoch_init(&e, process, NULL, 3);
        nw_prepare(&e);
        for (int k = 0; k < 3; k++) {
            assert_ok(e.st[k], &e.err[k]);
        }
        assert_int_equal(hsp_fake_usage().pending, 0); /* connecting is done */
        nw_each(3, NULL, run_rank, &r);
        for (int k = 0; k < 3; k++) {
            if (r.wrong[k] != NULL) {
                fail_msg("rank %d: %s", k, r.wrong[k]);
            }
        }
        nw_epoch_close(&e);
        close_devices(3);
    }
}

static void rest_rank(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    const struct hsp_nccl_params p = {.timeout_ms = e->timeout_ms};
    e->st[k] = hsp_nccl_rest(e->comm[k], &p, &e->err[k]);
}

static void messages_rank(void *ctx, uint32_t k)
{
    struct rank_run *r = ctx;
    r->wrong[k] = stages(r->e->comm[k], ranks[k].b, k, r->e->n);
}

/* The memory of messages goes behind the last step, while the communicators are still there, and is
 * taken again when steps go on. */
static void messages_leave_nothing(void **state)
{
    struct nw_epoch e;
    struct rank_run r = {.e = &e};
    (void)state;
    open_devices(2, 5);
    nw_epoch_init(&e, process, NULL, 2);
    nw_prepare(&e);
    assert_true(ranks[0].b->trim(ranks[0].b) && ranks[1].b->trim(ranks[1].b));
    size_t before = hsp_fake_usage().device_bytes;
    for (int round = 0; round < 2; round++) {
        nw_each(2, NULL, messages_rank, &r);
        assert_true(r.wrong[0] == NULL && r.wrong[1] == NULL);
        assert_true(hsp_fake_usage().device_bytes > before);
        nw_each(2, NULL, rest_rank, &e);
        for (int k = 0; k < 2; k++) {
            assert_ok(e.st[k], &e.err[k]);
            assert_true(ranks[k].b->trim(ranks[k].b));
        }
        assert_int_equal(hsp_fake_usage().device_bytes, before);
    }
    assert_int_equal(hsp_fake_usage().blocked, 0);
    nw_epoch_close(&e);
    close_devices(2);
}

/* Messages to the next rank, from the last one, and a maximum. */
static void rehearse(struct hsp_comm *c, struct hsp_backend *b, uint32_t me, uint32_t messages,
                     size_t room)
{
    struct hsp_err err;
    float *x = device(b, N);
    struct hsp_group g = {.n = 3, .ranks = all_ranks, .me = me};
    struct hsp_comm_req req = {0};
    assert_ok(c->ops->rehearse(c, true, 0, &err), &err);
    for (uint32_t k = 0; k < messages; k++) {
        assert_ok(c->ops->irecv(c, (me + 2) % 3, 3, hsp_run(x, sizeof *x), &req, &err), &err);
        assert_ok(c->ops->send(c, (me + 1) % 3, 3, x, N * sizeof *x, &err), &err);
        assert_ok(c->ops->wait(c, &req, &err), &err);
    }
    assert_ok(hsp_comm_all_reduce(c, &g, 1, HSP_F32, HSP_REDUCE_MAX, x, N, &err), &err);
    assert_ok(c->ops->rehearse(c, false, room, &err), &err);
    b->release(b, HSP_MEM_DEVICE, x);
}

static uint32_t count_stages(struct hsp_comm *base)
{
    uint32_t n = 0;
    for (const struct hsp_nccl_stage *s = hsp_nccl_of(base)->stages; s != NULL; s = s->next) {
        n++;
    }
    return n;
}

/* Returns the bytes of the stages from which messages are sent. */
static size_t sent_bytes(struct hsp_comm *base)
{
    size_t bytes = 0;
    for (const struct hsp_nccl_stage *s = hsp_nccl_of(base)->stages; s != NULL; s = s->next) {
        bytes += s->of_queue ? 0 : s->bytes;
    }
    return bytes;
}

/* Where the memory of messages is made before the first step, no step makes any. In a plan of
 * which the room says too little it is made later, once. */
static void messages_are_rehearsed(void **state)
{
    const size_t one = N * sizeof(float);
    const struct {
        uint32_t messages;
        size_t room;
        uint32_t before, least, most; /* stages: of each rank; of all behind the steps */
    } c[] = {
        {3, 10 * one, 4, 12, 12}, /* one more for the maximum */
        {8, 3 * one, 4, 12, 12},
        {8, 0, 2, 7, 9}, /* each rank sends two before it receives */
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        struct nw_epoch e;
        struct rank_run r = {.e = &e};
        uint32_t all = 0;
        open_devices(3, 7 + i);
        nw_epoch_init(&e, process, NULL, 3);
        nw_prepare(&e);
        unsigned work = nw_fake()->calls("ncclSend") + nw_fake()->calls("ncclAllGather");
        for (uint32_t k = 0; k < 3; k++) {
            assert_ok(e.st[k], &e.err[k]);
            rehearse(e.comm[k], ranks[k].b, k, c[i].messages, c[i].room);
            assert_int_equal(count_stages(e.comm[k]), c[i].before);
            assert_in_range(sent_bytes(e.comm[k]), one, c[i].room > one ? c[i].room : one);
        }
        assert_int_equal(nw_fake()->calls("ncclSend") + nw_fake()->calls("ncclAllGather"), work);
        nw_each(3, NULL, run_rank, &r);
        for (uint32_t k = 0; k < 3; k++) {
            assert_null(r.wrong[k]);
            all += count_stages(e.comm[k]);
        }
        assert_in_range(all, c[i].least, c[i].most);
        nw_epoch_close(&e);
        close_devices(3);
    }
}

static atomic_uint refused; /* calls of no_memory */
static __typeof__(((struct hsp_backend *)NULL)->alloc) real_alloc;

static enum hsp_status no_memory(struct hsp_backend *b, enum hsp_mem mem, size_t bytes, void **ret,
                                 struct hsp_err *err)
{
    if (mem != HSP_MEM_DEVICE) {
        return real_alloc(b, mem, bytes, ret, err);
    }
    atomic_fetch_add(&refused, 1);
    return hsp_err_nomem(err, "the test");
}

/* Rank 0 sends three messages, and has memory for one. Rank 1 takes none before rank 0 was refused
 * more memory. */
static void crowded_rank(void *ctx, uint32_t k)
{
    struct rank_run *r = ctx;
    struct nw_epoch *e = r->e;
    struct hsp_comm *c = e->comm[k];
    struct hsp_backend *b = ranks[k].b;
    float *x = device(b, N), v[N] = {0};
    const size_t bytes = sizeof v;
    enum hsp_status st = HSP_OK;
    if (k == 0) {
        st = c->ops->rehearse(c, true, 0, &e->err[k]);
        st = st == HSP_OK ? c->ops->send(c, 1, 3, x, bytes, &e->err[k]) : st;
        st = st == HSP_OK ? c->ops->rehearse(c, false, bytes, &e->err[k]) : st;
        b->alloc = no_memory;
    }
    while (k == 1 && atomic_load(&refused) == 0) {
        (void)sched_yield();
    }
    for (int i = 0; i < 3 && st == HSP_OK; i++) {
        if (k == 0) {
            v[0] = (float)i;
            st = put(b, x, v, N) ? c->ops->send(c, 1, 3, x, bytes, &e->err[k]) : HSP_EIO;
        } else {
            st = c->ops->recv(c, 0, 3, x, bytes, &e->err[k]);
            bool right = st == HSP_OK && get(b, v, x, N) && same(v, &(float){(float)i}, 1);
            r->wrong[k] = right ? r->wrong[k] : "a message";
        }
    }
    if (st != HSP_OK) { /* else the other rank waits for it */
        e->comm[1 - k]->ops->abort(e->comm[1 - k]);
    }
    b->alloc = real_alloc;
    b->release(b, HSP_MEM_DEVICE, x);
    e->st[k] = st;
}

/* A send without more memory waits for its receiver, however long that computes. */
static void without_memory_a_send_waits(void **state)
{
    struct nw_epoch e;
    struct rank_run r = {.e = &e};
    (void)state;
    open_devices(2, 11);
    real_alloc = ranks[0].b->alloc;
    atomic_store(&refused, 0);
    nw_epoch_init(&e, process, NULL, 2);
    nw_prepare(&e);
    nw_each(2, NULL, crowded_rank, &r);
    for (int k = 0; k < 2; k++) {
        assert_ok(e.st[k], &e.err[k]);
        assert_null(r.wrong[k]);
    }
    assert_int_equal(count_stages(e.comm[0]), 1);
    nw_epoch_close(&e);
    close_devices(2);
}

static void poor_rank(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    struct hsp_backend *b = ranks[k].b;
    float *x = device(b, N);
    b->alloc = no_memory;
    e->st[k] = e->comm[k]->ops->send(e->comm[k], 1, 3, x, N * sizeof *x, &e->err[k]);
    b->alloc = real_alloc;
    b->release(b, HSP_MEM_DEVICE, x);
}

/* A send that has no memory at all fails, for no receiver will set any free. */
static void a_send_without_any_memory_fails(void **state)
{
    struct nw_epoch e;
    (void)state;
    open_devices(2, 12);
    real_alloc = ranks[0].b->alloc;
    nw_epoch_init(&e, process, NULL, 2);
    nw_prepare(&e);
    nw_each(1, NULL, poor_rank, &e);
    assert_status(e.st[0], HSP_ENOMEM);
    nw_epoch_close(&e);
    close_devices(2);
}

/* An abort while kernels wait on the device: the queue goes on, and the epoch does not. A wait for
 * a quiet device ends in time. */
static void lonely(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    struct hsp_group g = {.n = 2, .ranks = all_ranks, .me = 0};
    struct hsp_backend *b = ranks[k].b;
    struct hsp_err err;
    uint64_t t = 0;
    float *x = device(b, N);
    (void)b->fill(b, HSP_DEVQ_COMM, HSP_F32, x, 1.0, N, &err);
    e->st[0] = hsp_comm_all_reduce(e->comm[0], &g, 1, HSP_F32, HSP_REDUCE_SUM, x, N, &e->err[0]);
    (void)b->mark(b, HSP_DEVQ_COMM, &t, &err);
    assert_false(b->reached(b, HSP_DEVQ_COMM, t));
    const struct hsp_nccl_params p = {.timeout_ms = 20};
    assert_status(hsp_nccl_rest(e->comm[0], &p, &err), HSP_ETIMEDOUT);
    assert_non_null(strstr(err.msg, "still has work of the last step"));
    e->comm[0]->ops->abort(e->comm[0]);
    assert_ok(b->finish(b, HSP_DEVQ_COMM, t, &err), &err);
    assert_status(hsp_comm_all_reduce(e->comm[0], &g, 1, HSP_F32, HSP_REDUCE_SUM, x, N, &err),
                  HSP_ECANCELED);
    assert_int_not_equal(e->mesh[0]->ops->send(e->mesh[0], 1, 0, &t, 8, &err), HSP_OK);
    b->release(b, HSP_MEM_DEVICE, x);
}

static void an_abort_frees_the_queue(void **state)
{
    struct nw_epoch e;
    (void)state;
    open_devices(2, 3);
    nw_epoch_init(&e, process, NULL, 2);
    nw_prepare(&e);
    nw_each(1, NULL, lonely, &e);
    assert_ok(e.st[0], &e.err[0]);
    nw_epoch_close(&e);
    close_devices(2);
}

HSP_TEST_FILE(nccl_device_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_in_order),
        cmocka_unit_test(messages_leave_nothing),
        cmocka_unit_test(messages_are_rehearsed),
        cmocka_unit_test(without_memory_a_send_waits),
        cmocka_unit_test(a_send_without_any_memory_fails),
        cmocka_unit_test(an_abort_frees_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
