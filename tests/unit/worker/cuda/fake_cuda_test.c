/* Tests the CUDA device of the tests: the order of its work, and the faults that it finds. */
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/testlib.h"

#define N 64

static void ok(cudaError_t e)
{
    if (e != cudaSuccess) {
        fail_msg("%s", cudaGetErrorName(e));
    }
}

static cudaStream_t stream(void)
{
    cudaStream_t s;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t event(void)
{
    cudaEvent_t e;
    ok(cudaEventCreateWithFlags(&e, cudaEventDefault));
    return e;
}

static void *device(size_t bytes)
{
    void *p;
    ok(cudaMalloc(&p, bytes));
    return p;
}

static void *pinned(size_t bytes)
{
    void *p;
    ok(cudaHostAlloc(&p, bytes, cudaHostAllocDefault));
    return p;
}

/* An addition, as a kernel would be given to a stream. */
struct sum {
    int32_t *dst;
    const int32_t *a;
    int32_t b;
};

static void run_sum(void *args)
{
    const struct sum *s = args;
    if (hsp_fake_touch(s->a, 4, false) && hsp_fake_touch(s->dst, 4, true)) {
        *s->dst = *s->a + s->b;
    }
}

static cudaError_t give_sum(cudaStream_t s, int32_t *dst, const int32_t *a, int32_t b)
{
    struct sum x = {dst, a, b};
    struct hsp_fake_work w = {.name = "sum",
                              .func = "sum",
                              .run = run_sum,
                              .args = &x,
                              .bytes = sizeof(x),
                              .grid = {1, 1, 1},
                              .block = {1, 1, 1}};
    return hsp_fake_submit(s, &w);
}

static int32_t peek(const int32_t *p)
{
    int32_t v;
    hsp_fake_peek(&v, p, sizeof(v));
    return v;
}

/* Checks that everything was given back and no fault was reported. */
static void assert_clean(void)
{
    struct hsp_fake_usage u = hsp_fake_usage();
    if (hsp_fake_reports() != 0) {
        fail_msg("%s", hsp_fake_report(0));
    }
    assert_int_equal(u.device_bytes + u.pinned_bytes, 0);
    assert_int_equal(u.streams + u.events + u.graphs + u.execs + u.pending, 0);
}

static int set_up(void **state)
{
    (void)state;
    hsp_fake_reset(&(struct hsp_fake_opts){.seed = hsp_test_seed()});
    return 0;
}

static void test_work_waits_for_the_host(void **state)
{
    (void)state;
    cudaStream_t s = stream();
    int32_t *d = device(8), *h = pinned(4);
    h[0] = 5;
    ok(cudaMemcpyAsync(d, h, 4, cudaMemcpyDefault, s));
    h[0] = 7; /* changes the source too early: the copy has not run */
    ok(give_sum(s, d + 1, d, 3));
    assert_int_equal(hsp_fake_usage().pending, 2);
    assert_int_equal(cudaStreamQuery(s), cudaErrorNotReady);
    ok(cudaStreamSynchronize(s));
    ok(cudaStreamQuery(s));
    assert_int_equal(peek(d + 1), 10);
    int32_t plain = 40; /* a copy from ordinary memory reads it during the call */
    ok(cudaMemcpyAsync(d, &plain, 4, cudaMemcpyDefault, s));
    plain = 0;
    ok(give_sum(s, d + 1, d, 2));
    /* and a copy to ordinary memory writes it during the call */
    ok(cudaMemcpyAsync(&plain, d + 1, 4, cudaMemcpyDefault, s));
    assert_int_equal(plain, 42);
    assert_int_equal(hsp_fake_done("sum"), 2);
    ok(cudaFree(d));
    ok(cudaFreeHost(h));
    ok(cudaStreamDestroy(s));
    assert_clean();
}

static void test_streams_run_in_any_order(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (uint64_t seed = 0; seed < 32 && seen != 3; seed++) {
        hsp_fake_reset(&(struct hsp_fake_opts){.seed = seed});
        cudaStream_t a = stream(), b = stream();
        int32_t *h = pinned(4);
        h[0] = 0;
        ok(give_sum(a, h, h, 1));
        ok(give_sum(b, h, h, 0)); /* the two writes are a race, and the race is reported */
        ok(cudaStreamSynchronize(b));
        seen |= h[0] == 1 ? 1 : 2;
        ok(cudaStreamSynchronize(a));
        assert_int_equal(hsp_fake_reports(), 1);
    }
    assert_int_equal(seen, 3);
}

static void test_events_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 16; seed++) {
        hsp_fake_reset(&(struct hsp_fake_opts){.seed = seed});
        cudaStream_t a = stream(), b = stream();
        cudaEvent_t e = event();
        int32_t *d = device(4 * N);
        /* the event was never recorded: there is nothing to wait for */
        ok(cudaStreamWaitEvent(b, e, 0));
        ok(cudaMemsetAsync(d, 0, 4 * N, a));
        for (int i = 1; i < N; i++) {
            cudaStream_t s = i % 2 != 0 ? a : b;
            ok(give_sum(s, d + i, d + i - 1, 1));
            ok(cudaEventRecord(e, s));
            ok(cudaStreamWaitEvent(i % 2 != 0 ? b : a, e, 0));
        }
        ok(cudaEventSynchronize(e));
        assert_int_equal(peek(d + N - 1), N - 1);
        ok(cudaEventDestroy(e));
        ok(cudaDeviceSynchronize());
        ok(cudaStreamDestroy(a));
        ok(cudaStreamDestroy(b));
        ok(cudaFree(d));
        assert_clean();
    }
}

