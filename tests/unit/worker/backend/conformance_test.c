/* Runs the conformance suite on the CPU backend, and tests the parts of this backend that the suite
 * does not reach. */
#include <math.h>
#include <stdio.h>

#include "proto/base/element_hash.h"
#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/backend/hash_suite.h"
#include "tests/unit/worker/backend/op_suite.h"
#include "worker/backend/cpu/cpu.h"

static void *aligned(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    assert_non_null(p);
    return p;
}

static void on_both(void (*run)(const struct op_suite *s), int threads)
{
    struct op_suite s = {0};
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(1, &s.one, &err), &err);
    assert_ok(hsp_backend_cpu_open(threads, &s.many, &err), &err);
    run(&s);
    s.one->close(s.one);
    s.many->close(s.many);
}

static void every_op_matches_the_reference(void **state)
{
    (void)state;
    on_both(op_suite_random, 3);
}

static void each_empty_dim_is_handled(void **state)
{
    (void)state;
    on_both(op_suite_empty, 2);
}

static void hashes_are_those_of_the_definition(void **state)
{
    (void)state;
    for (int threads = 1; threads < 4; threads += 2) {
        struct hsp_backend *b;
        struct hsp_err err = {0};
        assert_ok(hsp_backend_cpu_open(threads, &b, &err), &err);
        hash_suite(b);
        sums_suite(b);
        b->close(b);
    }
}

/* Gives more than one block to each worker: all rows of a large matrix to hash, and bytes to copy
 * from and to any address. */
static void state_is_hashed_and_copied_in_blocks(void **state)
{
    (void)state;
    enum { ROWS = 1100, COLS = 901, WIDTH = 1000 };
    static uint32_t x[ROWS * COLS], y[ROWS * COLS + 1];
    struct hsp_hash_call c = {.data = x,
                              .dtype = HSP_F32,
                              .rank = 2,
                              .ext = {ROWS, COLS},
                              .stride = {WIDTH, 1},
                              .key = 7};
    uint64_t want = 0, got = 0;
    for (size_t i = 0; i < HSP_ARRAY_LEN(x); i++) {
        x[i] = (uint32_t)hsp_test_rand("state", i);
    }
    for (uint64_t r = 0; r < ROWS; r++) {
        want += hsp_hash_run_32((const uint8_t *)(x + r * COLS), COLS,
                                c.key + r * WIDTH * HSP_HASH_STEP);
    }
    for (int threads = 1; threads < 5; threads++) {
        struct hsp_backend *b;
        struct hsp_err err = {0};
        uint8_t *to = (uint8_t *)y + threads - 1;
        size_t bytes = sizeof x - (size_t)hsp_test_range("less", (uint64_t)threads, 0, 999);
        assert_ok(hsp_backend_cpu_open(threads, &b, &err), &err);
        assert_ok(b->hash(b, HSP_DEVQ_STATE, &c, 1, &got, &err), &err);
        assert_int_equal(got, want);
        memset(y, 0, sizeof y);
        assert_ok(b->copy(b, HSP_DEVQ_STATE, to, x, bytes, &err), &err);
        assert_memory_equal(to, x, bytes);
        for (const uint8_t *z = to + bytes; z < (const uint8_t *)y + sizeof y; z++) {
            assert_int_equal(*z, 0);
        }
        b->close(b);
    }
}

static void accumulate_adds(void **state)
{
    (void)state;
    struct hsp_backend *b;
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(2, &b, &err), &err);
    enum { N = 40001 };
    float *x = aligned(N * 4), *y = aligned(N * 4);
    double *xd = aligned(N * 8), *yd = aligned(N * 8);
    uint16_t *half = aligned(N * 2);
    for (int i = 0; i < N; i++) {
        half[i] = hsp_bf16_of(0.25F);
        x[i] = (float)i;
        y[i] = 0.5F;
        xd[i] = i;
        yd[i] = 0.25;
    }
    const enum hsp_devq q = HSP_DEVQ_COMPUTE;
    assert_ok(b->accumulate(b, q, HSP_F32, x, HSP_F32, y, N, &err), &err);
    assert_ok(b->accumulate(b, q, HSP_F64, xd, HSP_F64, yd, N, &err), &err);
    assert_ok(b->accumulate(b, q, HSP_F64, xd, HSP_F64, yd, 0, &err), &err);
    assert_ok(b->accumulate(b, q, HSP_F32, x, HSP_BF16, half, N, &err), &err);
    assert_status(b->accumulate(b, q, HSP_F32, x, HSP_F64, yd, N, &err), HSP_EUNSUPPORTED);
    assert_status(b->accumulate(b, q, HSP_BF16, half, HSP_BF16, half, N, &err), HSP_EUNSUPPORTED);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == (float)i + 0.75F && xd[i] == i + 0.25);
    }
    free(x);
    free(y);
    free(xd);
    free(half);
    free(yd);
    b->close(b);
}

