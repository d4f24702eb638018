/* Tests the faults that the mock device finds, and the calls that it accepts. */
#include "tests/lib/mockdev.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/lib/testlib.h"
#include "tests/unit/worker/backend/hash_suite.h"

enum { N = 16, BYTES = N * 4 };
#define A HSP_DEVQ_COMPUTE
#define B HSP_DEVQ_COMM

struct world {
    struct hsp_backend *b;
    float *x, *y; /* in device memory */
    float *host;
    struct hsp_err err;
};

static void *area(struct hsp_backend *b, enum hsp_mem mem)
{
    struct hsp_err err = {0};
    void *p = NULL;
    assert_ok(b->alloc(b, mem, BYTES, &p, &err), &err);
    return p;
}

static struct world begin(const struct hsp_mockdev_opts *o)
{
    struct world w = {0};
    assert_ok(hsp_mockdev_open(o, &w.b, &w.err), &w.err);
    w.x = area(w.b, HSP_MEM_DEVICE);
    w.y = area(w.b, HSP_MEM_DEVICE);
    w.host = area(w.b, HSP_MEM_HOST);
    return w;
}

static struct world plain(void)
{
    return begin(&(struct hsp_mockdev_opts){.seed = hsp_test_seed(), .max_delay_us = 500});
}

static void end(struct world *w)
{
    w->b->close(w->b);
}

static enum hsp_status fill(struct world *w, enum hsp_devq q, float *at, int value, int n)
{
    return w->b->fill(w->b, q, HSP_F32, at, value, n, &w->err);
}

static enum hsp_status copy(struct world *w, enum hsp_devq q, void *to, const void *from)
{
    return w->b->copy(w->b, q, to, from, BYTES, &w->err);
}

static uint64_t mark(struct world *w, enum hsp_devq q)
{
    uint64_t t = 0;
    assert_ok(w->b->mark(w->b, q, &t, &w->err), &w->err);
    return t;
}

static void await(struct world *w, enum hsp_devq q, enum hsp_devq of, uint64_t t)
{
    assert_ok(w->b->await(w->b, q, of, t, &w->err), &w->err);
}

static void finish(struct world *w, enum hsp_devq of)
{
    assert_ok(w->b->finish(w->b, of, mark(w, of), &w->err), &w->err);
}

/* Checks that the call was refused, and that all later calls are refused until
 * hsp_mockdev_forgive. */
static void refused(struct world *w, enum hsp_status st, const char *words)
{
    struct hsp_err why;
    uint64_t t;
    assert_status(st, HSP_EIO);
    assert_non_null(strstr(w->err.msg, words));
    assert_status(w->b->mark(w->b, A, &t, NULL), HSP_EIO);
    assert_true(hsp_mockdev_forgive(w->b, &why));
    assert_string_equal(why.msg, w->err.msg);
    finish(w, A);
    finish(w, B);
}

static void missing_waits(void **state)
{
    (void)state;
    struct world w = plain();
    assert_ok(fill(&w, A, w.x, 1, N), &w.err);
    refused(&w, copy(&w, B, w.y, w.x), "copy of queue comm reads what queue compute writes");
    assert_ok(copy(&w, A, w.y, w.x), &w.err);
    refused(&w, fill(&w, B, w.x, 2, N), "fill of queue comm writes what queue compute reads");
    assert_ok(fill(&w, A, w.x, 1, N), &w.err);
    refused(&w, fill(&w, B, w.x + 3, 2, 1), "fill of queue comm writes what queue compute writes");
    assert_ok(fill(&w, A, w.x, 1, 4), &w.err);
    /* works on different parts of an array may run at once */
    assert_ok(fill(&w, B, w.x + 4, 2, N - 4), &w.err);
    end(&w);
}

/* Checks that the op for hashes reads its operand, and gives the same value as on a CPU. */
static void hashes(void **state)
{
    (void)state;
    struct world w = plain();
    struct hsp_hash_call c = {.data = w.x, .dtype = HSP_F32, .rank = 1, .ext = {N}, .stride = {1}};
    uint64_t *sum = NULL;
    hash_suite(w.b);
    sums_suite(w.b);
    assert_ok(w.b->alloc(w.b, HSP_MEM_DEVICE, sizeof *sum, (void **)&sum, &w.err), &w.err);
    assert_ok(fill(&w, A, w.x, 1, N), &w.err);
    refused(&w, w.b->hash(w.b, B, &c, 1, sum, &w.err),
            "hash of queue comm reads what queue compute writes");
    end(&w);
}

