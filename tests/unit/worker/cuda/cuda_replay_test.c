/* Tests replay: which calls are captured, started again, or never captured. Any order of calls,
 * waits and replays on all queues must give the results of the calls made one after the other. */
#include <stdio.h>

#include "proto/base/size.h"
#include "tests/unit/worker/cuda/stand_in.h"

#define N 16

/* Makes two arrays: *ret_ones of ones, and one of zeros, which is returned. */
static float *ones_and_zeros(struct hsp_backend *b, float **ret_ones)
{
    float *zeros = standin_alloc(b, N);
    *ret_ones = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, *ret_ones, 1.0, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, zeros, 0.0, N);
    return zeros;
}

/* Adds x to y twice, under a key. Returns whether the calls were replayed. */
static bool piece(struct hsp_backend *b, uint64_t key, float *y, const float *x)
{
    struct hsp_err err;
    bool replayed = false;
    struct hsp_digest k = {key / 2, key % 2};
    assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), &err);
    if (!replayed) {
        assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, y, y, x, N, &err), &err);
        assert_ok(b->accumulate(b, HSP_DEVQ_COMPUTE, HSP_F32, y, HSP_F32, x, N, &err), &err);
        assert_ok(b->end(b, HSP_DEVQ_COMPUTE, &err), &err);
    }
    return replayed;
}

/* Runs a piece as piece() does, and once more if end asks for it. */
static bool stubborn_piece(struct hsp_backend *b, uint64_t key, float *y, const float *x)
{
    struct hsp_err err;
    bool replayed = false;
    struct hsp_digest k = {key / 2, key % 2};
    enum hsp_status st = HSP_AGAIN;
    assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), &err);
    for (int i = 0; i < 2 && !replayed && st == HSP_AGAIN; i++) {
        assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, y, y, x, N, &err), &err);
        assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, y + N - 1, y, sizeof(float), &err), &err);
        assert_ok(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, y, y, N, &err), &err);
        st = i == 0 ? b->end(b, HSP_DEVQ_COMPUTE, &err) : HSP_OK;
    }
    assert_true(replayed || st == HSP_OK);
    return replayed;
}

static void test_once_to_run_twice_to_keep(void **state)
{
    (void)state;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x, *y = ones_and_zeros(b, &x);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(piece(b, 1, y, x), i > 1);
        assert_int_equal(hsp_fake_calls("cudaStreamBeginCapture"), i > 0);
        assert_int_equal(hsp_fake_calls("cudaGraphLaunch"), i);
    }
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(y + N - 1) == 12.0f);
    assert_int_equal(hsp_fake_calls("cudaGraphInstantiate"), 1);
    assert_int_equal(hsp_fake_usage().graphs,
                     0); /* executables are kept, captured graphs are not */
    standin_close(b);
}

/* In a rehearsal the calls are captured at once and nothing runs. A capture that would displace a
 * graph that can be started is not made. */
static void test_rehearsed(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x, *y = ones_and_zeros(b, &x);
    assert_ok(b->rehearse(b, HSP_DEVQ_COMPUTE, true, &err), &err);
    assert_false(piece(b, 1, y, x));
    assert_true(piece(b, 1, y, x)); /* the graph was built in the rehearsal */
    for (uint64_t k = 2; k < HSP_CUDA_MAX_GRAPHS + 9; k++) {
        assert_int_equal(piece(b, k, y, x), k > HSP_CUDA_MAX_GRAPHS);
    }
    assert_ok(b->rehearse(b, HSP_DEVQ_COMPUTE, false, &err), &err);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(y) == 0.0f);
    assert_int_equal(hsp_fake_calls("cudaGraphLaunch"), 0);
    for (uint64_t k = 1; k <= 5; k++) {
        assert_true(piece(b, k, y, x));
    }
    assert_false(piece(b, HSP_CUDA_MAX_GRAPHS + 1, y, x));
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(y) == 12.0f);
    assert_int_equal(hsp_fake_calls("cudaGraphInstantiate"), HSP_CUDA_MAX_GRAPHS);
    standin_close(b);
}

/* If the library refuses calls in a rehearsal, the key counts in the steps as one that never came:
 * its calls may be captured once they have run. */
