/* Tests the kernels of the CUDA backend, which the stand-in for CUDA runs on the host: the
 * conformance suite, and the promises beyond it. Every problem runs twice, the second time with
 * blocks and threads in the opposite order, and must give the same bits. Faults that the stand-in
 * finds on the way (accesses out of bounds, races, reads of memory that nobody wrote) fail the
 * test. */
#include <math.h>
#include <stdio.h>

#include "proto/base/size.h"
#include "proto/layout/box.h"
#include "proto/op/bf16.h"
#include "tests/lib/fakecuda/emulate.h"
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/backend/hash_suite.h"
#include "tests/unit/worker/backend/op_suite.h"
#include "worker/backend/cuda/cuda_device.h"

static struct hsp_backend *open_device(void)
{
    struct hsp_backend *b;
    struct hsp_err err = {0};
    hsp_fake_reset(&(struct hsp_fake_opts){.n_sms = 2, .memory_bytes = (size_t)1 << 28});
    assert_ok(hsp_backend_cuda_open(0, NULL, &b, &err), &err);
    return b;
}

static void close_device(struct hsp_backend *b)
{
    b->close(b);
    if (hsp_fake_reports() > 0) {
        fail_msg("%u reports, the first: %s", hsp_fake_reports(), hsp_fake_report(0));
    }
}

/* ---- the suite ---- */

/* Returns whether this test covers the op; products_test.c tests products and attention. */
static bool judged(enum hsp_op op, enum hsp_dtype t)
{
    (void)t;
    switch (op) {
    case HSP_OP_LINEAR:
    case HSP_OP_LINEAR_DX:
    case HSP_OP_LINEAR_DW:
    case HSP_OP_ATTENTION:
    case HSP_OP_ATTENTION_BWD:
    case HSP_OP_PACKED_ATTENTION:
    case HSP_OP_PACKED_ATTENTION_BWD:
    case HSP_OP_ATTENTION_MERGE: return false;
    default: return true;
    }
}

/* Returns the tolerance: the CPU sums in fp64 and rounds once, these kernels add short fp32 sums in
 * a deep tree. */
static double tolerance(enum hsp_op op, enum hsp_dtype t, double tol)
{
    (void)op;
    /* device_test.c has the tolerance of longer sums in fp32 */
    return t == HSP_F64 ? 2 * tol : 4 * tol + 1e-7;
}

static void on_the_device(void (*run)(const struct op_suite *s))
{
    struct hsp_backend *b = open_device();
    struct op_suite s = {.one = b,
                         .many = b,
                         .same_bits = true,
                         .judged = judged,
                         .tolerance = tolerance,
                         .second = hsp_fake_run_backwards};
    run(&s);
    close_device(b);
}

#ifndef HSP_SANITIZE
static void every_op_matches_the_reference(void **state)
{
    (void)state;
    on_the_device(op_suite_random);
}
#endif

static void each_empty_dim_is_handled(void **state)
{
    (void)state;
    on_the_device(op_suite_empty);
}

/* Runs aligned rows of each length that has a kernel of its own, and sums of many parts. If rows
 * are long, a table has few. */
static void long_rows(const struct op_suite *s)
{
    static const struct op_dims dims[] = {
        {.b = 1, .s = 9, .n = 2048, .k = 4, .e = 1024, .v = 40, .h = 2, .d = 64, .origin = 8},
        {.b = 1, .s = 9, .n = 8, .k = 8, .e = 16, .v = 1024, .h = 1, .d = 8, .origin = 8},
        {.b = 1, .s = 3, .n = 264, .k = 33, .e = 2560, .v = 16, .h = 1, .d = 8, .origin2 = 4},
        {.b = 1, .s = 3, .n = 8, .k = 8, .e = 8, .v = 3001, .h = 1, .d = 8, .origin2 = 4},
        {.b = 1, .s = 2, .n = 8, .k = 8, .e = 9000, .v = 16, .h = 1, .d = 8, .origin2 = 4},
        {.b = 2, .s = 150, .n = 64, .k = 160, .e = 8, .v = 40, .h = 2, .d = 16, .origin2 = 2},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(dims); i++) {
        op_suite_dims(s, &dims[i]);
    }
}

static void long_rows_match_the_reference(void **state)
{
    (void)state;
    on_the_device(long_rows);
}

/* ---- single calls ---- */

