/* Tests memory of the CUDA backend: limits, releases while the device works, pinned memory. */
#include "tests/unit/worker/cuda/stand_in.h"

#define N 64

static void test_memory(void **state)
{
    (void)state;
    struct hsp_err err;
    void *p, *q;
    struct hsp_backend *b = standin_open(&(struct hsp_fake_opts){.memory_bytes = 1 << 20}, NULL);
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, 0, &p, &err), &err);
    assert_null(p);
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, 700001, &p, &err), &err);
    assert_int_equal((uintptr_t)p % 256, 0);
    assert_int_equal(hsp_fake_usage().device_bytes, 700160);
    assert_status(b->alloc(b, HSP_MEM_DEVICE, 400000, &q, &err), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM,
               "GPU 0: memory: 400128 bytes of device memory, of which 348416 of 1048576 are free");
    assert_status(b->alloc(b, HSP_MEM_DEVICE, SIZE_MAX, &q, &err), HSP_ENOMEM);
    assert_status(b->alloc(b, HSP_MEM_HOST, (size_t)1 << 40, &q, &err), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM, "GPU 0: memory: 1099511627776 bytes of pinned memory");
    b->release(b, HSP_MEM_DEVICE, p);
    assert_int_equal(hsp_fake_usage().device_bytes, 0);
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, 400000, &q, &err), &err); /* the device still allocates */
    standin_close(b);
}

static void test_a_limit(void **state)
{
    (void)state;
    struct hsp_err err;
    void *p, *q;
    const int64_t n = 1 << 18;
    struct hsp_backend *b =
        standin_open(NULL, &(struct hsp_device_opts){.memory_bytes = (size_t)4 << 20});
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, (size_t)3 << 20, &p, &err), &err);
    assert_status(b->alloc(b, HSP_MEM_DEVICE, (size_t)2 << 20, &q, &err), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM,
               "GPU 0: memory: 2097152 bytes of device memory, beyond the limit of 4194304 of "
               "which 3145728 are taken");
    float *x = standin_alloc(b, n);
    assert_status(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, x, x, n, &err), HSP_ENOMEM);
    /* scratch counts against the limit */
    assert_non_null(strstr(err.msg, "scratch: 1048576 bytes"));
    b->release(b, HSP_MEM_DEVICE, p);
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, n);
    assert_ok(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, x, x, n, &err), &err);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    standin_close(b);
}

static void *take(struct hsp_backend *b, size_t bytes)
{
    struct hsp_err err;
    void *p;
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes, &p, &err), &err);
    return p;
}

/* Blocks that were released while the device worked belong to no owner, and are freed before an
 * allocation fails at the limit. */
static void test_a_limit_in_the_midst_of_work(void **state)
{
    const size_t mib = (size_t)1 << 20;
    struct hsp_err err;
    (void)state;
    struct hsp_backend *b = standin_open(NULL, &(struct hsp_device_opts){.memory_bytes = 4 * mib});
    void *p = take(b, 3 * mib - 256), *q;
    float *y = take(b, 256);
    standin_fill(b, HSP_DEVQ_COMM, y, 1.0, 64);
    b->release(b, HSP_MEM_DEVICE, p); /* the block is retired */
    assert_int_equal(hsp_fake_usage().device_bytes, 3 * mib);
    q = take(b, 2 * mib);
    assert_int_equal(hsp_fake_calls("cudaFree"), 1);
    assert_int_equal(hsp_fake_usage().device_bytes, 2 * mib + 256);
    standin_fill(b, HSP_DEVQ_COMM, y, 2.0, 64);
    b->release(b, HSP_MEM_DEVICE, q);
    assert_ptr_equal(take(b, 2 * mib), q); /* the block is given out again */
    p = take(b, mib / 2);
    standin_fill(b, HSP_DEVQ_COMM, y, 3.0, 64);
    b->release(b, HSP_MEM_DEVICE, p);
    p = take(b, mib); /* the limit leaves room beside retired memory */
    assert_int_equal(hsp_fake_calls("cudaFree"), 1);
    assert_int_equal(hsp_fake_usage().device_bytes, 7 * mib / 2 + 256);
    standin_fill(b, HSP_DEVQ_COMM, y, 4.0, 64);
    assert_status(b->alloc(b, HSP_MEM_DEVICE, mib, &p, &err), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM,
               "GPU 0: memory: 1048576 bytes of device memory, beyond the limit of 4194304 of "
               "which 3145984 are taken");
    standin_finish(b, HSP_DEVQ_COMM);
    standin_close(b);
}

