/* Tests linear layers and attention of the CUDA backend on a device of host memory: compared with
 * the fp64 reference, in both orders of threads, and with copies that complete early or late. */
#include <math.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/fakecuda/emulate.h"
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/fakecuda/include/tensortwin.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/backend/block_suite.h"
#include "tests/unit/worker/backend/op_suite.h"
#include "worker/backend/cuda/cuda_device.h"

static bool is_linear(enum hsp_op op)
{
    return op == HSP_OP_LINEAR || op == HSP_OP_LINEAR_DX || op == HSP_OP_LINEAR_DW;
}

static bool is_attention(enum hsp_op op)
{
    return op == HSP_OP_ATTENTION || op == HSP_OP_ATTENTION_BWD || op == HSP_OP_PACKED_ATTENTION ||
           op == HSP_OP_PACKED_ATTENTION_BWD || op == HSP_OP_ATTENTION_MERGE;
}

static bool judge_all(enum hsp_op op, enum hsp_dtype t)
{
    (void)t;
    return is_linear(op) || is_attention(op);
}

static bool judge_flash(enum hsp_op op, enum hsp_dtype t)
{
    return t == HSP_BF16 && is_attention(op);
}

static bool judge_bf16(enum hsp_op op, enum hsp_dtype t)
{
    return t == HSP_BF16 && judge_all(op, t);
}

/* Returns the tolerance. With tensor cores, attention weights and their gradients are rounded to
 * bf16 before the second product. The stand-in computes the library's fp32 sums in fp64. */
static double tolerance(enum hsp_op op, enum hsp_dtype t, double tol)
{
    bool bwd = op == HSP_OP_ATTENTION_BWD || op == HSP_OP_PACKED_ATTENTION_BWD;
    return t == HSP_BF16 && is_attention(op) ? (bwd ? 0x1p-8 : 0x1p-9) : 4 * tol;
}

/* Turns the order of threads for the second run, in which copies complete at once. */
static void turn(bool begins)
{
    hsp_fake_run_backwards(begins);
    hsp_twin_copies_reset(begins);
}

static struct hsp_backend *open_fake(struct hsp_fake_opts o)
{
    struct hsp_backend *b;
    struct hsp_err err = {0};
    hsp_fake_reset(&o);
    hsp_twin_copies_reset(false);
    assert_ok(hsp_backend_cuda_open(0, NULL, &b, &err), &err);
    return b;
}

static struct hsp_backend *open_device(int sm)
{
    return open_fake((struct hsp_fake_opts){.sm = sm, .eager = true});
}

static void close_device(struct hsp_backend *b)
{
    b->close(b);
    for (unsigned i = 0; i < hsp_fake_reports(); i++) {
        print_message("%s\n", hsp_fake_report(i));
    }
    assert_int_equal(hsp_fake_reports(), 0);
    assert_int_equal(hsp_fake_usage().handles, 0);
    assert_int_equal(hsp_fake_usage().device_bytes, 0);
}

static struct op_suite suite_of(struct hsp_backend *b,
                                bool (*judged)(enum hsp_op op, enum hsp_dtype t))
{
    return (struct op_suite){.one = b,
                             .many = b,
                             .same_bits = true,
                             .judged = judged,
                             .tolerance = tolerance,
                             .second = turn};
}

static struct op_dims dims(int64_t s, int64_t t, int64_t h, int64_t d, int64_t origin,
                           int64_t origin2, bool causal)
{
    return (struct op_dims){.b = 2,
                            .s = s,
                            .t = t,
                            .k = 1 + s % 67,
                            .n = 1 + t % 61,
                            .e = 1,
                            .v = 1,
                            .h = h,
                            .d = d,
                            .origin = origin,
                            .origin2 = origin2,
                            .causal = causal};
}