static void *put(struct hsp_backend *b, const void *host, size_t bytes)
{
    struct hsp_err err = {0};
    void *p = NULL;
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes, &p, &err), &err);
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, p, host, bytes, &err), &err);
    return p;
}

static void finish(struct hsp_backend *b)
{
    struct hsp_err err = {0};
    uint64_t t;
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &t, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMPUTE, t, &err), &err);
}

static void get(struct hsp_backend *b, void *host, const void *p, size_t bytes)
{
    struct hsp_err err = {0};
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, host, p, bytes, &err), &err);
    finish(b);
}

/* Computes the loss of one row of floats, and its log-sum-exp. */
static void xent_row(struct hsp_backend *b, const float *x, int64_t n, int32_t label, float ret[2])
{
    struct hsp_err err = {0};
    struct hsp_attrs at = {0};
    const float nothing[2] = {0};
    float *dx = put(b, x, (size_t)n * 4), *dret = put(b, nothing, 8), *out1 = dret + 1;
    int32_t *dlabel = put(b, &label, 4);
    struct hsp_array in[2] = {{dx, HSP_F32, 3, {1, 1, n}}, {dlabel, HSP_I32, 2, {1, 1}}};
    struct hsp_array out[2] = {{dret, HSP_F32, 2, {1, 1}}, {out1, HSP_F32, 2, {1, 1}}};
    struct hsp_call c = {.op = HSP_OP_XENT, .at = &at, .n_in = 2, .n_out = 2, .in = in, .out = out};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    get(b, ret, dret, 8);
    b->release(b, HSP_MEM_DEVICE, dx);
    b->release(b, HSP_MEM_DEVICE, dret);
    b->release(b, HSP_MEM_DEVICE, dlabel);
}

static void not_a_number_stays(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device();
    float x[2100], y[2];
    for (int64_t n = 40; n <= 2100; n += 2060) { /* rows of a warp, and of a block */
        for (int64_t bad = 0; bad < n; bad += n / 10 + 1) {
            for (int i = 0; i < n; i++) {
                x[i] = i == bad ? NAN : bad % 2 == 0 ? -INFINITY : 1.0F;
            }
            xent_row(b, x, n, 3, y);
            assert_true(isnan(y[0]) && isnan(y[1]));
        }
        for (int i = 0; i < n; i++) {
            x[i] = i == 5 ? 2.0F : -INFINITY; /* all other classes are impossible */
        }
        xent_row(b, x, n, 5, y);
        assert_true(y[0] == 0 && y[1] == 2);
        xent_row(b, x, n, -1, y);
        assert_true(y[0] == 0 && y[1] == 2);
        xent_row(b, x, n, (int32_t)n, y); /* the label is no class */
        assert_true(isnan(y[0]) && y[1] == 2);
    }
    close_device(b);
}

static void tails_of_gelu(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device();
    struct hsp_err err = {0};
    enum { N = 4001 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i - N / 2) * 0.005F; /* -10 .. 10 */
    }
    x[0] = -INFINITY;
    x[1] = NAN;
    struct hsp_attrs at = {0};
    float *dx = put(b, x, sizeof(x)), *dy = put(b, x, sizeof(x));
    struct hsp_array in[2] = {{dx, HSP_F32, 1, {N}}, {dx, HSP_F32, 1, {N}}};
    struct hsp_array out = {dy, HSP_F32, 1, {N}};
    struct hsp_call c = {
        .op = HSP_OP_GELU, .at = &at, .n_in = 1, .n_out = 1, .in = in, .out = &out};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    get(b, y, dy, sizeof(y));
    assert_true(isnan(y[1]));
    for (int i = 2; i < N; i++) {
        double want = (double)x[i] * 0.5 * erfc(-(double)x[i] * M_SQRT1_2);
        assert_near((double)y[i], want, 5e-7 * (1 + (double)x[i] * (double)x[i]) * fabs(want));
    }
    close_device(b);
}

/* ---- accumulate, fill, cells ---- */