/* cudaFree waits for the device, so a release while the device works must not call cudaFree. */
static void test_release_does_not_wait(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(&(struct hsp_fake_opts){.memory_bytes = 1 << 20}, NULL);
    float *x = standin_alloc(b, 100000), *y = standin_alloc(b, 64), *z;
    standin_fill(b, HSP_DEVQ_COMM, y, 1.0, 64);
    b->release(b, HSP_MEM_DEVICE, x);
    assert_int_equal(hsp_fake_calls("cudaFree"), 0);
    assert_int_equal(hsp_fake_usage().pending, 1);
    z = standin_alloc(b, 100000); /* a request for as many bytes gets the same block */
    assert_ptr_equal(z, x);
    assert_int_equal(hsp_fake_calls("cudaMalloc"), 2);
    b->release(b, HSP_MEM_DEVICE, z);
    z = standin_alloc(b, 200000); /* memory runs short: now the retired block is freed */
    assert_int_equal(hsp_fake_calls("cudaFree"), 1);
    standin_finish(b, HSP_DEVQ_COMM);
    b->release(b, HSP_MEM_DEVICE, z);
    assert_int_equal(hsp_fake_calls("cudaFree"), 2);
    (void)err;
    standin_close(b);
}

static bool peer_came;

static bool has_come(void *args)
{
    (void)args;
    return peer_came;
}

static void arrives(void *args)
{
    (void)args;
}

/* Issues a receive that waits for its peer. */
static void receive(struct hsp_backend *b)
{
    struct hsp_fake_work w = {.name = "receive", .run = arrives, .ready = has_come};
    peer_came = false;
    assert_int_equal(hsp_fake_submit(b->native(b, HSP_DEVQ_LANE), &w), cudaSuccess);
}

static unsigned frees(void)
{
    return hsp_fake_calls("cudaFree") + hsp_fake_calls("cudaFreeHost") +
           hsp_fake_calls("cudaHostUnregister");
}

/* A call of CUDA that frees memory waits for all work of the device, and a peer may wait for the
 * caller. So nothing is freed, and no call waits, before the steps have ended. */
static void test_nothing_is_freed_while_a_peer_is_awaited(void **state)
{
    const size_t mib = (size_t)1 << 20;
    struct hsp_err err;
    (void)state;
    struct hsp_backend *b = standin_open(NULL, &(struct hsp_device_opts){.memory_bytes = 4 * mib});
    static char pinned[4096], stays[4096];
    void *p = take(b, 2 * mib), *h, *none;
    assert_ok(b->pin(b, pinned, sizeof pinned, &err), &err);
    assert_ok(b->pin(b, stays, sizeof stays, &err), &err);
    assert_ok(b->alloc(b, HSP_MEM_HOST, mib, &h, &err), &err);
    receive(b);
    b->release(b, HSP_MEM_DEVICE, p);
    b->release(b, HSP_MEM_HOST, h);
    void *q = take(b, mib); /* the limit leaves room beside retired memory */
    assert_status(b->alloc(b, HSP_MEM_DEVICE, 2 * mib - 256, &none, &err), HSP_ENOMEM);
    assert_err(&err, HSP_ENOMEM,
               "GPU 0: memory: 2096896 bytes of device memory, beyond the limit of 4194304 of "
               "which 1048576 are taken and 2097152 are kept until the steps end");
    assert_ptr_equal(take(b, 2 * mib), p); /* a request of the same size gets the retired block */
    b->release(b, HSP_MEM_DEVICE, p);
    assert_false(b->unpin(b, pinned));
    assert_false(b->trim(b)); /* the device is busy */
    assert_int_equal(frees(), 0);
    assert_int_equal(hsp_fake_usage().blocked, 0);
    peer_came = true;
    hsp_fake_settle();
    assert_true(b->trim(b));
    assert_int_equal(hsp_fake_usage().device_bytes, mib);
    assert_int_equal(hsp_fake_usage().pinned_bytes, sizeof stays);
    assert_true(b->unpin(b, pinned)); /* trim has unpinned it already */
    assert_int_equal(frees(), 3);
    b->release(b, HSP_MEM_DEVICE, q); /* without a transport there is nothing to wait for */
    assert_true(b->unpin(b, stays));
    assert_int_equal(frees(), 5);
    assert_int_equal(hsp_fake_usage().blocked, 0);
    standin_close(b);
}