static void small_and_empty(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    struct op_suite s = suite_of(b, judge_all);
    static const int64_t c[][6] = {{1, 1, 1, 1, 0, 0},    {11, 7, 2, 5, 3, 9},
                                   {17, 33, 1, 24, 0, 0}, {40, 35, 1, 16, 2, 5},
                                   {19, 23, 3, 8, 9, 14}, {50, 9, 1, 72, 0, 20}};
    for (size_t i = 0; i < HSP_ARRAY_LEN(c); i++) {
        struct op_dims m = dims(c[i][0], c[i][1], c[i][2], c[i][3], c[i][4], c[i][5], i % 3 != 0);
        op_suite_dims(&s, &m);
    }
    op_suite_empty(&s);
    close_device(b);
}

/* Runs attention for each head width that has a kernel of its own, and for some widths between,
 * over several tiles. */
static void heads_of_all_widths(void **state)
{
    (void)state;
    static const int64_t c[][5] = {
        {20, 70, 64, 60, 20},  {33, 21, 48, 9, 3}, {130, 131, 64, 0, 0},  {130, 40, 128, 0, 0},
        {20, 50, 128, 40, 10}, {17, 19, 72, 5, 5}, {66, 20, 256, 10, 30}, {18, 35, 136, 20, 3}};
    struct hsp_backend *b = open_device(90);
    struct op_suite s = suite_of(b, judge_flash);
    for (size_t i = 0; i < hsp_test_rounds(HSP_ARRAY_LEN(c)); i++) {
        struct op_dims m = dims(c[i][0], c[i][1], 1, c[i][2], c[i][3], c[i][4], i % 3 != 2);
        m.b = 1;
        op_suite_dims(&s, &m);
    }
    close_device(b);
}

static void without_tensor_cores(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(75);
    struct op_suite s = suite_of(b, judge_bf16);
    struct op_dims m = dims(37, 41, 1, 64, 9, 4, true);
    op_suite_dims(&s, &m);
    m.d = 17;
    op_suite_dims(&s, &m);
    close_device(b);
}

static void blocks_make_the_whole(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    block_suite_whole(&(struct block_suite){.backend = b,
                                            .type = HSP_F64,
                                            .tolerance = 1e-12,
                                            .n = hsp_test_rounds(6),
                                            .max_d = 20,
                                            .unit_d = 1});
    block_suite_whole(&(struct block_suite){.backend = b,
                                            .type = HSP_BF16,
                                            .tolerance = 4e-2,
                                            .n = hsp_test_rounds(9),
                                            .max_d = 64,
                                            .unit_d = 8});
    block_suite_nothing(&(struct block_suite){.backend = b, .type = HSP_F64});
    block_suite_nothing(&(struct block_suite){.backend = b, .type = HSP_BF16});
    close_device(b);
}

/* ---- one call ---- */

/* Allocates device memory and fills it with @values, converted to @t; with ones if @values is
 * NULL. */
static struct hsp_array device_array(struct hsp_backend *b, enum hsp_dtype t, int64_t e0,
                                     int64_t e1, int64_t e2, const double *values)
{
    struct hsp_err err = {0};
    struct hsp_array a = {.dtype = t, .rank = 3, .ext = {e0, e1, e2}};
    int64_t n = e0 * e1 * e2;
    uint8_t *host = calloc((size_t)n + 1, 8);
    assert_non_null(host);
    for (int64_t i = 0; i < n; i++) {
        double v = values != NULL ? values[i] : 1;
        if (t == HSP_F64) {
            ((double *)(void *)host)[i] = v;
        } else if (t == HSP_F32) {
            ((float *)(void *)host)[i] = (float)v;
        } else if (t == HSP_BF16) {
            ((uint16_t *)(void *)host)[i] = hsp_bf16_of((float)v);
        } else {
            ((int32_t *)(void *)host)[i] = (int32_t)v;
        }
    }
    size_t bytes = (size_t)n * hsp_dtype_size(t);
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes, &a.data, &err), &err);
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, a.data, host, bytes, &err), &err);
    free(host);
    return a;
}

