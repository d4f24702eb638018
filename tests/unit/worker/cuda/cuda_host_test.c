/* Tests the host side of the CUDA backend: queues and tickets, several devices and threads,
 * errors. */
#include <pthread.h>

#include "tests/unit/worker/cuda/stand_in.h"
#include "worker/backend/cuda/cuda_device.h"

#define N 64

extern const struct hsp_device_plugin hsp_cuda_plugin;

static void test_ops_and_queues(void **state)
{
    (void)state;
    struct hsp_err err;
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct hsp_backend *b = standin_open(&(struct hsp_fake_opts){.seed = seed}, NULL);
        assert_true(b->device);
        float *x = standin_alloc(b, N), *y = standin_alloc(b, N), *z = standin_alloc(b, N);
        void *h;
        assert_ok(b->alloc(b, HSP_MEM_HOST, N * sizeof(float), &h, &err), &err);
        standin_fill(b, HSP_DEVQ_COMPUTE, x, 2.0, N);
        standin_fill(b, HSP_DEVQ_COMPUTE, y, 0.0, N);
        assert_ok(b->accumulate(b, HSP_DEVQ_COMPUTE, HSP_F32, y, HSP_F32, x, N, &err), &err);
        assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, z, x, y, N, &err), &err);
        uint64_t t = standin_mark(b, HSP_DEVQ_COMPUTE);
        assert_ok(b->await(b, HSP_DEVQ_COMM, HSP_DEVQ_COMPUTE, t, &err), &err);
        assert_ok(b->copy(b, HSP_DEVQ_COMM, h, z, N * sizeof(float), &err), &err);
        t = standin_mark(b, HSP_DEVQ_COMM);
        assert_ok(b->finish(b, HSP_DEVQ_COMM, t, &err), &err);
        assert_true(((float *)h)[N - 1] == 4.0f);
        struct hsp_cell_view to = {.data = z, .dtype = HSP_F32, .box = {.rank = 2, .hi = {8, 8}}};
        struct hsp_cell_view from = {
            .data = h, .dtype = HSP_F32, .box = {.rank = 2, .lo = {2, 2}, .hi = {10, 10}}};
        struct hsp_box cell = {.rank = 2, .lo = {2, 3}, .hi = {5, 8}};
        assert_ok(b->cells(b, HSP_DEVQ_COMM, &to, &from, &cell, HSP_CELLS_ADD, &err), &err);
        cell.hi[0] = 9; /* the cell lies outside of the first tensor */
        assert_status(b->cells(b, HSP_DEVQ_COMM, &to, &from, &cell, HSP_CELLS_ADD, &err),
                      HSP_EINVAL);
        standin_finish(b, HSP_DEVQ_COMM);
        assert_true(standin_peek(z + 2 * 8 + 3) == 8.0f && standin_peek(z) == 4.0f);
        /* a call for 0 elements is fine, wherever it points */
        assert_ok(b->fill(b, HSP_DEVQ_COMM, HSP_F32, NULL, 1.0, 0, &err), &err);
        assert_ok(b->copy(b, HSP_DEVQ_COMM, NULL, NULL, 0, &err), &err);
        assert_ok(standin_add(b, HSP_DEVQ_COMM, NULL, NULL, NULL, 0, &err), &err);
        assert_ok(b->accumulate(b, HSP_DEVQ_COMM, HSP_F32, NULL, HSP_F32, NULL, 0, &err), &err);
        b->release(b, HSP_MEM_HOST, h);
        b->release(b, HSP_MEM_HOST, NULL);
        b->release(b, HSP_MEM_DEVICE, x);
        assert_non_null(b->native(b, HSP_DEVQ_STATE));
        standin_close(b); /* closes also with memory that nobody released */
    }
}