static void test_races_are_found(void **state)
{
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        hsp_fake_reset(&(struct hsp_fake_opts){.seed = (uint64_t)kind});
        cudaStream_t a = stream(), b = stream();
        cudaEvent_t e = event();
        int32_t *d = device(16);
        ok(cudaMemset(d, 0, 16));
        bool race = kind < 3;
        switch (kind) {
        case 0: /* both queues write */
            ok(give_sum(a, d, d + 1, 1));
            ok(give_sum(b, d, d + 2, 1));
            break;
        case 1: /* read, then written */
            ok(give_sum(a, d + 1, d, 1));
            ok(cudaMemsetAsync(d, 0, 4, b));
            break;
        case 2: /* the event was recorded too early */
            ok(cudaEventRecord(e, a));
            ok(give_sum(a, d, d + 1, 1));
            ok(cudaStreamWaitEvent(b, e, 0));
            ok(give_sum(b, d + 2, d, 1));
            break;
        case 3: /* both queues read */
            ok(give_sum(a, d + 1, d, 1));
            ok(give_sum(b, d + 2, d, 1));
            break;
        case 4: /* the host has waited in between */
            ok(give_sum(a, d, d, 1));
            ok(cudaStreamSynchronize(a));
            ok(give_sum(b, d, d, 1));
            break;
        case 5: /* the queues write neighbours of two bytes each */
            ok(cudaMemsetAsync(d, 0, 2, a));
            ok(cudaMemsetAsync((uint8_t *)d + 2, 0, 2, b));
            break;
        }
        ok(cudaDeviceSynchronize());
        assert_int_equal(hsp_fake_reports(), race ? 1 : 0);
        if (race) {
            assert_non_null(strstr(hsp_fake_report(0), "race: "));
        }
    }
}

static void test_bounds(void **state)
{
    (void)state;
    cudaStream_t s = stream();
    int32_t *d = device(8);
    ok(give_sum(s, d, d, 1)); /* nobody wrote the memory that is read */
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    assert_non_null(strstr(hsp_fake_report(0), "nobody wrote"));
    hsp_fake_reset(NULL);
    s = stream();
    d = device(8);
    ok(cudaMemsetAsync(d, 0, 8, s));
    ok(give_sum(s, d + 2, d, 1));
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    assert_non_null(strstr(hsp_fake_report(0), "outside of all allocations"));
    assert_int_equal(cudaMemsetAsync(d, 0, 4, s), cudaErrorIllegalAddress); /* the error stays */
    hsp_fake_reset(NULL);
    s = stream();
    d = device(8);
    ok(cudaMemsetAsync(d, 0, 8, s));
    ok(cudaFree(d)); /* work on the memory is under way */
    int32_t *other = device(8);
    assert_ptr_not_equal(d, other);
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorIllegalAddress);
    hsp_fake_reset(NULL);
    s = stream();
    d = device(8);
    assert_int_equal(cudaMemsetAsync(d, 0, 9, s), cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(d, d + 1, 8, cudaMemcpyDefault, s), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(d + 1), cudaErrorInvalidValue);
    hsp_fake_reset(NULL);
}

static void test_graphs(void **state)
{
    (void)state;
    cudaStream_t s = stream();
    int32_t *d = device(8);
    ok(cudaMemset(d, 0, 8));
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    ok(give_sum(s, d, d, 1));
    ok(give_sum(s, d + 1, d, 10));
    cudaGraph_t g;
    ok(cudaStreamEndCapture(s, &g));
    ok(cudaStreamSynchronize(s));
    assert_int_equal(peek(d), 0);
    cudaGraphExec_t x;
    ok(cudaGraphInstantiate(&x, g, 0));
    ok(cudaGraphDestroy(g));
    for (int i = 0; i < 3; i++) {
        ok(cudaGraphLaunch(x, s));
    }
    ok(cudaStreamSynchronize(s));
    assert_int_equal(peek(d), 3);
    assert_int_equal(peek(d + 1), 13);
    cudaGraphExecUpdateResultInfo info;
    for (int same = 0; same < 2; same++) { /* a graph with other numbers; with other calls */
        ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
        ok(give_sum(s, d, d, 100));
        ok(same != 0 ? give_sum(s, d + 1, d, 20) : cudaMemsetAsync(d, 0, 4, s));
        ok(cudaStreamEndCapture(s, &g));
        assert_int_equal(cudaGraphExecUpdate(x, g, &info),
                         same != 0 ? cudaSuccess : cudaErrorGraphExecUpdateFailure);
        ok(cudaGraphDestroy(g));
    }
    ok(cudaGraphLaunch(x, s));
    ok(cudaStreamSynchronize(s));
    assert_int_equal(peek(d + 1), 123);
    ok(cudaGraphExecDestroy(x));
    ok(cudaFree(d));
    ok(cudaStreamDestroy(s));
    assert_clean();
}