static double *values_of(struct hsp_backend *b, const struct hsp_array *a)
{
    struct hsp_err err = {0};
    int64_t n = a->ext[0] * a->ext[1] * a->ext[2];
    double *ret = calloc((size_t)n + 1, 8);
    uint8_t *host = calloc((size_t)n + 1, 8);
    uint64_t ticket;
    assert_true(ret != NULL && host != NULL);
    assert_ok(
        b->copy(b, HSP_DEVQ_COMPUTE, host, a->data, (size_t)n * hsp_dtype_size(a->dtype), &err),
        &err);
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &ticket, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMPUTE, ticket, &err), &err);
    for (int64_t i = 0; i < n; i++) {
        ret[i] = a->dtype == HSP_F64   ? ((double *)(void *)host)[i]
                 : a->dtype == HSP_F32 ? (double)((float *)(void *)host)[i]
                                       : (double)hsp_bf16_float(((uint16_t *)(void *)host)[i]);
    }
    free(host);
    return ret;
}

static void drop(struct hsp_backend *b, struct hsp_array *a, int n)
{
    for (int i = 0; i < n; i++) {
        b->release(b, HSP_MEM_DEVICE, a[i].data);
    }
}

/* Runs two documents of 128 positions. Keys that the second does not see are NaN, so a kernel that
 * reads a tile that none of its rows sees gives NaN. */
static void documents_do_not_look_at_each_other(void **state)
{
    (void)state;
    enum { S = 256, D = 64 };
    struct hsp_backend *b = open_device(80);
    struct hsp_err err = {0};
    static double x[S * D], bad[S * D], starts[S];
    for (int i = 0; i < S * D; i++) {
        x[i] = (double)hsp_test_range("x", (uint64_t)i, -100, 100) / 100;
        bad[i] = i < S / 2 * D ? (double)NAN : x[i];
        starts[i / D] = i / D < S / 2 ? 0 : S / 2;
    }
    /* first keys before the document, then queries after it */
    for (int side = 0; side < 2; side++) {
        if (side == 1) {
            for (int i = 0; i < S * D; i++) {
                bad[i] = i < S / 2 * D ? x[i] : (double)NAN;
            }
        }
        struct hsp_attrs at = {{D, 1, 1}, {0.125}};
        struct hsp_array in[7], out[5];
        in[0] = device_array(b, HSP_BF16, 1, S, D, side == 1 ? bad : x);
        in[1] = device_array(b, HSP_BF16, 1, S, D, side == 1 ? bad : x);
        in[2] = device_array(b, HSP_BF16, 1, S, D, side == 0 ? bad : x);
        in[3] = device_array(b, HSP_BF16, 1, S, D, side == 0 ? bad : x);
        in[6] = device_array(b, HSP_I32, 1, S, 1, starts);
        in[6].rank = 2;
        out[0] = device_array(b, HSP_BF16, 1, S, D, NULL);
        out[1] = device_array(b, HSP_F32, 1, S, 1, NULL);
        for (int i = 2; i < 5; i++) {
            out[i] = device_array(b, HSP_BF16, 1, S, D, NULL);
        }
        struct hsp_array f[4] = {in[1], in[2], in[3], in[6]};
        struct hsp_call c = {
            .op = HSP_OP_PACKED_ATTENTION, .at = &at, .n_in = 4, .n_out = 2, .in = f, .out = out};
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
        in[4] = out[0];
        in[5] = out[1];
        c = (struct hsp_call){.op = HSP_OP_PACKED_ATTENTION_BWD,
                              .at = &at,
                              .n_in = 7,
                              .n_out = 3,
                              .in = in,
                              .out = out + 2};
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
        double *o = values_of(b, &out[0]), *dq = values_of(b, &out[2]), *dk = values_of(b, &out[3]);
        for (int i = 0; i < S * D; i++) {
            bool sees = side == 0 ? i >= S / 2 * D : i < S / 2 * D;
            assert_int_equal(isnan(o[i]) == 0, sees);
            assert_int_equal(isnan(dq[i]) == 0, sees);
            assert_int_equal(isnan(dk[i]) == 0, sees);
        }
        free(o);
        free(dq);
        free(dk);
        drop(b, out, 5);
        drop(b, in, 4);
        drop(b, in + 6, 1);
    }
    close_device(b);
}