static void test_rehearsed_in_vain(void **state)
{
    (void)state;
    static const char *const names[] = {"cudaStreamBeginCapture", "cudaGraphInstantiate"};
    for (size_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        struct hsp_err err;
        struct hsp_backend *b = standin_open(NULL, NULL);
        float *x, *y = ones_and_zeros(b, &x);
        assert_ok(b->rehearse(b, HSP_DEVQ_COMPUTE, true, &err), &err);
        hsp_fake_fail(names[i], 1, cudaErrorNotSupported);
        assert_int_equal(piece(b, 1, y, x), i == 0);
        assert_ok(b->rehearse(b, HSP_DEVQ_COMPUTE, false, &err), &err);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(piece(b, 1, y, x), k == 2);
        }
        standin_finish(b, HSP_DEVQ_COMPUTE);
        assert_true(standin_peek(y) == 6.0f);
        standin_close(b);
    }
}

static void test_the_oldest_goes(void **state)
{
    (void)state;
    struct hsp_backend *b = standin_open(&(struct hsp_fake_opts){.eager = true}, NULL);
    float *x, *y = ones_and_zeros(b, &x);
    for (uint64_t k = 0; k < HSP_CUDA_MAX_GRAPHS; k++) {
        (void)piece(b, k, y, x);
        (void)piece(b, k, y, x);
    }
    assert_int_equal(hsp_fake_usage().execs, HSP_CUDA_MAX_GRAPHS);
    assert_true(piece(b, 0, y, x)); /* key 0 is used again, so key 1 is the oldest now */
    (void)piece(b, 9999, y, x);
    (void)piece(b, 9999, y, x);
    assert_int_equal(hsp_fake_usage().execs, HSP_CUDA_MAX_GRAPHS);
    assert_true(piece(b, 0, y, x));
    assert_true(piece(b, 2, y, x));
    assert_false(piece(b, 1, y, x));
    standin_close(b);
}

/* After a switch the same calls come with pointers to other memory. */
static void test_released_memory(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N), *y = standin_alloc(b, N), *z;
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, y, 0.0, N);
    for (int i = 0; i < 3; i++) {
        (void)piece(b, 1, y, x);
    }
    standin_finish(b, HSP_DEVQ_COMPUTE);
    b->release(b, HSP_MEM_DEVICE, y);
    z = standin_alloc(b, N);
    assert_ptr_equal(y, z); /* the address is the same, but the memory is not */
    standin_fill(b, HSP_DEVQ_COMPUTE, z, 0.0, N);
    assert_false(piece(b, 1, z, x));
    assert_false(piece(b, 1, z, x));
    assert_true(piece(b, 1, z, x));
    assert_int_equal(hsp_fake_calls("cudaGraphInstantiate"),
                     1); /* the old graph was updated in place */
    assert_int_equal(hsp_fake_calls("cudaGraphExecUpdate"), 1);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(z) == 6.0f);
    /* other calls under a new key: no stale graph can be updated */
    b->release(b, HSP_MEM_DEVICE, z);
    z = standin_alloc(b, 2 * N);
    standin_fill(b, HSP_DEVQ_COMPUTE, z, 0.0, 2 * N);
    struct hsp_digest k = {2, 7};
    for (int i = 0; i < 2; i++) {
        bool replayed;
        assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), &err);
        assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, z, z, z, 2 * N, &err), &err);
        assert_ok(b->end(b, HSP_DEVQ_COMPUTE, &err), &err);
    }
    assert_int_equal(hsp_fake_calls("cudaGraphInstantiate"), 2);
    assert_int_equal(hsp_fake_calls("cudaGraphExecUpdate"), 1);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    standin_close(b);
}

/* If the library refuses the update of a graph, a new graph is built instead. */
static void test_an_update_that_is_refused(void **state)
{
    (void)state;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x, *y = ones_and_zeros(b, &x);
    for (int i = 0; i < 3; i++) {
        (void)piece(b, 1, y, x);
    }
    standin_finish(b, HSP_DEVQ_COMPUTE);
    b->release(b, HSP_MEM_DEVICE, y);
    y = standin_alloc(b, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, y, 0.0, N);
    hsp_fake_fail("cudaGraphExecUpdate", 1, cudaErrorGraphExecUpdateFailure);
    for (int i = 0; i < 3; i++) {
        (void)piece(b, 1, y, x);
    }
    assert_int_equal(hsp_fake_calls("cudaGraphInstantiate"), 2);
    assert_int_equal(hsp_fake_usage().execs, 1);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(y) == 6.0f);
    standin_close(b);
}