/* A transport that has not greeted a peer yet changes nothing. */
static void test_a_transport_without_peers(void **state)
{
    (void)state;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_GREET, x, 0.0, N);
    standin_finish(b, HSP_DEVQ_GREET);
    b->release(b, HSP_MEM_DEVICE, x);
    assert_int_equal(hsp_fake_calls("cudaFree"), 1);
    standin_close(b);
}

/* A caller releases memory only when no queue uses it, so the next owner of the block needs no
 * await. The stand-in reports a release before the end of the work as a race. */
static void test_what_is_released_is_used_by_nobody(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct hsp_backend *b = standin_open(&(struct hsp_fake_opts){.seed = 5}, NULL);
        float *x = standin_alloc(b, N), *y = standin_alloc(b, 2 * N);
        standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, N);
        if (early == 0) {
            standin_finish(b, HSP_DEVQ_COMPUTE);
        }
        standin_fill(b, HSP_DEVQ_COMM, y, 2.0, 2 * N); /* the device is busy */
        b->release(b, HSP_MEM_DEVICE, x);
        assert_ptr_equal(standin_alloc(b, N), x);
        standin_fill(b, HSP_DEVQ_STATE, x, 3.0, N);
        standin_finish(b, HSP_DEVQ_STATE);
        hsp_fake_settle();
        assert_int_equal(hsp_fake_reports(), early);
        assert_true(early == 0 || strstr(hsp_fake_report(0), "race: ") != NULL);
        b->close(b);
    }
}

/* Retired pinned memory is freed, too, if no later allocation asks for its size. */
static void test_retired_pinned_memory(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *y = standin_alloc(b, 64);
    for (size_t k = 1; k <= 8; k++) {
        void *h;
        assert_ok(b->alloc(b, HSP_MEM_HOST, 4096 * k, &h, &err), &err);
        standin_fill(b, HSP_DEVQ_COMM, y, 1.0, 64);
        b->release(b, HSP_MEM_HOST, h);
        standin_finish(b, HSP_DEVQ_COMM);
    }
    assert_true(hsp_fake_usage().pinned <= 1);
    standin_close(b);
}

/* Copies to memory of the caller. When the memory is pinned the copy is asynchronous: it ends after
 * the call has returned. Otherwise the copy ends before the call returns. */