/* Checks that the tests above would see a wait that is missing. */
static void test_a_missing_wait_is_seen(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N), *y = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 2.0, N);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_ok(b->copy(b, HSP_DEVQ_COMM, y, x, N * sizeof(float), &err), &err);
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 3.0, N);
    b->close(b);
    assert_int_equal(hsp_fake_reports(), 1);
}

/* One thread uses two devices: after any work of one, work of the other goes to the other. */
static void test_two_devices(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *a = standin_open(&(struct hsp_fake_opts){.n_devices = 2}, NULL), *b;
    struct hsp_device_info d;
    float *x = standin_alloc(a, N), *y;
    assert_ok(hsp_backend_cuda_open(1, NULL, &b, &err), &err);
    y = standin_alloc(b, N);
    for (int k = 0; k < 2; k++) {
        standin_fill(a, HSP_DEVQ_COMPUTE, x, 1.0, N);
        standin_fill(b, HSP_DEVQ_COMPUTE, y, 2.0, N);
    }
    assert_ok(hsp_cuda_plugin.describe(0, &d, &err), &err);
    standin_fill(b, HSP_DEVQ_COMPUTE, y, 3.0, N);
    standin_fill(a, HSP_DEVQ_COMPUTE, x, 4.0, N);
    standin_finish(a, HSP_DEVQ_COMPUTE);
    b->close(b);
    standin_fill(a, HSP_DEVQ_COMPUTE, x, 5.0, N);
    standin_finish(a, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(x) == 5.0f);
    standin_close(a);
}

/* Tests copies of one device from another, and devices for which they are refused. */
static void test_reach(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        struct hsp_err err;
        struct hsp_backend *a = standin_open(
                               &(struct hsp_fake_opts){.n_devices = 2, .apart = apart == 1}, NULL),
                           *b;
        bool direct = apart == 1;
        double s = -1;
        float *x = standin_alloc(a, N), *y;
        assert_ok(hsp_backend_cuda_open(1, NULL, &b, &err), &err);
        y = standin_alloc(b, N);
        hsp_fake_fail("cudaDeviceEnablePeerAccess", 1, cudaErrorPeerAccessUnsupported);
        assert_ok(hsp_cuda_plugin.reach(0, 1, &direct, &err), &err); /* the devices may refuse it */
        assert_false(direct);
        hsp_fake_fail(NULL, 0, cudaSuccess);
        for (int k = 0; k < 2; k++) { /* a second call is fine */
            assert_ok(hsp_cuda_plugin.reach(0, 1, &direct, &err), &err);
            assert_true(direct == (apart == 0));
        }
        standin_fill(b, HSP_DEVQ_COMPUTE, y, 2.0, N);
        standin_finish(b, HSP_DEVQ_COMPUTE);
        uint64_t from = standin_mark(a, HSP_DEVQ_COMPUTE);
        assert_ok(a->copy(a, HSP_DEVQ_COMPUTE, x, y, N * sizeof(float), &err), &err);
        uint64_t to = standin_mark(a, HSP_DEVQ_COMPUTE);
        assert_ok(a->finish(a, HSP_DEVQ_COMPUTE, to, &err), &err);
        assert_ok(a->seconds(a, HSP_DEVQ_COMPUTE, from, to, &s, &err), &err);
        assert_true(standin_peek(x) == 2.0f && s >= 0);
        assert_status(hsp_cuda_plugin.reach(0, 2, &direct, &err), HSP_EIO);
        assert_err(&err, HSP_EIO, "GPU 0 and memory of GPU 2: invalid device ordinal");
        /* no error is left over for the next launch */
        standin_fill(a, HSP_DEVQ_COMPUTE, x, 5.0, N);
        standin_finish(a, HSP_DEVQ_COMPUTE);
        b->close(b);
        standin_close(a);
    }
}