static void test_no_memory_for_a_graph(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x, *y = ones_and_zeros(b, &x);
    for (uint64_t k = 0; k < 3; k++) {
        (void)piece(b, k, y, x);
        (void)piece(b, k, y, x);
    }
    (void)piece(b, 5, y, x);
    hsp_fake_fail("cudaGraphInstantiate", 1, cudaErrorMemoryAllocation);
    (void)piece(b, 5, y, x); /* the other graphs are destroyed to make room */
    assert_int_equal(hsp_fake_usage().execs, 1);
    assert_true(piece(b, 5, y, x));
    assert_false(piece(b, 0, y, x));
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(y) == 20.0f);
    (void)err;
    standin_close(b);
}

/* Calls that the library does not capture, build or start run as they are, now and later. */
static void test_what_cannot_be_replayed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        cudaError_t how;
        int at; /* the number of the call that fails */
    } c[] = {
        {"cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported, 1},
        {"cudaMemcpyAsync", cudaErrorStreamCaptureInvalidated, 1},
        {"cudaMalloc", cudaErrorMemoryAllocation, 1},
        {"cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated, 1},
        {"cudaGraphInstantiate", cudaErrorNotSupported, 1},
        {"cudaGraphLaunch", cudaErrorMemoryAllocation, 1},
        {"cudaGraphLaunch", cudaErrorMemoryAllocation, 3},
    };
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        struct hsp_backend *b = standin_open(NULL, NULL);
        struct hsp_cuda *g = (struct hsp_cuda *)b;
        float *x, *y = ones_and_zeros(b, &x);
        for (int turn = 0; turn < 6; turn++) {
            if (turn == c[i].at) {
                hsp_fake_fail(c[i].name, 1, c[i].how);
                g->scratch_bytes[HSP_DEVQ_COMPUTE] = 0; /* makes the scratch too small */
            }
            assert_int_equal(stubborn_piece(b, 1, y, x), turn > 1 && turn < c[i].at);
            assert_true(turn < c[i].at || hsp_fake_usage().execs == 0);
        }
        assert_false(stubborn_piece(b, 2, y, x));
        assert_false(stubborn_piece(b, 2, y, x));
        assert_true(stubborn_piece(b, 2, y, x)); /* other keys are replayed */
        standin_finish(b, HSP_DEVQ_COMPUTE);
        assert_true(standin_peek(y) == 9.0f && standin_peek(y + N - 1) == 9.0f);
        standin_close(b);
    }
}

/* When scratch grows, earlier graphs keep the scratch that they name. */
static void test_scratch_grows(void **state)
{
    (void)state;
    struct hsp_err err;
    const int64_t large = 1 << 20;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, large), *y = standin_alloc(b, large);
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 3.0, large);
    struct hsp_digest k = {1, 1};
    bool replayed = false;
    for (int i = 0; i < 4; i++) {
        if (i == 2) {
            assert_ok(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, y, x, large, &err), &err);
            standin_fill(b, HSP_DEVQ_COMPUTE, x, 4.0, N);
        }
        assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), &err);
        assert_int_equal(replayed, i > 1);
        if (!replayed) {
            assert_ok(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, y, x, N, &err), &err);
            assert_ok(b->end(b, HSP_DEVQ_COMPUTE, &err), &err);
        }
    }
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(y) == 4.0f && standin_peek(y + large - 1) == 3.0f);
    float *other = standin_alloc(b, 1 << 18); /* a block as large as the first scratch */
    standin_fill(b, HSP_DEVQ_COMPUTE, other, 9.0, 1 << 18);
    assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), &err);
    assert_true(replayed);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    assert_true(standin_peek(other) == 9.0f);
    /* the queues do not share scratch */
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 5.0, N);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    float *z = standin_alloc(b, N);
    assert_ok(standin_op(b, HSP_DEVQ_STATE, HSP_OP_GELU, z, x, N, &err), &err);
    assert_ok(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU, y, x, N, &err), &err);
    standin_close(b);
}