/* Runs attention forward, backward and merge. Every operand has one element more than needed, and
 * begins at element @skip. */
static void attend(struct hsp_backend *b, int skip, double *ret[3])
{
    enum { S = 24, D = 16, N = S * D };
    struct hsp_err err = {0};
    static double x[N + 1];
    struct hsp_attrs at = {{D, 1, 1}, {0.25}};
    struct hsp_array in[9], *out = in + 3, lse;
    for (int i = 0; i < 9; i++) {
        for (int k = 0; k < N + 1; k++) {
            x[k] =
                k < skip ? 0 : (double)hsp_test_range("x", (uint64_t)(i * N + k - skip), -8, 8) / 8;
        }
        in[i] = device_array(b, HSP_BF16, 1, 1, N + 1, x);
        in[i].ext[1] = S;
        in[i].ext[2] = D;
        in[i].data = (uint16_t *)in[i].data + skip;
    }
    lse = device_array(b, HSP_F32, 1, S, 1, NULL);
    struct hsp_array o[2] = {out[0], lse}, bwd[6] = {in[4], in[0], in[1], in[2], in[3], lse};
    struct hsp_call c = {
        .op = HSP_OP_ATTENTION, .at = &at, .n_in = 3, .n_out = 2, .in = in, .out = o};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    c = (struct hsp_call){
        .op = HSP_OP_ATTENTION_BWD, .at = &at, .n_in = 6, .n_out = 3, .in = bwd, .out = in + 5};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    ret[0] = values_of(b, &in[3]);
    ret[1] = values_of(b, &in[6]);
    struct hsp_array merge[4] = {in[3], lse, in[0], lse}, merged[2] = {in[8], lse};
    c = (struct hsp_call){
        .op = HSP_OP_ATTENTION_MERGE, .at = &at, .n_in = 4, .n_out = 2, .in = merge, .out = merged};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    ret[2] = values_of(b, &in[8]);
    for (int i = 0; i < 9; i++) {
        in[i].data = (uint16_t *)in[i].data - skip;
    }
    drop(b, in, 9);
    drop(b, &lse, 1);
}

/* Operands need not be aligned to 16 bytes. */
static void odd_places(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    double *even[3], *odd[3];
    attend(b, 0, even);
    attend(b, 1, odd);
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 24 * 16; i++) {
            assert_true(fabs(even[r][i] - odd[r][i]) <= 0x1p-6 * (1 + fabs(odd[r][i])));
        }
        free(even[r]);
        free(odd[r]);
    }
    close_device(b);
}

static void wrong_heads_are_refused(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    struct hsp_err err = {0};
    struct hsp_attrs at = {{264, 1, 1}, {1}};
    struct hsp_array in[3], out[2] = {device_array(b, HSP_BF16, 1, 2, 264, NULL),
                                      device_array(b, HSP_F32, 1, 2, 1, NULL)};
    for (int i = 0; i < 3; i++) {
        in[i] = device_array(b, HSP_BF16, 1, 2, 264, NULL);
    }
    struct hsp_call c = {
        .op = HSP_OP_ATTENTION, .at = &at, .n_in = 3, .n_out = 2, .in = in, .out = out};
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EUNSUPPORTED);
    assert_err(&err, HSP_EUNSUPPORTED, "attention: heads of 264 elements, above 256");
    drop(b, in, 3);
    drop(b, out, 2);
    close_device(b);
}

/* ---- products and their addends ---- */

static double noise(const char *name, int i)
{
    return (double)hsp_test_range(name, (uint64_t)i, -16, 16) / 8; /* exact in bf16 */
}

struct sum_case {
    enum hsp_op op;
    enum hsp_dtype type, out;
    bool bias, add, in_place;
    int sm;
};

/* Checks a product with additions: x [1, M, K], w [N, K]; linear, or dw of dy [1, M, N] (in w) and
 * x. */