static void tails_of_gelu_keep_relative_accuracy(void **state)
{
    (void)state;
    struct hsp_backend *b;
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(1, &b, &err), &err);
    enum { N = 4000 };
    double *x = aligned(N * 8), *y = aligned(N * 8);
    float *xf = aligned(N * 4), *yf = aligned(N * 4);
    for (int i = 0; i < N; i++) {
        xf[i] = (float)(i - N / 2) * 0.005F; /* -10 .. 10 */
        x[i] = (double)xf[i];
    }
    struct hsp_attrs at = {0};
    struct hsp_array in = {x, HSP_F64, 1, {N}}, out = {y, HSP_F64, 1, {N}};
    struct hsp_call c = {
        .op = HSP_OP_GELU, .at = &at, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    in = (struct hsp_array){xf, HSP_F32, 1, {N}};
    out = (struct hsp_array){yf, HSP_F32, 1, {N}};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    for (int i = 0; i < N; i++) {
        double want = x[i] * 0.5 * erfc(-x[i] * M_SQRT1_2);
        double amplified = 1 + x[i] * x[i]; /* the error that rounding x^2 in the exponent makes */
        assert_near(y[i], want, 8e-16 * amplified * fabs(want));
        assert_near((double)yf[i], want, 5e-7 * amplified * fabs(want));
    }
    free(x);
    free(y);
    free(xf);
    free(yf);
    b->close(b);
}

static void not_a_number_stays(void **state)
{
    (void)state;
    struct hsp_backend *b;
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(1, &b, &err), &err);
    float x[40], loss[1], lse[1];
    int32_t label[1] = {3};
    struct hsp_attrs at = {0};
    struct hsp_array in[2] = {{x, HSP_F32, 3, {1, 1, 40}}, {label, HSP_I32, 2, {1, 1}}};
    struct hsp_array out[2] = {{loss, HSP_F32, 2, {1, 1}}, {lse, HSP_F32, 2, {1, 1}}};
    struct hsp_call c = {.op = HSP_OP_XENT, .at = &at, .n_in = 2, .n_out = 2, .in = in, .out = out};
    for (int bad = 0; bad < 40; bad++) {
        for (int i = 0; i < 40; i++) {
            x[i] = i == bad ? NAN : 1.0F;
        }
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
        assert_true(isnan(loss[0]) && isnan(lse[0]));
    }
    float y[40];
    struct hsp_array gin = {x, HSP_F32, 1, {40}}, gout = {y, HSP_F32, 1, {40}};
    c = (struct hsp_call){
        .op = HSP_OP_GELU, .at = &at, .n_in = 1, .n_out = 1, .in = &gin, .out = &gout};
    x[0] = INFINITY;
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    assert_true(isinf(y[0]) && isnan(y[39]));
    b->close(b);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    struct hsp_backend *b;
    struct hsp_err err = {0};
    assert_status(hsp_backend_cpu_open(0, &b, &err), HSP_EINVAL);
    assert_status(hsp_backend_cpu_open(100000, &b, &err), HSP_EINVAL);
    assert_ok(hsp_backend_cpu_open(1, &b, &err), &err);
    float x[12] = {0}, w[12] = {0}, y[12];
    int32_t label[3] = {0, 1, 4};
    struct hsp_attrs at = {{5, 1, 1}, {0}};
    struct hsp_array in[4] = {{x, HSP_F32, 3, {1, 3, 4}}, {w, HSP_F32, 2, {3, 4}}};
    struct hsp_array out[3] = {{y, HSP_F32, 3, {1, 3, 4}}};
    struct hsp_call c = {
        .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = out};
    /* wrong shape of the output */
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EINVAL);
    out[0].ext[2] = 3;
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_OK);
    in[1].ext[1] = 3;
    /* the shapes of the operands disagree */
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EINVAL);
    in[1].ext[1] = 4;
    in[1].dtype = HSP_F64;
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EUNSUPPORTED);
    in[1].dtype = HSP_F32;
    c.n_in = 1;
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EINVAL);
    c.op = (enum hsp_op)HSP_N_OPS;
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EUNSUPPORTED);
    /* an optimizer without its scalars */
    for (int i = 0; i < 3; i++) {
        in[i] = (struct hsp_array){x, HSP_F32, 1, {4}};
        out[i] = (struct hsp_array){y, HSP_F32, 1, {4}};
    }
    c = (struct hsp_call){
        .op = HSP_OP_SGDM, .at = &at, .n_in = 3, .n_out = 2, .in = in, .out = out};
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EINVAL);
    /* a label that is not in the table */
    float loss[3], lse[3];
    in[0] = (struct hsp_array){x, HSP_F32, 3, {1, 3, 4}};
    in[1] = (struct hsp_array){label, HSP_I32, 2, {1, 3}};
    out[0] = (struct hsp_array){loss, HSP_F32, 2, {1, 3}};
    out[1] = (struct hsp_array){lse, HSP_F32, 2, {1, 3}};
    c = (struct hsp_call){
        .op = HSP_OP_XENT, .at = &at, .n_in = 2, .n_out = 2, .in = in, .out = out};
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, "label 4, but there are 4 classes");
    b->close(b);
}