static void test_failures_between(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *x = standin_alloc(b, N), *y = standin_alloc(b, N);
    uint64_t t;
    bool replayed;
    struct hsp_digest k = {1, 1};
    standin_fill(b, HSP_DEVQ_COMPUTE, x, 1.0, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, y, 0.0, N);
    assert_status(b->end(b, HSP_DEVQ_COMPUTE, &err), HSP_ESTATE);
    for (int i = 0; i < 3; i++) { /* their graph is never kept */
        assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), &err);
        assert_false(replayed);
        assert_status(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), HSP_ESTATE);
        assert_status(b->mark(b, HSP_DEVQ_COMPUTE, &t, &err), HSP_ESTATE);
        assert_status(b->await(b, HSP_DEVQ_COMPUTE, HSP_DEVQ_COMM, 0, &err), HSP_ESTATE);
        assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, y, y, x, N, &err), &err);
        assert_status(standin_op(b, HSP_DEVQ_COMPUTE, HSP_OP_GELU_DX, x, x, N, &err),
                      HSP_EUNSUPPORTED);
        assert_status(standin_add(b, HSP_DEVQ_COMPUTE, y, y, x, N, &err), HSP_ESTATE);
        assert_ok(b->end(b, HSP_DEVQ_COMPUTE, &err), &err);
    }
    assert_ok(standin_add(b, HSP_DEVQ_COMPUTE, y, y, x, N, &err), &err);
    standin_finish(b, HSP_DEVQ_COMPUTE);
    /* the add of the first piece ran, the captures of the other two were forgotten */
    assert_true(standin_peek(y) == 2.0f);
    standin_close(b);
}

/* The scalars of an update are read when the update runs. */
static void test_updates_read_their_scalars(void **state)
{
    (void)state;
    struct hsp_err err;
    struct hsp_backend *b = standin_open(NULL, NULL);
    float *p = standin_alloc(b, N), *g = standin_alloc(b, N), *m = standin_alloc(b, N);
    void *scalars, *host;
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, sizeof(struct hsp_update_scalars), &scalars, &err), &err);
    assert_ok(b->alloc(b, HSP_MEM_HOST, sizeof(struct hsp_update_scalars), &host, &err), &err);
    standin_fill(b, HSP_DEVQ_COMPUTE, p, 100.0, N);
    standin_fill(b, HSP_DEVQ_COMPUTE, g, 1.0, N);
    struct hsp_attrs at = {.i = {0}};
    struct hsp_array a[3] = {{.data = p, .dtype = HSP_F32, .rank = 1, .ext = {N}}};
    a[1] = a[2] = a[0];
    a[1].data = m;
    a[2].data = g;
    struct hsp_call c = {
        .op = HSP_OP_SGDM, .at = &at, .n_in = 3, .n_out = 2, .in = a, .out = a, .update = scalars};
    struct hsp_digest k = {1, 1};
    for (int i = 1; i <= 4; i++) {
        bool replayed;
        *(struct hsp_update_scalars *)host = (struct hsp_update_scalars){.lr = i};
        assert_ok(
            b->copy(b, HSP_DEVQ_COMPUTE, scalars, host, sizeof(struct hsp_update_scalars), &err),
            &err);
        assert_ok(b->begin(b, HSP_DEVQ_COMPUTE, &k, &replayed, &err), &err);
        assert_int_equal(replayed, i > 2);
        if (!replayed) {
            assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
            assert_ok(b->end(b, HSP_DEVQ_COMPUTE, &err), &err);
        }
        standin_finish(b, HSP_DEVQ_COMPUTE);
    }
    assert_true(standin_peek(p) == 90.0f);
    standin_close(b);
}

/* ---- any order ---- */

#define TENSORS 6
#define QUEUES  4 /* the last queue is a lane */

struct world {
    struct hsp_backend *b;
    float *dev[TENSORS], model[TENSORS];
    /* tickets of the last writer, and of the readers since, by queue */
    uint64_t written[TENSORS], read[TENSORS][QUEUES];
    int writer[TENSORS];
    uint64_t step;
};

static enum hsp_devq queue(int i)
{
    return (enum hsp_devq)(i == QUEUES - 1 ? HSP_DEVQ_LANE + 1 : i);
}

static uint64_t draw(struct world *w, uint64_t below)
{
    return hsp_test_rand("replay", w->step++) % below;
}

static void after_writer(struct world *w, int q, int t)
{
    struct hsp_err err;
    assert_ok(w->b->await(w->b, queue(q), queue(w->writer[t]), w->written[t], &err), &err);
}

