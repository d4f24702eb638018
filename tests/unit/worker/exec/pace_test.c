#include "tests/lib/testlib.h"

#include <time.h>

#include "worker/exec/pace.h"

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void burn(int64_t ns)
{
    int64_t until = cpu_ns() + ns;
    while (cpu_ns() < until) {
    }
}

static void work_takes_its_time(void **state)
{
    (void)state;
    atomic_int stop = 0;
    struct hsp_pace p;
    int64_t from = hsp_clock_ns(), cpu = cpu_ns();
    hsp_pace_init(&p, 0.25, &stop);
    hsp_pace_enter(&p);
    for (int k = 0; k < 20; k++) {
        burn(2000000);
        hsp_pace_done(&p);
    }
    hsp_pace_leave(&p);
    double took = (double)(hsp_clock_ns() - from), used = (double)(cpu_ns() - cpu);
    /* the work is never faster than the speed (with 2 % for the start-up), however loaded the host
     * is */
    assert_true(took >= 4.0 * 40e6 * 0.98);
    assert_true(used < 60e6); /* the thread slept and did not spin */
}

static void waiting_is_not_paced_and_not_caught_up(void **state)
{
    (void)state;
    atomic_int stop = 0;
    struct hsp_pace p;
    hsp_pace_init(&p, 0.5, &stop);
    struct timespec t = {.tv_nsec = 30000000};
    nanosleep(&t, NULL); /* a wait outside of a paced stretch shifts the due times */
    int64_t from = hsp_clock_ns();
    hsp_pace_enter(&p);
    burn(10000000);
    hsp_pace_done(&p);
    hsp_pace_leave(&p);
    assert_true(hsp_clock_ns() - from >= 19500000);
}

static void lateness_is_caught_up_to_a_bound(void **state)
{
    (void)state;
    atomic_int stop = 0;
    struct hsp_pace p;
    hsp_pace_init(&p, 0.5, &stop);
    hsp_pace_enter(&p);
    struct timespec t = {.tv_nsec = 200000000};
    nanosleep(&t, NULL); /* a wait inside of a stretch: the host took the processor away */
    hsp_pace_done(&p);
    int64_t behind = hsp_clock_ns() - p.due_ns;
    assert_true(behind >= HSP_PACE_LAG_NS && behind < HSP_PACE_LAG_NS + 20000000);
}

static void stop_ends_the_sleep(void **state)
{
    (void)state;
    atomic_int stop = 1;
    struct hsp_pace p;
    hsp_pace_init(&p, 0.0001, &stop);
    hsp_pace_enter(&p);
    burn(1000000); /* the work would be due in ten seconds */
    int64_t from = hsp_clock_ns();
    hsp_pace_done(&p);
    assert_true(hsp_clock_ns() - from < 1000000000);
}

HSP_TEST_FILE(pace_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_takes_its_time),
        cmocka_unit_test(waiting_is_not_paced_and_not_caught_up),
        cmocka_unit_test(lateness_is_caught_up_to_a_bound),
        cmocka_unit_test(stop_ends_the_sleep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