static void waits_that_are_there(void **state)
{
    (void)state;
    struct world w = plain();
    for (int k = 0; k < 50; k++) {
        assert_ok(fill(&w, A, w.x, k, N), &w.err);
        await(&w, B, A, mark(&w, A));
        assert_ok(copy(&w, B, w.y, w.x), &w.err);
        await(&w, HSP_DEVQ_STATE, B, mark(&w, B)); /* the queue waits for B, and so for A */
        assert_ok(copy(&w, HSP_DEVQ_STATE, w.host, w.x), &w.err);
        await(&w, A, HSP_DEVQ_STATE, mark(&w, HSP_DEVQ_STATE));
        if (k % 10 == 9) {
            finish(&w, HSP_DEVQ_STATE);
            assert_true(w.host[0] == (float)k && w.host[N - 1] == (float)k);
        }
    }
    finish(&w, HSP_DEVQ_STATE); /* the host has waited, so its next work comes after it */
    assert_ok(fill(&w, B, w.x, 1, N), &w.err);
    assert_int_equal(hsp_mockdev_tally(w.b).awaits, 150);
    end(&w);
}

/* ---- the knowledge of threads ---- */

struct giver {
    struct world *w;
    enum hsp_status status;
};

static void *give_main(void *arg)
{
    struct giver *x = arg;
    x->status = fill(x->w, B, x->w->x, 1, N);
    return NULL;
}

/* Starts one thread after the other. The mock device takes each for a new thread, even if it has
 * the pthread_t of an earlier one, and knows that the waits of earlier threads precede it. */
static void threads_that_follow_each_other(void **state)
{
    (void)state;
    struct world w = plain();
    struct giver x = {.w = &w};
    for (int k = 0; k < 100; k++) { /* more threads than the mock device remembers */
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, give_main, &x), 0);
        assert_int_equal(pthread_join(t, NULL), 0);
        assert_ok(x.status, &w.err);
        finish(&w, B);
        assert_ok(copy(&w, HSP_DEVQ_STATE, w.host, w.x), &w.err);
        finish(&w, HSP_DEVQ_STATE);
    }
    end(&w);
}

struct two {
    struct world *w;
    pthread_barrier_t meet;
    uint64_t ticket;
    enum hsp_status status;
};

static void *second_main(void *arg)
{
    struct two *x = arg;
    finish(x->w, B); /* known to the mock device from now on */
    (void)pthread_barrier_wait(&x->meet);
    (void)pthread_barrier_wait(&x->meet);
    await(x->w, B, A, x->ticket);
    x->status = fill(x->w, B, x->w->x, 1, N);
    return NULL;
}

/* A thread finishes a fence and then sets a mark. A second thread that waits for the mark thereby
 * also waits for the fence. */
static void marks_tell_what_their_giver_knew(void **state)
{
    (void)state;
    for (int how = 0; how < 2; how++) {
        struct world w = plain();
        struct two x = {.w = &w};
        pthread_t t;
        assert_int_equal(pthread_barrier_init(&x.meet, NULL, 2), 0);
        assert_int_equal(pthread_create(&t, NULL, second_main, &x), 0);
        (void)pthread_barrier_wait(&x.meet);
        assert_ok(copy(&w, HSP_DEVQ_STATE, w.host, w.x), &w.err);
        /* a mark set before the fence is finished tells nothing about it */
        x.ticket = how == 0 ? 0 : mark(&w, A);
        finish(&w, HSP_DEVQ_STATE);
        x.ticket = how == 0 ? mark(&w, A) : x.ticket;
        (void)pthread_barrier_wait(&x.meet);
        assert_int_equal(pthread_join(t, NULL), 0);
        assert_status(x.status, how == 0 ? HSP_OK : HSP_EIO);
        assert_int_equal(pthread_barrier_destroy(&x.meet), 0);
        end(&w);
    }
}

/* The mock device refuses a call after it has noted some of the operands as in use. The refused
 * call counts as finished: releasing the memory of an operand does not wait for the call. */
static void refused_calls_are_over(void **state)
{
    (void)state;
    struct world w = plain();
    struct hsp_err why;
    assert_ok(fill(&w, B, w.y, 1, N), &w.err);
    assert_status(copy(&w, A, w.y, w.x), HSP_EIO); /* the mock device had noted that x is read */
    w.b->release(w.b, HSP_MEM_DEVICE, w.x);
    assert_true(hsp_mockdev_forgive(w.b, &why));
    assert_non_null(strstr(why.msg, "copy of queue compute writes what queue comm writes"));
    w.b->release(w.b, HSP_MEM_DEVICE, w.y);
    end(&w);
}