/* Tests the parts without a kernel: memory, copies, fills, cells, tickets. */
static void memory_and_queues(void **state)
{
    (void)state;
    struct hsp_backend *b;
    struct hsp_err err = {0};
    float *x[2];
    void *none = &err;
    uint64_t ticket = 0;
    assert_ok(hsp_backend_cpu_open(1, &b, &err), &err);
    assert_false(b->device);
    for (int k = 0; k < 2; k++) {
        assert_ok(b->alloc(b, k == 0 ? HSP_MEM_DEVICE : HSP_MEM_HOST, 6 * 4, (void **)&x[k], &err),
                  &err);
        assert_true((uintptr_t)x[k] % 256 == 0);
        assert_ok(b->fill(b, HSP_DEVQ_STATE, HSP_F32, x[k], k + 1, 6, &err), &err);
    }
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, 0, &none, &err), &err);
    assert_null(none);
    assert_status(b->alloc(b, HSP_MEM_HOST, SIZE_MAX, &none, &err), HSP_ENOMEM);
    assert_non_null(strstr(err.msg, "no host memory for 18446744073709551615 bytes"));
    const struct hsp_box whole = {.rank = 2, .hi = {2, 3}};
    /* the cell has elements 1 and 4 */
    const struct hsp_box cell = {.rank = 2, .lo = {0, 1}, .hi = {2, 2}};
    const struct hsp_cell_view to = {.data = x[0], .box = whole, .dtype = HSP_F32};
    const struct hsp_cell_view from = {.data = x[1], .box = whole, .dtype = HSP_F32};
    assert_ok(b->cells(b, HSP_DEVQ_COMM, &to, &from, &cell, HSP_CELLS_ADD, &err), &err);
    assert_memory_equal(x[0], ((const float[]){1, 3, 1, 1, 3, 1}), 6 * 4);
    assert_ok(b->cells(b, HSP_DEVQ_COMM, &to, &from, &cell, HSP_CELLS_MAX, &err), &err);
    assert_ok(b->cells(b, HSP_DEVQ_COMM, &from, &to, &cell, HSP_CELLS_COPY, &err), &err);
    assert_memory_equal(x[1], ((const float[]){2, 3, 2, 2, 3, 2}), 6 * 4);
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, x[0], x[1], 2 * 4, &err), &err);
    assert_memory_equal(x[0], ((const float[]){2, 3, 1, 1, 3, 1}), 6 * 4);
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, NULL, NULL, 0, &err), &err);
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &ticket, &err), &err);
    assert_true(ticket > 0);
    assert_ok(b->await(b, HSP_DEVQ_COMM, HSP_DEVQ_COMPUTE, ticket, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMPUTE, ticket, &err), &err);
    assert_true(b->reached(b, HSP_DEVQ_COMPUTE, ticket));
    assert_null(b->native(b, HSP_DEVQ_COMPUTE));
    for (int k = 0; k < 2; k++) {
        b->release(b, k == 0 ? HSP_MEM_DEVICE : HSP_MEM_HOST, x[k]);
    }
    b->release(b, HSP_MEM_DEVICE, NULL);
    b->close(b);
}

static void an_op_without_a_kernel_is_refused_by_name(void **state)
{
    (void)state;
    struct hsp_backend *b;
    struct hsp_err err = {0};
    float x[2] = {1, 2}, y[2] = {0};
    const struct hsp_attrs at = {0};
    struct hsp_array in = {.data = x, .dtype = HSP_F32, .rank = 1, .ext = {2}}, out = in;
    out.data = y;
    const struct hsp_call c = {
        .op = HSP_OP_GELU, .at = &at, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
    assert_ok(hsp_backend_cpu_open(1, &b, &err), &err);
    struct hsp_cpu *cpu = (struct hsp_cpu *)b;
    assert_status(hsp_cpu_run_kernel(cpu, &c, HSP_F32, NULL, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "gelu on a CPU");
    assert_status(hsp_cpu_run_kernel(cpu, &c, HSP_BF16, NULL, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "gelu on a CPU");
    assert_ok(hsp_cpu_run_kernel(cpu, &c, HSP_F32, hsp_cpu_kernels_f32[HSP_OP_GELU], &err), &err);
    assert_true(y[1] > 1.95F);
    b->close(b);
}

HSP_TEST_FILE(conformance_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_matches_the_reference),
        cmocka_unit_test(each_empty_dim_is_handled),
        cmocka_unit_test(hashes_are_those_of_the_definition),
        cmocka_unit_test(state_is_hashed_and_copied_in_blocks),
        cmocka_unit_test(accumulate_adds),
        cmocka_unit_test(memory_and_queues),
        cmocka_unit_test(tails_of_gelu_keep_relative_accuracy),
        cmocka_unit_test(not_a_number_stays),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(an_op_without_a_kernel_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
