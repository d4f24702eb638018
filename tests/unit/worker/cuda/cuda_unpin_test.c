/* Tests memory of the caller whose unpinning takes long, as that of much memory does. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/worker/cuda/stand_in.h"

static atomic_bool unpins_slowly; /* while it is true, calls that unregister memory wait */
static atomic_uint n_unpinning;   /* the number of calls that wait, so far */

cudaError_t __wrap_cudaHostUnregister(void *p);
cudaError_t __real_cudaHostUnregister(void *p);

cudaError_t __wrap_cudaHostUnregister(void *p)
{
    if (atomic_load(&unpins_slowly)) {
        atomic_fetch_add(&n_unpinning, 1);
        while (atomic_load(&unpins_slowly)) {
            (void)usleep(1000);
        }
    }
    return __real_cudaHostUnregister(p);
}

static char pinned[4096];

static void *unpin(void *backend)
{
    struct hsp_backend *b = backend;
    return b->unpin(b, pinned) ? b : NULL;
}

static void *trim(void *backend)
{
    struct hsp_backend *b = backend;
    return b->trim(b) ? b : NULL;
}

static void *ask_native(void *backend)
{
    struct hsp_backend *b = backend;
    return b->native(b, HSP_DEVQ_LANE);
}

/* Unpinning tens of GiB takes seconds. Meanwhile other threads allocate and release memory. Only a
 * transport waits: the work that it is about to give may wait for its peer, and cudaHostUnregister
 * waits for that work. */
static void a_slow_unpin_holds_up_transports_alone(bool trims)
{
    struct hsp_backend *b = standin_open(NULL, NULL);
    struct hsp_err err;
    pthread_t slowly, native;
    struct timespec soon;
    void *done = NULL;
    assert_ok(b->pin(b, pinned, sizeof pinned, &err), &err);
    if (trims) {
        assert_non_null(b->native(b, HSP_DEVQ_LANE));
        assert_false(b->unpin(b, pinned));
    }
    (void)alarm(60);
    atomic_store(&n_unpinning, 0);
    atomic_store(&unpins_slowly, true);
    assert_int_equal(pthread_create(&slowly, NULL, trims ? trim : unpin, b), 0);
    while (atomic_load(&n_unpinning) == 0) {
        (void)usleep(1000);
    }
    float *x = standin_alloc(b, 64);
    b->release(b, HSP_MEM_DEVICE, x);
    assert_int_equal(pthread_create(&native, NULL, ask_native, b), 0);
    (void)clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 1;
    assert_int_equal(pthread_timedjoin_np(native, &done, &soon), ETIMEDOUT);
    atomic_store(&unpins_slowly, false);
    assert_int_equal(pthread_join(slowly, &done), 0);
    assert_ptr_equal(done, b);
    assert_int_equal(pthread_join(native, &done), 0);
    assert_non_null(done);
    (void)alarm(0);
    assert_int_equal(hsp_fake_usage().pinned, 0);
    standin_close(b);
}

static void test_a_slow_unpin(void **state)
{
    (void)state;
    a_slow_unpin_holds_up_transports_alone(false);
}

static void test_a_slow_trim(void **state)
{
    (void)state;
    a_slow_unpin_holds_up_transports_alone(true);
}

HSP_TEST_FILE(cuda_unpin_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_unpin),
        cmocka_unit_test(test_a_slow_trim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