/* Computes out = x + y on queue @q after the waits that it needs, as a piece under a key or as
 * single calls. */
static void one_sum(struct world *w, int q, int out, int x, int y, bool keyed)
{
    struct hsp_err err;
    bool replayed = false;
    struct hsp_digest k = {(uint64_t)(out * 36 + x * 6 + y), (uint64_t)q};
    after_writer(w, q, x);
    after_writer(w, q, y);
    after_writer(w, q, out);
    for (int r = 0; r < QUEUES; r++) {
        assert_ok(w->b->await(w->b, queue(q), queue(r), w->read[out][r], &err), &err);
    }
    if (keyed) {
        assert_ok(w->b->begin(w->b, queue(q), &k, &replayed, &err), &err);
    }
    if (!replayed) {
        assert_ok(standin_add(w->b, queue(q), w->dev[out], w->dev[x], w->dev[y], N, &err), &err);
    }
    if (keyed && !replayed) {
        assert_ok(w->b->end(w->b, queue(q), &err), &err);
    }
    assert_ok(w->b->mark(w->b, queue(q), &w->written[out], &err), &err);
    w->writer[out] = q;
    w->read[x][q] = w->read[y][q] = w->written[out];
    memset(w->read[out], 0, sizeof(w->read[out]));
    w->model[out] = w->model[x] + w->model[y];
}

/* Moves one tensor to other memory, when no queue uses it. */
static void move(struct world *w, int t)
{
    struct hsp_err err;
    for (int r = 0; r < QUEUES; r++) {
        assert_ok(w->b->finish(w->b, queue(r), w->read[t][r], &err), &err);
    }
    assert_ok(w->b->finish(w->b, queue(w->writer[t]), w->written[t], &err), &err);
    w->b->release(w->b, HSP_MEM_DEVICE, w->dev[t]);
    w->dev[t] = standin_alloc(w->b, N);
    w->model[t] = (float)draw(w, 100);
    assert_ok(w->b->fill(w->b, HSP_DEVQ_COMPUTE, HSP_F32, w->dev[t], (double)w->model[t], N, &err),
              &err);
    w->writer[t] = 0;
    assert_ok(w->b->mark(w->b, HSP_DEVQ_COMPUTE, &w->written[t], &err), &err);
    memset(w->read[t], 0, sizeof(w->read[t]));
}

static void test_any_order(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < hsp_test_rounds(60); round++) {
        struct world w = {.step = (uint64_t)round << 32};
        w.b = standin_open(&(struct hsp_fake_opts){.seed = round}, NULL);
        for (int t = 0; t < TENSORS; t++) {
            w.dev[t] = standin_alloc(w.b, N);
            move(&w, t);
        }
        for (int i = 0; i < 120; i++) {
            if (draw(&w, 12) == 0) {
                move(&w, (int)draw(&w, TENSORS));
            }
            int q = (int)draw(&w, QUEUES), out = (int)draw(&w, TENSORS);
            int x = (int)draw(&w, 2), y = (int)draw(&w, 2) + 2; /* few keys, so many repeat */
            out = out == x || out == y ? 5 : out;
            one_sum(&w, q, out, x, y, draw(&w, 4) != 0);
        }
        for (int q = 0; q < QUEUES; q++) {
            standin_finish(w.b, queue(q));
        }
        for (int t = 0; t < TENSORS; t++) {
            assert_true(standin_peek(w.dev[t]) == w.model[t]);
        }
        assert_true(hsp_fake_calls("cudaGraphLaunch") > 5);
        standin_close(w.b);
    }
}

HSP_TEST_FILE(cuda_replay_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_once_to_run_twice_to_keep),
        cmocka_unit_test(test_rehearsed),
        cmocka_unit_test(test_rehearsed_in_vain),
        cmocka_unit_test(test_the_oldest_goes),
        cmocka_unit_test(test_released_memory),
        cmocka_unit_test(test_an_update_that_is_refused),
        cmocka_unit_test(test_no_memory_for_a_graph),
        cmocka_unit_test(test_what_cannot_be_replayed),
        cmocka_unit_test(test_scratch_grows),
        cmocka_unit_test(test_failures_between),
        cmocka_unit_test(test_updates_read_their_scalars),
        cmocka_unit_test(test_any_order),
    };
    return cmocka_run_group_tests_name("cudareplay", tests, NULL, NULL);
}