static void check_sum(const struct sum_case *s)
{
    enum { M = 24, N = 16, K = 40 };
    struct hsp_backend *b = open_device(s->sm);
    struct hsp_err err = {0};
    static double x[M * K], w[M * K], bias[K], add[M * K];
    bool dw = s->op == HSP_OP_LINEAR_DW;
    int rows = dw ? N : M, columns = dw ? K : N;
    for (int i = 0; i < M * K; i++) {
        x[i] = noise("x", i);
        w[i] = noise("w", i);
        add[i] = noise("add", i);
        bias[i % K] = noise("bias", i % K);
    }
    struct hsp_array in[2], out[1], a[3];
    in[0] = device_array(b, s->type, 1, M, dw ? N : K, dw ? w : x);
    in[1] = dw ? device_array(b, s->type, 1, M, K, x) : device_array(b, s->type, 1, N, K, w);
    if (!dw) {
        in[1] = (struct hsp_array){in[1].data, s->type, 2, {N, K}};
    }
    out[0] = (struct hsp_array){
        NULL, dw ? hsp_dtype_wide(s->type) : s->type, dw ? 2 : 3, {dw ? N : 1, dw ? K : M, N}};
    a[0] = device_array(b, s->out, 1, 1, columns, bias);
    a[0] = (struct hsp_array){a[0].data, s->out, 1, {columns}};
    a[1] = device_array(b, s->out, 1, rows, columns, add);
    a[2] = s->in_place ? a[1] : device_array(b, s->out, 1, rows, columns, NULL);
    struct hsp_array add2 = {a[1].data, s->out, 2, {rows, columns}}, out2 = add2;
    out2.data = a[2].data;
    struct hsp_sum sum = {s->bias ? &a[0] : NULL, s->add ? (dw ? &add2 : &a[1]) : NULL,
                          dw ? &out2 : &a[2]};
    struct hsp_attrs at = {{0}, {0}};
    struct hsp_call c = {.op = s->op, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = out};
    bool done = false;
    assert_ok(b->run_sum(b, HSP_DEVQ_COMPUTE, &c, &sum, &done, &err), &err);
    assert_int_equal(done, s->type != HSP_BF16 || s->sm >= 80);
    double *got = values_of(b, &a[2]);
    for (int i = 0; done && i < rows * columns; i++) {
        double want = (s->bias ? bias[i % columns] : 0) + (s->add ? add[i] : 0);
        for (int k = 0; k < (dw ? M : K); k++) {
            want += dw ? w[k * N + i / K] * x[k * K + i % K] : x[i / N * K + k] * w[i % N * K + k];
        }
        assert_near(got[i], want, (s->out == HSP_BF16 ? 0x1p-8 : 1e-6) * (1 + fabs(want)));
    }
    free(got);
    drop(b, in, 2);
    drop(b, a, s->in_place ? 2 : 3);
    close_device(b);
}

static void sums_are_made_at_once(void **state)
{
    (void)state;
    static const struct sum_case c[] = {
        {HSP_OP_LINEAR, HSP_BF16, HSP_BF16, true, false, false, 80},
        {HSP_OP_LINEAR, HSP_BF16, HSP_BF16, true, true, false, 80},
        {HSP_OP_LINEAR, HSP_BF16, HSP_BF16, false, true, true, 90},
        {HSP_OP_LINEAR_DW, HSP_BF16, HSP_F32, false, true, true, 90},
        {HSP_OP_LINEAR, HSP_F32, HSP_F32, true, true, false, 75},
        {HSP_OP_LINEAR_DW, HSP_F32, HSP_F32, false, true, true, 75},
        {HSP_OP_LINEAR_DW, HSP_F64, HSP_F64, false, true, true, 80},
        /* products that are not done in one call */
        {HSP_OP_LINEAR, HSP_BF16, HSP_BF16, true, false, false, 75},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(c); i++) {
        check_sum(&c[i]);
    }
}

