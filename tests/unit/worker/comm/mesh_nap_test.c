/* Tests the sleep of a rank that shares memory with one peer and has a socket to another. The rank
 * must not overlook bytes that arrive on the socket in the moment in which its first sleep ends by
 * timeout. The kernel's sleep is replaced by a function that ends in that moment. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/worker/comm/mesh_world.h"

enum { LIMIT_MS = 20000 };

static atomic_bool asleep;   /* a first sleep has begun */
static atomic_bool for_ever; /* the second one was not ended by anybody */

static bool changes(const atomic_uint *bell, unsigned from)
{
    for (int ms = 0; ms < LIMIT_MS && atomic_load(bell) == from; ms++) {
        (void)usleep(1000);
    }
    return atomic_load(bell) != from;
}

/* Replaces FUTEX_WAIT. A wait with a time limit ends by timeout, but only after the bell has
 * rung. */
static long sleep_on(const atomic_uint *bell, unsigned from, bool limited)
{
    if (limited) {
        atomic_store(&asleep, true);
        (void)changes(bell, from);
        errno = ETIMEDOUT;
        return -1;
    }
    if (!changes(bell, from)) {
        atomic_store(&for_ever, true);
        (void)pause();
    }
    return 0;
}

/* Replaces the function of the C library in the whole program. */
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    va_list v;
    long a[6];
    va_start(v, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(v, long);
    }
    va_end(v);
    if (number == SYS_futex && (int)a[1] == FUTEX_WAIT) {
        return sleep_on((const atomic_uint *)a[0], (unsigned)a[2], a[3] != 0);
    }
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Rank 1 has a socket only. */
static void *caller(void *p)
{
    struct hsp_comm *c = p;
    struct hsp_err err;
    while (!atomic_load(&asleep)) {
        (void)usleep(1000);
    }
    return c->ops->send(c, 0, 0, "x", 1, &err) == HSP_OK ? NULL : p;
}

static void *sleeper(void *p)
{
    struct hsp_comm *c = p;
    struct hsp_err err;
    char v = 0;
    return c->ops->recv(c, 1, 0, &v, 1, &err) == HSP_OK && v == 'x' ? NULL : p;
}

static void test_a_message_at_the_end_of_a_sleep(void **state)
{
    (void)state;
    struct mesh_world w;
    struct hsp_comm *c[3];
    pthread_t a, b;
    void *failed = NULL;
    world_open(&w, 3, WORLD_MIXED);
    world_connect(&w, 1, c);
    assert_int_equal(pthread_create(&a, NULL, sleeper, c[0]), 0);
    assert_int_equal(pthread_create(&b, NULL, caller, c[1]), 0);
    assert_int_equal(pthread_join(b, &failed), 0);
    assert_null(failed);
    while (pthread_tryjoin_np(a, &failed) != 0) {
        if (atomic_load(&for_ever)) {
            fail_msg("rank 0 sleeps for ever on a message that has come");
        }
        (void)usleep(1000);
    }
    assert_null(failed);
    for (uint32_t i = 0; i < 3; i++) {
        c[i]->ops->close(c[i]);
    }
    world_close(&w);
}

HSP_TEST_FILE(mesh_nap_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_at_the_end_of_a_sleep),
    };
    return cmocka_run_group_tests_name("meshnap", tests, NULL, NULL);
}