/* Adds and fills arrays at every alignment, for all pairs of types that may be combined. */
static void sums_and_fills(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device();
    struct hsp_err err = {0};
    enum { N = 1003 };
    static float f[N];
    static double d[N];
    static uint16_t h[N];
    static int32_t ids[N];
    for (int off = 0; off < 3; off++) {
        int64_t n = N - off - 1; /* the element after the array must not change */
        for (int i = 0; i < N; i++) {
            f[i] = (float)i;
            d[i] = i;
            h[i] = hsp_bf16_of(0.5F);
        }
        float *df = put(b, f, sizeof(f));
        double *dd = put(b, d, sizeof(d));
        uint16_t *dh = put(b, h, sizeof(h));
        int32_t *di = put(b, ids, sizeof(ids));
        const enum hsp_devq q = HSP_DEVQ_COMPUTE;
        assert_ok(b->accumulate(b, q, HSP_F64, dd + off, HSP_F32, df + off, n, &err), &err);
        assert_ok(b->accumulate(b, q, HSP_F64, dd + off, HSP_BF16, dh + off, n, &err), &err);
        assert_ok(b->accumulate(b, q, HSP_F64, dd + off, HSP_F64, dd + off, n, &err), &err);
        assert_ok(b->accumulate(b, q, HSP_F32, df + off, HSP_BF16, dh + off, n, &err), &err);
        assert_ok(b->accumulate(b, q, HSP_F32, df + off, HSP_F32, df + off, n, &err), &err);
        assert_ok(b->fill(b, q, HSP_BF16, dh + off, -1.5, n, &err), &err);
        assert_ok(b->fill(b, q, HSP_I32, di + off, -7, n, &err), &err);
        get(b, f, df, sizeof(f));
        get(b, d, dd, sizeof(d));
        get(b, h, dh, sizeof(h));
        get(b, ids, di, sizeof(ids));
        for (int i = 0; i < N; i++) {
            bool in = i >= off && i < off + n;
            assert_true(f[i] == (in ? 2 * ((float)i + 0.5F) : (float)i));
            assert_true(d[i] == (in ? 2 * (2.0 * i + 0.5) : i));
            assert_true(hsp_bf16_float(h[i]) == (in ? -1.5F : 0.5F));
            assert_true(ids[i] == (in ? -7 : 0));
            ids[i] = 0;
        }
        assert_ok(b->fill(b, q, HSP_F64, dd + off, 3.25, n, &err), &err);
        assert_ok(b->fill(b, q, HSP_F32, df + off, 0, n, &err), &err);
        get(b, f, df, sizeof(f));
        get(b, d, dd, sizeof(d));
        assert_true(f[off] == 0 && d[off] == 3.25 && f[N - 1] == (float)(N - 1));
        b->release(b, HSP_MEM_DEVICE, df);
        b->release(b, HSP_MEM_DEVICE, dd);
        b->release(b, HSP_MEM_DEVICE, dh);
        b->release(b, HSP_MEM_DEVICE, di);
    }
    close_device(b);
}

static void random_boxes(uint64_t i, struct hsp_box *cell, struct hsp_cell_view *a,
                         struct hsp_cell_view *c)
{
    static const int64_t most[] = {5, 9, 16, 40};
    uint8_t rank = (uint8_t)hsp_test_range("rank", i, 0, HSP_MAX_RANK);
    cell->rank = a->box.rank = c->box.rank = rank;
    for (uint8_t d = 0; d < rank; d++) {
        uint64_t at = i * 64 + d * 8;
        /* cells that can be copied by 16 bytes, or not */
        int64_t grain = hsp_test_range("grain", i, 0, 1) != 0 ? 8 : 1;
        cell->lo[d] = hsp_test_range("lo", at, 2, 4) * grain;
        cell->hi[d] = cell->lo[d] + hsp_test_range("n", at, 1, most[d] / grain + 1) * grain;
        struct hsp_cell_view *v[2] = {a, c};
        for (int s = 0; s < 2; s++) {
            bool tight = hsp_test_range("tight", at + (uint64_t)s, 0, 1) != 0;
            v[s]->box.lo[d] = cell->lo[d] - (tight ? 0 : grain);
            v[s]->box.hi[d] = cell->hi[d] + (tight ? 0 : grain);
        }
    }
}

static void set(void *p, enum hsp_dtype t, int64_t i, uint64_t r)
{
    double x = (double)(r % 2001) / 8 - 125;
    if (t == HSP_I32) {
        ((int32_t *)p)[i] = (int32_t)(r % 4001) - 2000;
    } else if (t == HSP_BF16) {
        ((uint16_t *)p)[i] = hsp_bf16_of(r % 31 == 0 ? NAN : (float)x);
    } else if (t == HSP_F32) {
        ((float *)p)[i] = r % 31 == 0 ? NAN : (float)x;
    } else {
        ((double *)p)[i] = r % 31 == 0 ? (double)NAN : x;
    }
}