static void results_over_operands_are_not_made_at_once(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    struct hsp_err err = {0};
    struct hsp_array x = device_array(b, HSP_F32, 1, 16, 32, NULL), w = x, more = x, none = x;
    w.rank = 2;
    w.ext[0] = 16;
    w.ext[1] = 32;
    w.data = (char *)x.data + 256; /* operands may overlap */
    struct hsp_array in[2] = {x, w}, own = {NULL, HSP_F32, 3, {1, 16, 16}};
    more.ext[2] = none.ext[2] = 16;
    more.data = (char *)x.data + 1024;
    struct hsp_attrs at = {{0}, {0}};
    struct hsp_call c = {
        .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &own};
    bool done = true;
    struct hsp_sum sum = {NULL, NULL, &more};
    assert_ok(b->run_sum(b, HSP_DEVQ_COMPUTE, &c, &sum, &done, &err), &err);
    assert_false(done); /* the result overlaps x */
    struct hsp_array y = device_array(b, HSP_F32, 1, 17, 16, NULL), z = y;
    y.ext[1] = z.ext[1] = 16;
    z.data = (char *)y.data + 64;
    sum = (struct hsp_sum){NULL, &z, &y};
    assert_ok(b->run_sum(b, HSP_DEVQ_COMPUTE, &c, &sum, &done, &err), &err);
    assert_false(done); /* the result overlaps a part of an addend */
    in[0].ext[2] = in[1].ext[1] = 0;
    sum.add = NULL;
    assert_ok(b->run_sum(b, HSP_DEVQ_COMPUTE, &c, &sum, &done, &err), &err);
    assert_false(done); /* the op is no product */
    drop(b, &x, 1);
    drop(b, &y, 1);
    close_device(b);
}

enum { SHAPES = 450 };

/* Runs more shapes than plans are cached. Then the plan of the first shape has to be chosen
 * again. */
static void plans_are_bounded(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    struct hsp_err err = {0};
    struct hsp_array x = device_array(b, HSP_F32, 1, SHAPES, 4, NULL);
    struct hsp_array w = device_array(b, HSP_F32, 1, 2, 4, NULL);
    struct hsp_array y = device_array(b, HSP_F32, 1, SHAPES, 2, NULL);
    w = (struct hsp_array){w.data, HSP_F32, 2, {2, 4}};
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i <= SHAPES; i++) {
            struct hsp_array in[2] = {x, w}, out = y;
            in[0].ext[1] = out.ext[1] = i;
            struct hsp_attrs at = {{0}, {0}};
            struct hsp_call c = {
                .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &out};
            assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
        }
    }
    double *got = values_of(b, &y);
    for (int i = 0; i < 2 * SHAPES; i++) {
        assert_true(got[i] == 4);
    }
    assert_true(hsp_fake_usage().handles <= 256 * 4 + 1);
    free(got);
    drop(b, &x, 1);
    drop(b, &w, 1);
    drop(b, &y, 1);
    close_device(b);
}

/* Loading the kernel of a product runs the product once, and the kernel stays loaded: the product
 * is not run again, even if its plan has left the cache. A kernel that failed counts as not
 * loaded. */