static void memory_of_the_host(void **state)
{
    (void)state;
    struct world w = plain();
    if (getenv("HSPMD_VALGRIND") == NULL) { /* valgrind would report deliberate faults */
        int pipe_fd[2];
        assert_int_equal(pipe(pipe_fd), 0);
        assert_int_equal(write(pipe_fd[1], w.x, 4), -1); /* a read by the host faults */
        assert_int_equal(errno, EFAULT);
        assert_int_equal(close(pipe_fd[0]) + close(pipe_fd[1]), 0);
    }

    for (int k = 0; k < N; k++) {
        w.host[k] = 7;
    }
    assert_ok(fill(&w, A, w.x, 7, N), &w.err);
    assert_ok(copy(&w, A, w.host, w.x), &w.err);
    finish(&w, A);
    assert_true(w.host[3] == 7);

    /* changes the source of a copy before the copy, which is surely late after other work */
    struct hsp_mockdev_opts slow = {.seed = 1, .max_delay_us = 20000};
    struct world s = begin(&slow);
    for (int k = 0; k < 40; k++) {
        assert_ok(fill(&s, A, s.x, k, N), &s.err);
    }
    s.host[0] = 1;
    assert_ok(copy(&s, A, s.y, s.host), &s.err);
    s.host[0] = 2;
    /* the target of a copy is garbage until the copy is done */
    float *early = area(s.b, HSP_MEM_HOST);
    assert_ok(copy(&s, A, early, s.x), &s.err);
    assert_true(early[0] > 1e15F);
    uint64_t t = mark(&s, A);
    assert_status(s.b->finish(s.b, A, t, &s.err), HSP_EIO);
    assert_non_null(strstr(s.err.msg, "the host changed"));
    end(&s);
    end(&w);
}

static void bounds_and_life(void **state)
{
    (void)state;
    struct world w = plain();
    refused(&w, fill(&w, A, w.x + 1, 0, N), "writes 64 bytes at");
    assert_ok(fill(&w, A, w.x, 0, N), &w.err);
    w.b->release(w.b, HSP_MEM_DEVICE, w.x);
    refused(&w, fill(&w, A, w.y, 0, N), "release of memory in use");
    w.b->release(w.b, HSP_MEM_HOST, w.y);
    refused(&w, fill(&w, A, w.y, 0, N), "release of what was not allocated");
    end(&w);

    struct hsp_mockdev_opts small = {.memory = 3 * BYTES};
    void *p;
    w = begin(&small);
    p = area(w.b, HSP_MEM_DEVICE);
    assert_status(w.b->alloc(w.b, HSP_MEM_DEVICE, 1, &p, &w.err), HSP_ENOMEM);
    w.b->release(w.b, HSP_MEM_DEVICE, w.x);
    p = area(w.b, HSP_MEM_DEVICE);
    assert_int_equal(hsp_mockdev_tally(w.b).most_memory, 3 * BYTES);
    end(&w);
}

static void replays(void **state)
{
    (void)state;
    struct hsp_mockdev_opts o = {.seed = hsp_test_seed(), .replay = true};
    struct world w = begin(&o);
    const struct hsp_digest key = {1, 2};
    bool replayed;
    for (int k = 0; k < 40; k++) {
        assert_ok(w.b->begin(w.b, A, &key, &replayed, &w.err), &w.err);
        if (!replayed) {
            assert_ok(fill(&w, A, w.x, 3, N), &w.err);
            assert_ok(copy(&w, A, w.host, w.x), &w.err);
            assert_ok(w.b->end(w.b, A, &w.err), &w.err);
        }
        finish(&w, A);
        assert_true(w.host[N - 1] == 3);
        w.host[N - 1] = 0;
    }
    struct hsp_mockdev_tally t = hsp_mockdev_tally(w.b);
    assert_true(t.recorded == 1 && t.replayed > 5 && t.compared > 5 &&
                t.replayed + t.compared == 39);
    do {
        assert_ok(w.b->begin(w.b, A, &key, &replayed, &w.err), &w.err);
    } while (replayed);
    assert_status(fill(&w, A, w.x, 4, N), HSP_EIO);
    assert_non_null(strstr(w.err.msg, "other calls than before"));
    assert_status(w.b->end(w.b, A, NULL), HSP_EIO);
    end(&w);
}