static void test_what_a_capture_forbids(void **state)
{
    (void)state;
    cudaStream_t s = stream(), other = stream();
    cudaEvent_t e = event();
    cudaGraph_t g;
    void *p;
    ok(cudaEventRecord(e, other));
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaStreamWaitEvent(s, e, 0), cudaErrorStreamCaptureIsolation);
    assert_int_equal(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaMalloc(&p, 8), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    ok(cudaMalloc(&p, 8));
    ok(cudaStreamEndCapture(s, &g));
    ok(cudaGraphDestroy(g));
    assert_int_equal(cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureUnmatched);
    ok(cudaDeviceSynchronize());
    assert_int_equal(hsp_fake_reports(), 0);
}

static void test_faults(void **state)
{
    (void)state;
    void *p;
    hsp_fake_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    ok(cudaMalloc(&p, 8));
    ok(cudaFree(p));
    assert_int_equal(cudaMalloc(&p, 8), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(hsp_fake_calls("cudaMalloc"), 2);
    cudaStream_t s = stream();
    int32_t *d = device(8);
    ok(cudaMemsetAsync(d, 0, 8, s));
    hsp_fake_fail_work("sum", 1, cudaErrorLaunchFailure);
    ok(give_sum(s, d, d, 1)); /* the fault is reported by a later call */
    assert_int_equal(cudaStreamSynchronize(s), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    assert_int_equal(cudaGetLastError(), cudaErrorLaunchFailure);
    assert_int_equal(cudaMalloc(&p, 8), cudaErrorLaunchFailure);
    assert_int_equal(cudaFree(d), cudaErrorLaunchFailure); /* the memory is freed all the same */
    assert_int_equal(cudaStreamDestroy(s), cudaErrorLaunchFailure);
    assert_clean();
    hsp_fake_reset(NULL);
    s = stream();
    struct hsp_fake_work w = {
        .name = "big", .run = run_sum, .grid = {1, 1, 1}, .block = {1025, 1, 1}};
    assert_int_equal(hsp_fake_submit(s, &w), cudaErrorInvalidConfiguration);
    w.block.x = 32;
    w.smem = 64 * 1024;
    assert_int_equal(hsp_fake_submit(s, &w), cudaErrorInvalidValue);
    assert_int_equal(cudaMemsetAsync(NULL, 0, 0, NULL), cudaErrorInvalidResourceHandle);
    assert_int_equal(hsp_fake_reports(), 1); /* work on the default stream is a fault */
    hsp_fake_reset(NULL);
}

static void test_memory_is_accounted(void **state)
{
    (void)state;
    hsp_fake_reset(&(struct hsp_fake_opts){.memory_bytes = 1 << 20});
    void *a, *b;
    ok(cudaMalloc(&a, 700000));
    assert_int_equal(cudaMalloc(&b, 700000), cudaErrorMemoryAllocation);
    size_t free_bytes, total;
    ok(cudaMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, (1 << 20) - 700000);
    assert_int_equal(total, 1 << 20);
    ok(cudaFree(a));
    ok(cudaMalloc(&b, 700000));
    assert_ptr_equal(a, b); /* a device also gives out the same address again */
    ok(cudaFree(b));
    assert_int_equal(hsp_fake_usage().device_peak_bytes, 700000);
    assert_clean();
    hsp_fake_reset(NULL);
}

HSP_TEST_FILE(fake_cuda_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_work_waits_for_the_host, set_up),
        cmocka_unit_test_setup(test_streams_run_in_any_order, set_up),
        cmocka_unit_test_setup(test_events_order, set_up),
        cmocka_unit_test_setup(test_races_are_found, set_up),
        cmocka_unit_test_setup(test_bounds, set_up),
        cmocka_unit_test_setup(test_graphs, set_up),
        cmocka_unit_test_setup(test_what_a_capture_forbids, set_up),
        cmocka_unit_test_setup(test_faults, set_up),
        cmocka_unit_test_setup(test_memory_is_accounted, set_up),
    };
    return cmocka_run_group_tests_name("fakecuda", tests, NULL, NULL);
}