static void many_are_warm_once(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    struct hsp_err err = {0};
    struct hsp_array x = device_array(b, HSP_F32, 1, SHAPES, 4, NULL);
    struct hsp_array w = device_array(b, HSP_F32, 1, 2, 4, NULL);
    struct hsp_array y = device_array(b, HSP_F32, 1, SHAPES, 2, NULL);
    w = (struct hsp_array){w.data, HSP_F32, 2, {2, 4}};
    hsp_fake_fail("cublasLtMatmul", 1, cudaErrorMemoryAllocation);
    for (int i = 0; i <= 2 * SHAPES; i++) {
        struct hsp_array in[2] = {x, w}, out = y;
        in[0].ext[1] = out.ext[1] = 1 + (i > 0 ? (i - 1) % SHAPES : 0);
        struct hsp_attrs at = {{0}, {0}};
        struct hsp_call c = {
            .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &out};
        enum hsp_status st = b->warm(b, HSP_DEVQ_COMPUTE, &c, NULL, &err);
        assert_int_equal(st, i == 0 ? HSP_ENOMEM : HSP_OK);
        assert_int_equal(hsp_fake_calls("cublasLtMatmul"), 1 + (i < SHAPES ? i : SHAPES));
    }
    drop(b, &x, 1);
    drop(b, &w, 1);
    drop(b, &y, 1);
    close_device(b);
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

/* While a receive waits for its peer, the library could not load a kernel. */
static void what_is_warm_waits_for_nobody(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    for (int warm = 0; warm < 2; warm++) {
        struct hsp_backend *b = open_fake((struct hsp_fake_opts){.sm = 80});
        struct hsp_array x = device_array(b, HSP_F32, 1, 8, 4, NULL);
        struct hsp_array w = device_array(b, HSP_F32, 1, 8, 4, NULL);
        struct hsp_array y = device_array(b, HSP_F32, 1, 8, 8, NULL), bias = y;
        w = (struct hsp_array){w.data, HSP_F32, 2, {8, 4}};
        bias = (struct hsp_array){w.data, HSP_F32, 1, {8}};
        struct hsp_array in[2] = {x, w};
        struct hsp_attrs at = {{0}, {0}};
        struct hsp_call c = {
            .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &y};
        struct hsp_sum sum = {&bias, NULL, &y};
        const struct hsp_sum *const sums[] = {NULL, &sum};
        bool done = false;
        /* each call twice: the second time nothing runs */
        for (int k = 0; warm != 0 && k < 4; k++) {
            assert_ok(b->warm(b, HSP_DEVQ_COMPUTE, &c, sums[k % 2], &err), &err);
        }
        assert_int_equal(hsp_fake_calls("cublasLtMatmul"), 2 * warm);
        peer_came = false;
        struct hsp_fake_work receive = {.name = "receive", .run = arrives, .ready = has_come};
        assert_int_equal(hsp_fake_submit(b->native(b, HSP_DEVQ_COMM), &receive), cudaSuccess);
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
        assert_ok(b->run_sum(b, HSP_DEVQ_COMPUTE, &c, &sum, &done, &err), &err);
        assert_int_equal(hsp_fake_usage().blocked, warm != 0 ? 0 : 2);
        peer_came = true;
        drop(b, &x, 1);
        drop(b, &w, 1);
        drop(b, &y, 1);
        close_device(b);
    }
}

static void plans_are_kept(void **state)
{
    (void)state;
    struct hsp_backend *b = open_device(80);
    struct hsp_err err = {0};
    struct hsp_array x = device_array(b, HSP_F32, 1, 8, 4, NULL);
    struct hsp_array w = device_array(b, HSP_F32, 1, 8, 4, NULL);
    struct hsp_array y = device_array(b, HSP_F32, 1, 8, 8, NULL);
    w = (struct hsp_array){w.data, HSP_F32, 2, {8, 4}};
    struct hsp_array in[2] = {x, w};
    struct hsp_attrs at = {{0}, {0}};
    struct hsp_call c = {
        .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &y};
    for (int i = 0; i < 5; i++) {
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    }
    assert_int_equal(hsp_fake_calls("cublasLtMatmulAlgoGetHeuristic"), 1);
    assert_int_equal(hsp_fake_calls("cublasLtMatmul"), 5);
    drop(b, &x, 1);
    drop(b, &w, 1);
    drop(b, &y, 1);
    close_device(b);
}

/* Makes each call of the library fail in turn. The error names the product, and no memory is
 * lost. */
static void failing_calls_are_told(void **state)
{
    (void)state;
    static const char *const names[] = {"cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"};
    for (size_t i = 0; i < HSP_ARRAY_LEN(names); i++) {
        struct hsp_backend *b = open_device(80);
        struct hsp_err err = {0};
        struct hsp_array x = device_array(b, HSP_F32, 1, 8, 4, NULL);
        struct hsp_array w = device_array(b, HSP_F32, 1, 8, 4, NULL);
        struct hsp_array y = device_array(b, HSP_F32, 1, 8, 8, NULL);
        w = (struct hsp_array){w.data, HSP_F32, 2, {8, 4}};
        struct hsp_array in[2] = {x, w};
        struct hsp_attrs at = {{0}, {0}};
        struct hsp_call c = {
            .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &y};
        hsp_fake_fail(names[i], 1, cudaErrorMemoryAllocation);
        assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_ENOMEM);
        assert_non_null(strstr(err.msg, "product 8 x 4 x 8 of fp32"));
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
        drop(b, &x, 1);
        drop(b, &w, 1);
        drop(b, &y, 1);
        close_device(b);
    }
}