static void test_tickets(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, 1);
    uint64_t last = 0, first = 0;
    standin_fill(b, HSP_DEVQ_COMM, x, 0.0, 1);
    for (int i = 0; i < 3 * HSP_MAX_MARKS; i++) {
        uint64_t t = standin_mark(b, HSP_DEVQ_COMM);
        assert_true(t > last);
        first = first == 0 ? t : first;
        last = t;
    }
    assert_int_equal(hsp_fake_usage().events, HSP_MAX_MARKS);
    /* the mark after HSP_MAX_MARKS others has waited for it */
    assert_true(b->reached(b, HSP_DEVQ_COMM, last - HSP_MAX_MARKS));
    assert_true(b->reached(b, HSP_DEVQ_COMM, 0));
    assert_false(b->reached(b, HSP_DEVQ_COMM, last));
    assert_false(b->reached(b, HSP_DEVQ_COMM, last + 1));
    assert_ok(b->await(b, HSP_DEVQ_COMPUTE, HSP_DEVQ_COMM, first, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMM, first, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMM, 0, &err), &err);
    assert_ok(b->await(b, HSP_DEVQ_COMM, HSP_DEVQ_COMPUTE, 0, &err), &err);
    assert_status(b->finish(b, HSP_DEVQ_COMM, last + 1, &err), HSP_EINVAL);
    assert_status(b->await(b, HSP_DEVQ_COMPUTE, HSP_DEVQ_COMM, last + 1, &err), HSP_EINVAL);
    double s = -1.0;
    assert_status(b->seconds(b, HSP_DEVQ_COMM, last - 1, last, &s, &err), HSP_ESTATE);
    standin_fill(b, HSP_DEVQ_COMM, x, 0.0, 1); /* no error is left over for the next launch */
    standin_finish(b, HSP_DEVQ_COMM);
    assert_true(b->reached(b, HSP_DEVQ_COMM, last));
    assert_ok(b->seconds(b, HSP_DEVQ_COMM, last - 1, last, &s, &err), &err);
    assert_true(s >= 0.0 && s < 60.0);
    assert_status(b->seconds(b, HSP_DEVQ_COMM, first, last, &s, &err), HSP_ENOENT);
    assert_status(b->seconds(b, HSP_DEVQ_COMM, last, last - 1, &s, &err), HSP_EINVAL);
    standin_close(b);
}

/* A wrong call leaves the device usable. */
static void test_wrong_calls(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, N);
    struct hsp_call c = {.op = (enum hsp_op)HSP_N_OPS};
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EUNSUPPORTED);
    assert_status(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_FLATTEN, x, x, N, &err), HSP_EINVAL);
    assert_status(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_SGDM, x, x, N, &err), HSP_EINVAL);
    assert_status(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU_DX, x, x, N, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "gelu_dx on a GPU");
    assert_status(b->accumulate(b, HSP_DEVQ_COMPUTE, HSP_BF16, x, HSP_F32, x, N, &err),
                  HSP_EUNSUPPORTED);
    assert_status(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_SQSUM, x, x, N, &err), HSP_ENOMEM);
    assert_non_null(strstr(err.msg, "scratch: 1099511627776 bytes"));
    assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, x, x, x, N, &err), &err);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(x) == 2.0f);
    standin_close(b);
}

