/* Checks that a reaper frees memory in the order in which it was given, and that executors that
 * lack room in the folder wait meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "worker/executor/reaper.h"

#define N 8

struct world {
    char *dir;
    struct hsp_reaper r;
    pthread_mutex_t gate; /* locked by the test: no call returns */
    bool shut;            /* the test has locked the gate */
    struct item {
        struct world *w;
        struct hsp_gift g;
        bool beside; /* a thread other than the test's made the call */
        bool stays;  /* the call does not free the item */
        atomic_bool begun;
        struct item *gives;
    } item[N];
    pthread_t test;
    atomic_uint n;
    char order[64];
};

static void work(void *of)
{
    struct item *i = of;
    struct world *w = i->w;
    i->beside = !pthread_equal(pthread_self(), w->test);
    atomic_store(&i->begun, true);
    if (i->beside) {
        (void)pthread_mutex_lock(&w->gate);
        (void)pthread_mutex_unlock(&w->gate);
    }
    w->order[atomic_load(&w->n)] = (char)('a' + (i - w->item));
    if (i->gives != NULL) {
        hsp_reaper_give(&w->r, &i->gives->g, work, i->gives);
    }
    if (!i->stays) {
        memset(&i->g, 0xa5, sizeof i->g); /* as if freed */
    }
    atomic_fetch_add(&w->n, 1);
}

static void shut(struct world *w, bool now)
{
    if (now != w->shut) {
        (void)(now ? pthread_mutex_lock(&w->gate) : pthread_mutex_unlock(&w->gate));
    }
    w->shut = now;
}

static void give(struct world *w, int k)
{
    hsp_reaper_give(&w->r, &w->item[k].g, work, &w->item[k]);
}

static int setup(void **state)
{
    struct hsp_err err = {0};
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->dir = hsp_test_tmpdir();
    w->test = pthread_self();
    (void)pthread_mutex_init(&w->gate, NULL);
    for (int k = 0; k < N; k++) {
        w->item[k].w = w;
    }
    assert_ok(hsp_reaper_open(&w->r, w->dir, &err), &err);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    shut(w, false);
    hsp_reaper_close(&w->r);
    (void)pthread_mutex_destroy(&w->gate);
    hsp_test_rmdir(w->dir);
    free(w->dir);
    free(w);
    return 0;
}

static bool room_comes(const struct world *w)
{
    int folder = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    bool comes = flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    assert_int_equal(close(folder), 0);
    return comes;
}

static void all_is_given_back_in_order(void **state)
{
    struct world *w = *state;
    assert_false(hsp_reaper_busy(&w->r) || room_comes(w));
    shut(w, true);
    for (int k = 0; k < 5; k++) {
        give(w, k);
    }
    assert_true(hsp_reaper_busy(&w->r) && room_comes(w));
    assert_int_equal(atomic_load(&w->n), 0);
    shut(w, false);
    while (hsp_reaper_busy(&w->r)) {
        (void)sched_yield();
    }
    assert_string_equal(w->order, "abcde");
    assert_true(w->item[0].beside && !room_comes(w));
}

/* hsp_reaper_keep announces work that will be given later: executors that lack room wait from then
 * on until that work is done. */
static void room_is_told_before_the_work_is_given(void **state)
{
    struct world *w = *state;
    hsp_reaper_keep(NULL, true);
    hsp_reaper_keep(&w->r, true);
    assert_true(room_comes(w) && !hsp_reaper_busy(&w->r));
    shut(w, true);
    give(w, 0);
    hsp_reaper_keep(&w->r, false);
    assert_true(room_comes(w));
    shut(w, false);
    while (hsp_reaper_busy(&w->r)) {
        (void)sched_yield();
    }
    assert_false(room_comes(w));
    hsp_reaper_keep(&w->r, true);
    give(w, 1);
    while (hsp_reaper_busy(&w->r)) {
        (void)sched_yield();
    }
    assert_true(room_comes(w));
    hsp_reaper_keep(&w->r, false);
    assert_false(room_comes(w));
}

/* A call may give another call to the reaper, as device_reaper does; closing the reaper waits for
 * both. */
static void the_end_waits_for_all(void **state)
{
    struct world *w = *state;
    shut(w, true);
    w->item[1].gives = &w->item[3];
    for (int k = 0; k < 3; k++) {
        give(w, k);
    }
    shut(w, false);
    hsp_reaper_close(&w->r);
    assert_string_equal(w->order, "abcd");
    hsp_reaper_close(&w->r); /* a second call does nothing */
}

/* A gift that waits is not given twice. A gift whose call has begun may be given again. */
static void what_waits_is_not_given_twice(void **state)
{
    struct world *w = *state;
    shut(w, true);
    w->item[0].stays = true;
    give(w, 0);
    while (!atomic_load(&w->item[0].begun)) {
        (void)sched_yield();
    }
    for (int k = 0; k < 3; k++) {
        give(w, 0);
        give(w, 1);
    }
    give(w, 0);
    shut(w, false);
    hsp_reaper_close(&w->r);
    assert_string_equal(w->order, "aab");
}

static void a_call_that_does_not_return_hangs(void **state)
{
    struct world *w = *state;
    assert_false(hsp_reaper_hangs(&w->r));
    shut(w, true);
    give(w, 0);
    assert_false(hsp_reaper_hangs(&w->r));
    (void)pthread_mutex_lock(&w->r.lock);
    w->r.long_ms = 5;
    (void)pthread_mutex_unlock(&w->r.lock);
    while (!hsp_reaper_hangs(&w->r)) {
        (void)sched_yield();
    }
    shut(w, false);
    while (hsp_reaper_busy(&w->r)) {
        (void)sched_yield();
    }
    assert_false(hsp_reaper_hangs(&w->r));
}

static void without_a_reaper_it_is_given_back_at_once(void **state)
{
    struct world *w = *state;
    hsp_reaper_give(NULL, &w->item[0].g, work, &w->item[0]);
    assert_string_equal(w->order, "a");
    assert_false(w->item[0].beside || hsp_reaper_busy(NULL));
}

HSP_TEST_FILE(reaper_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_is_given_back_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(room_is_told_before_the_work_is_given, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_waits_for_all, setup, teardown),
        cmocka_unit_test_setup_teardown(what_waits_is_not_given_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(a_call_that_does_not_return_hangs, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_reaper_it_is_given_back_at_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