static void test_memory_of_the_caller(void **state)
{
    (void)state;
    struct hsp_err err;
    float mine[N] = {0};
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N);
    const struct {
        cudaError_t e;
        enum hsp_status st;
    } refused[] = {{cudaErrorMemoryAllocation, HSP_ENOMEM},
                   {cudaErrorNotSupported, HSP_EUNSUPPORTED},
                   {cudaErrorInvalidValue, HSP_EUNSUPPORTED}};
    for (int k = 0; k < 3; k++) {
        hsp_fake_fail("cudaHostRegister", 1, refused[k].e);
        assert_int_equal(b->pin(b, mine, sizeof mine, &err), refused[k].st);
        assert_non_null(strstr(err.msg, "GPU 0: cannot pin 256 bytes: "));
        standin_fill(b, HSP_DEVQ_STATE, x, k + 1.0, N);
        assert_ok(b->copy(b, HSP_DEVQ_STATE, mine, x, sizeof mine, &err), &err);
        assert_true(mine[N - 1] == (float)(k + 1));
    }
    assert_int_equal(hsp_fake_usage().pinned, 0);
    assert_ok(b->pin(b, mine, sizeof mine, &err), &err);
    assert_int_equal(hsp_fake_usage().pinned_bytes, sizeof mine);
    standin_fill(b, HSP_DEVQ_STATE, x, 9.0, N);
    assert_ok(b->copy(b, HSP_DEVQ_STATE, mine, x, sizeof mine, &err), &err);
    assert_true(mine[N - 1] == 3.0f);
    standin_finish(b, HSP_DEVQ_STATE);
    assert_true(mine[0] == 9.0f && mine[N - 1] == 9.0f);
    assert_true(b->unpin(b, mine));
    assert_int_equal(hsp_fake_usage().pinned, 0);
    assert_ok(b->copy(b, HSP_DEVQ_STATE, x, mine, sizeof mine, &err), &err);
    mine[0] = 1.0f;
    standin_finish(b, HSP_DEVQ_STATE);
    assert_true(standin_peek(x) == 9.0f);
    standin_close(b);
}

/* Pinned memory is given back even if the device is lost, and a device that is lost pins none. */
static void test_memory_of_the_caller_and_a_lost_device(void **state)
{
    (void)state;
    struct hsp_err err;
    float mine[N] = {0}, other[N];
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N);
    assert_ok(b->pin(b, mine, sizeof mine, &err), &err);
    hsp_fake_fail_work("fill", 1, cudaErrorIllegalAddress);
    standin_fill(b, HSP_DEVQ_STATE, x, 1.0, N);
    uint64_t t = standin_mark(b, HSP_DEVQ_STATE);
    assert_status(b->finish(b, HSP_DEVQ_STATE, t, &err), HSP_EIO);
    assert_status(b->pin(b, other, sizeof other, &err), HSP_EIO);
    assert_true(b->unpin(b, mine));
    standin_close(b);
}

/* Tests the stand-in: it finds memory that is unpinned too early, and memory that is pinned
 * twice. */
static void test_pinned_wrongly(void **state)
{
    (void)state;
    struct hsp_err err;
    float mine[N] = {0};
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_STATE, x, 1.0, N);
    assert_ok(b->pin(b, mine, sizeof mine, &err), &err);
    assert_status(b->pin(b, mine + N / 2, sizeof mine / 2, &err), HSP_EUNSUPPORTED);
    assert_int_equal(hsp_fake_reports(), 1);
    assert_ok(b->copy(b, HSP_DEVQ_STATE, mine, x, sizeof mine, &err), &err);
    assert_true(b->unpin(b, mine));
    assert_int_equal(hsp_fake_reports(), 2);
    assert_non_null(strstr(hsp_fake_report(1), "in the midst of a copy"));
    hsp_fake_settle();
    b->close(b);
    hsp_fake_reset(NULL);
}

HSP_TEST_FILE(cuda_memory_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_a_limit),
        cmocka_unit_test(test_a_limit_in_the_midst_of_work),
        cmocka_unit_test(test_release_does_not_wait),
        cmocka_unit_test(test_nothing_is_freed_while_a_peer_is_awaited),
        cmocka_unit_test(test_a_transport_without_peers),
        cmocka_unit_test(test_what_is_released_is_used_by_nobody),
        cmocka_unit_test(test_retired_pinned_memory),
        cmocka_unit_test(test_memory_of_the_caller),
        cmocka_unit_test(test_memory_of_the_caller_and_a_lost_device),
        cmocka_unit_test(test_pinned_wrongly),
    };
    return cmocka_run_group_tests_name("cudamemory", tests, NULL, NULL);
}