/* Checks that every function fails with the message of the first failure. */
static void assert_lost(struct hsp_backend *b, const char *text)
{
    struct hsp_err err;
    void *p;
    uint64_t t;
    double s;
    bool replayed;
    float *x = NULL;
    struct hsp_digest key = {1, 2};
    for (int i = 0; i < 11; i++) {
        enum hsp_status st = HSP_OK;
        err.msg[0] = '\0';
        switch (i) {
        case 0: st = b->alloc(b, HSP_MEM_DEVICE, 8, &p, &err); break;
        case 1: st = standin_add(b, HSP_DEVQ_COMPUTE, x, x, x, 1, &err); break;
        case 2: st = b->accumulate(b, HSP_DEVQ_COMM, HSP_F32, x, HSP_F32, x, 1, &err); break;
        case 3: st = b->copy(b, HSP_DEVQ_STATE, x, x, 4, &err); break;
        case 4: st = b->fill(b, HSP_DEVQ_STATE, HSP_F32, x, 0.0, 1, &err); break;
        case 5: st = b->mark(b, HSP_DEVQ_COMM, &t, &err); break;
        case 6: st = b->await(b, HSP_DEVQ_COMM, HSP_DEVQ_COMPUTE, 0, &err); break;
        case 7: st = b->finish(b, HSP_DEVQ_COMM, 0, &err); break;
        case 8: st = b->seconds(b, HSP_DEVQ_COMM, 1, 1, &s, &err); break;
        case 9: st = b->begin(b, HSP_DEVQ_COMPUTE, &key, &replayed, &err); break;
        case 10: st = b->native(b, HSP_DEVQ_COMM) == NULL ? HSP_EIO : HSP_OK; break;
        }
        assert_int_equal(st, HSP_EIO);
        if (i < 10) {
            assert_string_equal(err.msg, text);
        }
    }
}

static void test_a_lost_device(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N);
    uint64_t t;
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, N);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    hsp_fake_fail_work("gelu out", 1, cudaErrorIllegalAddress);
    assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, x, x, x, N, &err), &err);
    assert_ok(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, x, x, N, &err), &err);
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &t, &err), &err);
    assert_status(b->finish(b, HSP_DEVQ_COMPUTE, t, &err), HSP_EIO);
    const char *text = "GPU 0: work of queue compute: an illegal memory access was encountered; "
                       "under way: compute: add, gelu";
    assert_string_equal(err.msg, text);
    assert_lost(b, text);
    b->release(b, HSP_MEM_DEVICE, x);
    standin_close(b);
}

static void test_a_launch_that_is_refused(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, N);
    assert_status(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_SWIGLU, x, x, N, &err), HSP_EIO);
    assert_non_null(strstr(err.msg, "GPU 0: swiglu: invalid configuration argument"));
    char text[sizeof(err.msg)];
    memcpy(text, err.msg, sizeof(text));
    assert_lost(b, text);
    standin_close(b);
    /* with `sync` every op is waited for, so the failure names its op */
    b = standin_open(NULL, &(struct hsp_device_opts){.sync = true});
    x = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, N);
    hsp_fake_fail_work("add", 1, cudaErrorLaunchFailure);
    assert_status(standin_add(b, HSP_DEVQ_COMPUTE, x, x, x, N, &err), HSP_EIO);
    assert_non_null(strstr(err.msg, "GPU 0: add: unspecified launch failure"));
    standin_close(b);
}