/* Computes y = x w^T + bias in one call if the library can, else only the product. */
static bool give_sum(struct hsp_backend *b, const struct hsp_call *c, const struct hsp_sum *s)
{
    struct hsp_err err = {0};
    bool done = false;
    assert_ok(b->run_sum(b, HSP_DEVQ_COMPUTE, c, s, &done, &err), &err);
    if (!done) {
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, c, &err), &err);
    }
    return done;
}

/* If an algorithm that the library chose cannot run, the backend takes the next choice of the
 * library, and at last its own kernel. */
static void refused_algorithms_give_way(void **state)
{
    (void)state;
    static const cudaError_t how[] = {cudaErrorNotSupported, cudaErrorLaunchOutOfResources};
    for (size_t h = 0; h < HSP_ARRAY_LEN(how); h++) {
        struct hsp_backend *b = open_device(80);
        struct hsp_err err = {0};
        struct hsp_array x = device_array(b, HSP_F32, 1, 8, 4, NULL);
        struct hsp_array w = device_array(b, HSP_F32, 1, 8, 4, NULL);
        struct hsp_array y = device_array(b, HSP_F32, 1, 8, 8, NULL);
        w = (struct hsp_array){w.data, HSP_F32, 2, {8, 4}};
        struct hsp_array in[2] = {x, w}, bias = {x.data, HSP_F32, 1, {8}};
        struct hsp_attrs at = {{0}, {0}};
        struct hsp_call c = {
            .op = HSP_OP_LINEAR, .at = &at, .n_in = 2, .n_out = 1, .in = in, .out = &y};
        struct hsp_sum sum = {.bias = &bias, .out = &y};
        float first[64], now[64];
        assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
        hsp_fake_peek(first, y.data, sizeof(first));
        for (unsigned i = 0; i < 4; i++) {
            static const unsigned calls[] = {3, 4, 4,
                                             /* calls of the library: two refusals, one success */
                                             4};
            hsp_fake_fail("cublasLtMatmul", i < 2 ? 1 : 0, how[h]);
            assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
            assert_int_equal(hsp_fake_calls("cublasLtMatmul"), calls[i]);
            hsp_fake_peek(now, y.data, sizeof(now));
            for (int k = 0; k < 64; k++) {
                assert_true(fabsf(now[k] - first[k]) <= 1e-5f);
            }
        }
        hsp_fake_fail("cublasLtMatmul", 1, how[h]);
        assert_true(give_sum(b, &c, &sum));
        hsp_fake_fail("cublasLtMatmul", 1, how[h]);
        assert_false(give_sum(b, &c, &sum));
        assert_false(give_sum(b, &c, &sum));
        hsp_fake_fail(NULL, 0, cudaSuccess);
        drop(b, &x, 1);
        drop(b, &w, 1);
        drop(b, &y, 1);
        close_device(b);
    }
}

HSP_TEST_FILE(products_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_and_empty),
        cmocka_unit_test(heads_of_all_widths),
        cmocka_unit_test(without_tensor_cores),
        cmocka_unit_test(blocks_make_the_whole),
        cmocka_unit_test(documents_do_not_look_at_each_other),
        cmocka_unit_test(odd_places),
        cmocka_unit_test(wrong_heads_are_refused),
        cmocka_unit_test(sums_are_made_at_once),
        cmocka_unit_test(results_over_operands_are_not_made_at_once),
        cmocka_unit_test(plans_are_bounded),
        cmocka_unit_test(plans_are_kept),
        cmocka_unit_test(many_are_warm_once),
        cmocka_unit_test(what_is_warm_waits_for_nobody),
        cmocka_unit_test(refused_algorithms_give_way),
        cmocka_unit_test(failing_calls_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