/* Returns true if the numbers are equal, or both are NaN. The bits of two NaNs may differ. */
static bool same(const void *x, const void *y, enum hsp_dtype t, int64_t i)
{
    size_t size = hsp_dtype_size(t);
    if (memcmp((const uint8_t *)x + (size_t)i * size, (const uint8_t *)y + (size_t)i * size,
               size) == 0) {
        return true;
    }
    return (t == HSP_F32 && isnan(((const float *)x)[i]) && isnan(((const float *)y)[i])) ||
           (t == HSP_F64 && isnan(((const double *)x)[i]) && isnan(((const double *)y)[i])) ||
           (t == HSP_BF16 && isnan(hsp_bf16_float(((const uint16_t *)x)[i])) &&
            isnan(hsp_bf16_float(((const uint16_t *)y)[i])));
}

static void one_cell(struct hsp_backend *b, uint64_t i, enum hsp_dtype t, enum hsp_cells how)
{
    struct hsp_err err = {0};
    struct hsp_box cell = {0};
    struct hsp_cell_view a = {.dtype = t}, c = {.dtype = t};
    random_boxes(i, &cell, &a, &c);
    int64_t na = hsp_box_count(&a.box), nc = hsp_box_count(&c.box);
    size_t size = hsp_dtype_size(t);
    uint8_t *ha = malloc((size_t)na * size), *hc = malloc((size_t)nc * size);
    uint8_t *result = malloc((size_t)na * size);
    assert_true(ha != NULL && hc != NULL && result != NULL);
    for (int64_t k = 0; k < na; k++) {
        set(ha, t, k, hsp_test_rand("a", i * 100000 + (uint64_t)k));
    }
    for (int64_t k = 0; k < nc; k++) {
        set(hc, t, k, hsp_test_rand("c", i * 100000 + (uint64_t)k));
    }
    a.data = put(b, ha, (size_t)na * size);
    c.data = put(b, hc, (size_t)nc * size);
    assert_ok(b->cells(b, HSP_DEVQ_COMPUTE, &a, &c, &cell, how, &err), &err);
    get(b, result, a.data, (size_t)na * size);
    struct hsp_cell_view wa = a, wc = c;
    wa.data = ha;
    wc.data = hc;
    if (how == HSP_CELLS_COPY) {
        hsp_cell_copy(&wa, &wc, &cell);
    } else {
        hsp_cell_reduce(&wa, &wc, &cell, how == HSP_CELLS_MAX ? HSP_REDUCE_MAX : HSP_REDUCE_SUM);
    }
    for (int64_t k = 0; k < na; k++) {
        if (!same(result, ha, t, k)) {
            fail_msg("cell %llu of %s, %d: element %lld of %lld", (unsigned long long)i,
                     hsp_dtype_name(t), (int)how, (long long)k, (long long)na);
        }
    }
    b->release(b, HSP_MEM_DEVICE, a.data);
    b->release(b, HSP_MEM_DEVICE, c.data);
    free(ha);
    free(hc);
    free(result);
}

static void cells_are_those_of_the_host(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device();
    static const enum hsp_dtype types[] = {HSP_F32, HSP_F64, HSP_I32, HSP_BF16};
    for (uint64_t i = 0; i < 40; i++) {
        for (size_t t = 0; t < HSP_ARRAY_LEN(types); t++) {
            one_cell(b, i, types[t], HSP_CELLS_COPY);
            one_cell(b, i, types[t], HSP_CELLS_ADD);
            one_cell(b, i, types[t], HSP_CELLS_MAX);
        }
    }
    close_device(b);
}

static void hashes_are_those_of_the_definition(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device();
    hash_suite(b);
    sums_suite(b);
    close_device(b);
}

HSP_TEST_FILE(kernels_test)
{
    if (!hsp_fake_can_run()) {
        (void)puts("1..0 # SKIP threads of a block have stacks of their own, which this tool does "
                   "not follow");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_empty_dim_is_handled),
#ifndef HSP_SANITIZE /* takes some twenty minutes under sanitizers */
        cmocka_unit_test(every_op_matches_the_reference),
#endif
        cmocka_unit_test(long_rows_match_the_reference),
        cmocka_unit_test(not_a_number_stays),
        cmocka_unit_test(tails_of_gelu),
        cmocka_unit_test(sums_and_fills),
        cmocka_unit_test(cells_are_those_of_the_host),
        cmocka_unit_test(hashes_are_those_of_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