static void test_devices_that_are_not_taken(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b;
    hsp_fake_reset(&(struct hsp_fake_opts){.sm = 61});
    assert_status(hsp_backend_cuda_open(0, NULL, &b, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "GPU 0 (Fake GPU 0) has compute capability 6.1, below 7.5");
    standin_assert_clean();
    hsp_fake_reset(&(struct hsp_fake_opts){.sm = 110});
    hsp_fake_fail("cudaFuncGetAttributes", 1, cudaErrorNoKernelImageForDevice);
    assert_status(hsp_backend_cuda_open(0, NULL, &b, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED,
               "GPU 0 (Fake GPU 0) has compute capability 11.0; this build has kernels for 80 90a, "
               "and for GPUs newer than 90");
    standin_assert_clean();
    /* a newer GPU, for which the library finds code */
    b = standin_open(&(struct hsp_fake_opts){.sm = 130}, NULL);
    standin_close(b);
    assert_status(hsp_backend_cuda_open(3, NULL, &b, &err), HSP_EIO);
    assert_err(&err, HSP_EIO, "GPU 3: its use by a thread: invalid device ordinal");
    standin_assert_clean();
}

/* ---- two threads ---- */

#define TURNS 200

struct pair {
    struct hsp_backend *b;
    float *x, *y, *h; /* h is pinned memory */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    uint64_t made[TURNS], taken[TURNS]; /* tickets of compute and of comm; 0: not given yet */
};

static void tell(struct pair *p, uint64_t *at, uint64_t ticket)
{
    (void)pthread_mutex_lock(&p->lock);
    *at = ticket;
    (void)pthread_cond_broadcast(&p->cond);
    (void)pthread_mutex_unlock(&p->lock);
}

static uint64_t ask(struct pair *p, const uint64_t *at)
{
    (void)pthread_mutex_lock(&p->lock);
    while (*at == 0) {
        (void)pthread_cond_wait(&p->cond, &p->lock);
    }
    uint64_t ticket = *at;
    (void)pthread_mutex_unlock(&p->lock);
    return ticket;
}

/* Copies the other thread's output to the host, and checks it. */
static void *taker(void *ctx)
{
    struct pair *p = ctx;
    struct hsp_backend *b = p->b;
    struct hsp_err err;
    for (int i = 0; i < TURNS; i++) {
        void *extra;
        assert_ok(b->await(b, HSP_DEVQ_COMM, HSP_DEVQ_COMPUTE, ask(p, &p->made[i]), &err), &err);
        assert_ok(b->copy(b, HSP_DEVQ_COMM, p->h, p->y, N * sizeof(float), &err), &err);
        uint64_t t = standin_mark(b, HSP_DEVQ_COMM);
        tell(p, &p->taken[i], t);
        assert_ok(b->alloc(b, HSP_MEM_DEVICE, 1000, &extra, &err), &err);
        assert_ok(b->finish(b, HSP_DEVQ_COMM, t, &err), &err);
        b->release(b, HSP_MEM_DEVICE, extra);
        assert_true(p->h[0] == (float)(i + 1) && p->h[N - 1] == (float)(i + 1));
    }
    return NULL;
}

static void test_two_threads(void **state)
{
    (void)state;
    struct hsp_err err;
    struct pair p = {.b = standin_open(NULL, NULL)};
    struct hsp_backend *b = p.b;
    pthread_t other;
    struct hsp_digest key = {8, 8};
    void *h;
    (void)pthread_mutex_init(&p.lock, NULL);
    (void)pthread_cond_init(&p.cond, NULL);
    assert_ok(b->alloc(b, HSP_MEM_HOST, N * sizeof(float), &h, &err), &err);
    p.h = h;
    p.x = standin_alloc(b, N);
    p.y = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, p.x, 1.0, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, p.y, 0.0, N);
    assert_int_equal(pthread_create(&other, NULL, taker, &p), 0);
    for (int i = 0; i < TURNS; i++) {
        bool replayed;
        if (i > 0) { /* waits until the output has been copied before it is computed again */
            assert_ok(b->await(b, HSP_DEVQ_COMPUTE, HSP_DEVQ_COMM, ask(&p, &p.taken[i - 1]), &err),
                      &err);
        }
        assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &key, &replayed, &err), &err);
        if (!replayed) {
            assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, p.y, p.y, p.x, N, &err), &err);
            assert_ok(b->end(b, HSP_DEVQ_COMPUTE, &err), &err);
        }
        tell(&p, &p.made[i], standin_mark(b, HSP_DEVQ_COMPUTE));
    }
    assert_int_equal(pthread_join(other, NULL), 0);
    (void)pthread_cond_destroy(&p.cond);
    (void)pthread_mutex_destroy(&p.lock);
    standin_close(b);
}

