#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/lib/testlib.h"
#include "worker/backend/cpu/work_pool.h"

enum { MOST = 3000, LOOPS = 200 };

struct work {
    atomic_int done[MOST];              /* how often each item was done */
    atomic_int items[HSP_WORKPOOL_MAX]; /* the items that each worker did */
};

static void note(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    struct work *w = (struct work *)(uintptr_t)ctx;
    for (int64_t i = lo; i < hi; i++) {
        w->done[i]++;
    }
    w->items[worker] += (int)(hi - lo);
}

static struct hsp_workpool *make_pool(int threads)
{
    struct hsp_workpool *p = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_workpool_new(threads, &p, &err), &err);
    return p;
}

static void check(const struct work *w, int64_t n, int times)
{
    for (int64_t i = 0; i < MOST; i++) {
        assert_int_equal(w->done[i], i < n ? times : 0);
    }
}

static void every_item_is_worked_on_once(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 60; k++) {
        int threads = 1 + (int)(k % 5);
        struct hsp_workpool *p = make_pool(threads);
        struct work *loop = calloc(1, sizeof *loop), *beside = calloc(1, sizeof *beside);
        int64_t n = k % 7 == 0 ? (int64_t)(k / 7) : hsp_test_range("items", k, 0, MOST);
        int64_t block = hsp_test_range("block", k, 1, k % 2 == 0 ? 40 : MOST);
        assert_non_null(loop);
        assert_non_null(beside);
        hsp_workpool_for(p, n, block, note, loop);
        check(loop, n, 1);
        hsp_workpool_beside(p, n, block, note, beside);
        check(beside, n, 1);
        free(loop);
        free(beside);
        (void)hsp_workpool_free(p);
    }
}

enum { THREADS = 4, YIELDS = 300000 };

/* The state of a test: the first block shows that the pool's caller is idle, and then all workers
 * meet in later blocks. */
struct meeting {
    struct work w; /* first: note() takes it */
    atomic_int here[THREADS], yields;
};

static bool all_here(const struct meeting *m)
{
    int n = 0;
    for (int i = 0; i < THREADS; i++) {
        n += m->here[i];
    }
    return n == THREADS;
}

static void note_and_meet(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    struct meeting *m = (struct meeting *)(uintptr_t)ctx;
    note(&m->w, worker, lo, hi);
    m->here[worker] = lo > 0;
    while (lo > 0 && !all_here(m) && m->yields++ < YIELDS) {
        (void)sched_yield();
    }
}

static void idle_threads_work_for_another(void **state)
{
    (void)state;
    struct hsp_workpool *p = make_pool(THREADS);
    struct meeting *m = calloc(1, sizeof *m);
    assert_non_null(m);
    hsp_workpool_beside(p, 10 + THREADS * 10, 10, note_and_meet, m);
    check(&m->w, 10 + THREADS * 10, 1);
    assert_true(all_here(m));
    free(m);
    (void)hsp_workpool_free(p);
}

struct caller {
    struct hsp_workpool *pool;
    struct work *of;
    atomic_bool begun;
};

static void *call_loops(void *arg)
{
    struct caller *c = arg;
    for (int k = 0; k < LOOPS; k++) {
        c->begun = true;
        hsp_workpool_for(c->pool, MOST, 16, note, c->of);
    }
    return NULL;
}

/* The state of a test: the pool's caller runs a loop during each block, a small one that needs no
 * other thread. */
struct busy {
    struct work w; /* first: note() takes it */
    struct hsp_workpool *pool;
    struct work *loops;
};

static void note_and_loop(const void *ctx, unsigned worker, int64_t lo, int64_t hi)
{
    struct busy *b = (struct busy *)(uintptr_t)ctx;
    note(&b->w, worker, lo, hi);
    hsp_workpool_for(b->pool, 1, 1, note, b->loops);
}

static void threads_of_a_busy_caller_are_left_to_it(void **state)
{
    (void)state;
    struct busy *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->pool = make_pool(3);
    b->loops = calloc(1, sizeof *b->loops);
    assert_non_null(b->loops);
    hsp_workpool_beside(b->pool, 500, 10, note_and_loop, b);
    check(&b->w, 500, 1);
    assert_int_equal(b->w.items[0], 500);
    check(b->loops, 1, 50);
    (void)hsp_workpool_free(b->pool);
    free(b->loops);
    free(b);
}

static void loops_of_two_threads_do_not_mix(void **state)
{
    (void)state;
    for (int threads = 1; threads < 5; threads++) {
        struct work *w = calloc(1, sizeof *w), *loops = calloc(1, sizeof *loops);
        assert_non_null(w);
        assert_non_null(loops);
        struct caller c = {.pool = make_pool(threads), .of = loops};
        pthread_t id;
        assert_int_equal(pthread_create(&id, NULL, call_loops, &c), 0);
        while (!c.begun) {
        }
        for (int k = 0; k < LOOPS; k++) {
            hsp_workpool_beside(c.pool, MOST, 8, note, w);
        }
        assert_int_equal(pthread_join(id, NULL), 0);
        check(w, MOST, LOOPS);
        check(loops, MOST, LOOPS);
        (void)hsp_workpool_free(c.pool);
        free(w);
        free(loops);
    }
}

HSP_TEST_FILE(work_pool_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_worked_on_once),
        cmocka_unit_test(idle_threads_work_for_another),
        cmocka_unit_test(threads_of_a_busy_caller_are_left_to_it),
        cmocka_unit_test(loops_of_two_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