static void a_failure_stays(void **state)
{
    (void)state;
    struct hsp_mockdev_opts o = {.fail_at = 3};
    struct world w = begin(&o);
    for (int k = 0; k < 3; k++) {
        (void)fill(&w, A, w.x, k, N);
    }
    uint64_t t = 0;
    enum hsp_status st = w.b->mark(w.b, A, &t, &w.err);
    st = st == HSP_OK ? w.b->finish(w.b, A, t, &w.err) : st;
    assert_status(st, HSP_EIO);
    assert_string_equal(w.err.msg, "mockdev: the device failed");
    assert_status(fill(&w, B, w.y, 0, N), HSP_EIO);
    end(&w);
}

static struct hsp_array square(float *at)
{
    return (struct hsp_array){.data = at, .dtype = HSP_F32, .rank = 3, .ext = {1, 2, 2}};
}

/* Computes [[2, 2], [2, 2]] [[3, 3], [3, 3]]^T + 5 + the values at @add, and writes it to @out. */
static enum hsp_status sum(struct world *w, float *add, float *out, bool *ret_done)
{
    struct hsp_attrs at = {0};
    struct hsp_array in[2] = {square(w->x), {.data = w->x + 4, .rank = 2, .ext = {2, 2}}};
    struct hsp_array own = square(w->y), to = square(out), more = square(add);
    struct hsp_array bias = {.data = w->x + 8, .rank = 1, .ext = {2}};
    struct hsp_call c = {
        .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &own};
    struct hsp_sum s = {.bias = &bias, .add = &more, .out = &to};
    return w->b->run_sum(w->b, A, &c, &s, ret_done, &w->err);
}

static void sums_of_products(void **state)
{
    (void)state;
    struct world w = begin(&(struct hsp_mockdev_opts){.sums = true});
    bool done = false;
    assert_ok(fill(&w, A, w.x, 2, 4), &w.err);
    assert_ok(fill(&w, A, w.x + 4, 3, 4), &w.err);
    assert_ok(fill(&w, A, w.x + 8, 5, 2), &w.err);
    assert_ok(fill(&w, A, w.y + 4, 7, 8), &w.err);
    /* the addend and the result are different parts of an array */
    assert_ok(sum(&w, w.y + 4, w.y + 8, &done), &w.err);
    assert_true(done);
    assert_ok(sum(&w, w.y + 4, w.y + 4, &done), &w.err); /* the result replaces the addend */
    assert_true(done);
    assert_ok(sum(&w, w.y + 4, w.x + 2, &done), &w.err); /* the result overlaps an operand */
    assert_false(done);
    assert_ok(sum(&w, w.y + 6, w.y + 4, &done), &w.err);
    assert_false(done);
    assert_ok(copy(&w, A, w.host, w.y), &w.err);
    finish(&w, A);
    for (int k = 0; k < 4; k++) {
        /* nobody may read the product's own output: it is garbage */
        assert_true(w.host[k] > 1e15f);
        assert_near(w.host[4 + k], 24, 0);
        assert_near(w.host[8 + k], 24, 0);
    }
    struct hsp_mockdev_tally t = hsp_mockdev_tally(w.b);
    assert_true(t.sums == 2 && t.apart == 2);
    assert_ok(fill(&w, B, w.y + 12, 7, 4), &w.err);
    refused(&w, sum(&w, w.y + 12, w.y + 4, &done), "linear of queue compute reads what queue comm");
    assert_ok(fill(&w, B, w.x + 8, 7, 2), &w.err);
    refused(&w, sum(&w, w.y + 12, w.y + 4, &done), "linear of queue compute reads what queue comm");
    assert_ok(fill(&w, B, w.y + 4, 7, 4), &w.err);
    refused(&w, sum(&w, w.y + 12, w.y + 4, &done),
            "linear of queue compute writes what queue comm");
    end(&w);
}

HSP_TEST_FILE(mockdev_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_waits),
        cmocka_unit_test(hashes),
        cmocka_unit_test(waits_that_are_there),
        cmocka_unit_test(threads_that_follow_each_other),
        cmocka_unit_test(marks_tell_what_their_giver_knew),
        cmocka_unit_test(refused_calls_are_over),
        cmocka_unit_test(memory_of_the_host),
        cmocka_unit_test(bounds_and_life),
        cmocka_unit_test(replays),
        cmocka_unit_test(a_failure_stays),
        cmocka_unit_test(sums_of_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