/* Makes one call or more of every kind; stops at the first error. */
static enum hsp_status story(struct hsp_backend *b, struct hsp_err *err)
{
    void *x = NULL, *y = NULL, *h = NULL;
    uint64_t t = 0;
    const size_t bytes = N * sizeof(float);
    struct hsp_digest key = {3, 4};
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, bytes, &x, err);
    st = st == HSP_OK ? b->alloc(b, HSP_MEM_DEVICE, bytes, &y, err) : st;
    st = st == HSP_OK ? b->alloc(b, HSP_MEM_HOST, bytes, &h, err) : st;
    st = st == HSP_OK ? b->fill(b, HSP_DEVQ_COMPUTE, HSP_F32, x, 1.0, N, err) : st;
    for (int i = 0; i < 4 && st == HSP_OK; i++) {
        bool replayed = false;
        st = b->begin(b, HSP_DEVQ_COMPUTE, &key, &replayed, err);
        bool between = st == HSP_OK && !replayed;
        for (bool more = between; more;) {
            st = standin_add(b, HSP_DEVQ_COMPUTE, y, x, x, N, err);
            st = st == HSP_OK ? standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, x, y, N, err) : st;
            struct hsp_err other;
            enum hsp_status end = HSP_OK;
            if (between) {
                end = b->end(b, HSP_DEVQ_COMPUTE, st == HSP_OK ? err : &other);
            }
            more = st == HSP_OK && end == HSP_AGAIN;
            st = st == HSP_OK && !more ? end : st;
            between = false;
        }
    }
    st = st == HSP_OK ? b->mark(b, HSP_DEVQ_COMPUTE, &t, err) : st;
    st = st == HSP_OK ? b->await(b, HSP_DEVQ_STATE, HSP_DEVQ_COMPUTE, t, err) : st;
    st = st == HSP_OK ? b->copy(b, HSP_DEVQ_STATE, h, x, bytes, err) : st;
    st = st == HSP_OK ? b->mark(b, HSP_DEVQ_STATE, &t, err) : st;
    st = st == HSP_OK ? b->finish(b, HSP_DEVQ_STATE, t, err) : st;
    if (st == HSP_OK) {
        assert_true(((float *)h)[0] == 16.0f); /* 1 was doubled four times */
    }
    b->release(b, HSP_MEM_HOST, h);
    b->release(b, HSP_MEM_DEVICE, y);
    b->release(b, HSP_MEM_DEVICE, x);
    return st;
}

/* Makes every call of the library fail in its turn, in three ways: no memory is lost, and at most
 * the device fails. */
static void test_every_call_fails(void **state)
{
    (void)state;
    static const cudaError_t how[] = {cudaErrorMemoryAllocation, cudaErrorUnknown,
                                      cudaErrorIllegalAddress};
    for (int k = 0; k < 3; k++) {
        unsigned n = 1, failed = 0;
        for (bool through = false; !through; n++) {
            struct hsp_backend *b = NULL;
            struct hsp_err err = {.code = HSP_OK};
            /* an op may go on after a launch that failed */
            hsp_fake_reset(&(struct hsp_fake_opts){.seed = n, .lenient = true});
            hsp_fake_fail(NULL, n, how[k]);
            enum hsp_status st = hsp_backend_cuda_open(0, NULL, &b, &err);
            st = st == HSP_OK ? story(b, &err) : st;
            unsigned calls = hsp_fake_calls(NULL);
            if (b != NULL) {
                b->close(b);
            }
            through = n > calls;
            if (st != HSP_OK) {
                failed++;
                assert_true(st == HSP_EIO || (st == HSP_ENOMEM && k == 0));
                assert_non_null(strstr(err.msg, "GPU 0: "));
            }
            standin_assert_clean();
        }
        assert_true(n > 40 &&
                    failed > (k == 2 ? 30 : 20)); /* the device goes on after failures of graphs */
    }
}

HSP_TEST_FILE(cuda_host_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_and_queues),
        cmocka_unit_test(test_a_missing_wait_is_seen),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_tickets),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_a_lost_device),
        cmocka_unit_test(test_a_launch_that_is_refused),
        cmocka_unit_test(test_devices_that_are_not_taken),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_every_call_fails),
    };
    return cmocka_run_group_tests_name("cudahost", tests, NULL, NULL);
}
