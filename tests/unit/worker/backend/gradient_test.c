/* Tests by central differences in fp64 that backward ops are the derivatives of their forward
 * ops. */
#include <math.h>

#include "tests/lib/testlib.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/cpu.h"

#define STEP 1e-5
#define TOL  2e-8 /* relative; the differences are exact to about STEP^2 + 1e-16 / STEP */

static int64_t count(const struct hsp_array *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return n;
}

static struct hsp_array array(enum hsp_dtype t, uint8_t rank, const int64_t *ext)
{
    struct hsp_array a = {.dtype = t, .rank = rank};
    memcpy(a.ext, ext, sizeof(int64_t) * rank);
    a.data = calloc((size_t)count(&a) + 1, 8);
    assert_non_null(a.data);
    return a;
}
#define REAL3(x, y, z) array(HSP_F64, 3, (int64_t[]){x, y, z})
#define REAL2(x, y)    array(HSP_F64, 2, (int64_t[]){x, y})
#define REAL1(x)       array(HSP_F64, 1, (int64_t[]){x})

static double *vals(const struct hsp_array *a)
{
    return a->data;
}

static void randomise(struct hsp_array *a, const char *name)
{
    for (int64_t i = 0; i < count(a); i++) {
        vals(a)[i] = (double)(hsp_test_rand(name, (uint64_t)i) >> 11) * 0x1p-52 - 1.0;
    }
}

static void run(struct hsp_backend *b, enum hsp_op op, const struct hsp_attrs *at, int n_in,
                const struct hsp_array *in, int n_out, const struct hsp_array *out, int64_t origin)
{
    struct hsp_err err = {0};
    struct hsp_call c = {.op = op,
                         .at = at,
                         .n_in = (uint8_t)n_in,
                         .n_out = (uint8_t)n_out,
                         .in = in,
                         .out = out,
                         .origin = {origin}};
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
}

struct forward {
    enum hsp_op op;
    struct hsp_attrs at;
    int n_in, n_out;
    struct hsp_array in[4], out[3];
    struct hsp_array dy; /* the gradient of out[0] */
    int64_t origin;
};

/* Returns <dy, f(x)> after input @i has been moved by @h along @dir. */
static double moved(struct hsp_backend *b, struct forward *f, int i, const double *dir, double h)
{
    double *x = vals(&f->in[i]);
    int64_t n = count(&f->in[i]);
    double *keep = malloc((size_t)(n + 1) * 8);
    assert_non_null(keep);
    memcpy(keep, x, (size_t)n * 8);
    for (int64_t j = 0; j < n; j++) {
        x[j] += h * dir[j];
    }
    run(b, f->op, &f->at, f->n_in, f->in, f->n_out, f->out, f->origin);
    memcpy(x, keep, (size_t)n * 8);
    free(keep);
    double s = 0;
    for (int64_t j = 0; j < count(&f->dy); j++) {
        s += vals(&f->dy)[j] * vals(&f->out[0])[j];
    }
    return s;
}

/* Compares @grad, which the backward op gave for input @i, with differences. */
static void check(struct hsp_backend *b, struct forward *f, int i, const struct hsp_array *grad)
{
    assert_int_equal(count(grad), count(&f->in[i]));
    struct hsp_array dir = array(HSP_F64, f->in[i].rank, f->in[i].ext);
    for (int trial = 0; trial < 3; trial++) {
        char name[] = {'d', 'i', 'r', (char)('0' + trial), (char)('0' + i), '\0'};
        randomise(&dir, name);
        double diff =
            (moved(b, f, i, vals(&dir), STEP) - moved(b, f, i, vals(&dir), -STEP)) / (2 * STEP);
        double dot = 0, scale = 1;
        for (int64_t j = 0; j < count(grad); j++) {
            dot += vals(grad)[j] * vals(&dir)[j];
            scale += fabs(vals(grad)[j] * vals(&dir)[j]);
        }
        assert_near(dot, diff, TOL * scale);
    }
    free(dir.data);
}

static void start(struct hsp_backend *b, struct forward *f)
{
    for (int i = 0; i < f->n_in; i++) {
        char name[] = {'i', 'n', (char)('0' + i), '\0'};
        if (f->in[i].dtype == HSP_F64) {
            randomise(&f->in[i], name);
        }
    }
    f->dy = array(HSP_F64, f->out[0].rank, f->out[0].ext);
    randomise(&f->dy, "dy");
    run(b, f->op, &f->at, f->n_in, f->in, f->n_out, f->out, f->origin);
}

static void finish(struct forward *f)
{
    for (int i = 0; i < f->n_in; i++) {
        free(f->in[i].data);
    }
    for (int i = 0; i < f->n_out; i++) {
        free(f->out[i].data);
    }
    free(f->dy.data);
}

/* Compares @d[0 .. n-1], which the backward op gave for the inputs from @first on. Releases
 * everything. */
static void check_all(struct hsp_backend *b, struct forward *f, int first, struct hsp_array *d,
                      int n)
{
    for (int i = 0; i < n; i++) {
        check(b, f, first + i, &d[i]);
        free(d[i].data);
    }
    finish(f);
}

static int setup(void **state)
{
    struct hsp_backend *b;
    if (hsp_backend_cpu_open(1, &b, NULL) != HSP_OK) {
        return -1;
    }
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct hsp_backend *b = *state;
    b->close(b);
    return 0;
}

static void linear_and_bias(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_LINEAR,
                        .n_in = 2,
                        .n_out = 1,
                        .in = {REAL3(2, 5, 7), REAL2(9, 7)},
                        .out = {REAL3(2, 5, 9)}};
    start(b, &f);
    struct hsp_array d[] = {REAL3(2, 5, 7), REAL2(9, 7)};
    run(b, HSP_OP_LINEAR_DX, &f.at, 2, (struct hsp_array[]){f.dy, f.in[1]}, 1, &d[0], 0);
    run(b, HSP_OP_LINEAR_DW, &f.at, 2, (struct hsp_array[]){f.dy, f.in[0]}, 1, &d[1], 0);
    check_all(b, &f, 0, d, 2);
    struct forward g = {.op = HSP_OP_BIAS_ADD,
                        .n_in = 2,
                        .n_out = 1,
                        .in = {REAL3(2, 5, 7), REAL1(7)},
                        .out = {REAL3(2, 5, 7)}};
    start(b, &g);
    struct hsp_array db = REAL1(7);
    run(b, HSP_OP_BIAS_DB, &g.at, 1, &g.dy, 1, &db, 0);
    check_all(b, &g, 1, &db, 1);
}

static void embed(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_EMBED,
                        .n_in = 2,
                        .n_out = 1,
                        .origin = 4,
                        .in = {array(HSP_I32, 2, (int64_t[]){2, 6}), REAL2(5, 7)},
                        .out = {REAL3(2, 6, 7)}};
    for (int i = 0; i < 12; i++) {
        ((int32_t *)f.in[0].data)[i] = i; /* ids 4 .. 8 are in the slice */
    }
    start(b, &f);
    struct hsp_array dw = REAL2(5, 7);
    struct hsp_attrs at = {{12, 0}, {0}};
    run(b, HSP_OP_EMBED_DW, &at, 2, (struct hsp_array[]){f.in[0], f.dy}, 1, &dw, 4);
    check_all(b, &f, 1, &dw, 1);
}

static void layernorm(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_LAYERNORM,
                        .at = {{0}, {1e-5}},
                        .n_in = 3,
                        .n_out = 3,
                        .in = {REAL3(2, 3, 37), REAL1(37), REAL1(37)},
                        .out = {REAL3(2, 3, 37), REAL2(2, 3), REAL2(2, 3)}};
    start(b, &f);
    struct hsp_array d[] = {REAL3(2, 3, 37), REAL1(37), REAL1(37)};
    run(b, HSP_OP_LAYERNORM_DX, &f.at, 5,
        (struct hsp_array[]){f.dy, f.in[0], f.in[1], f.out[1], f.out[2]}, 1, &d[0], 0);
    run(b, HSP_OP_LAYERNORM_DW, &f.at, 4, (struct hsp_array[]){f.dy, f.in[0], f.out[1], f.out[2]},
        2, &d[1], 0);
    check_all(b, &f, 0, d, 3);
}

static void gelu(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {
        .op = HSP_OP_GELU, .n_in = 1, .n_out = 1, .in = {REAL1(50)}, .out = {REAL1(50)}};
    start(b, &f);
    struct hsp_array dx = REAL1(50);
    run(b, HSP_OP_GELU_DX, &f.at, 2, (struct hsp_array[]){f.dy, f.in[0]}, 1, &dx, 0);
    check_all(b, &f, 0, &dx, 1);
}

static void rmsnorm(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_RMSNORM,
                        .at = {{0}, {1e-5}},
                        .n_in = 2,
                        .n_out = 2,
                        .in = {REAL3(2, 3, 37), REAL1(37)},
                        .out = {REAL3(2, 3, 37), REAL2(2, 3)}};
    start(b, &f);
    struct hsp_array d[] = {REAL3(2, 3, 37), REAL1(37)};
    run(b, HSP_OP_RMSNORM_DX, &f.at, 4, (struct hsp_array[]){f.dy, f.in[0], f.in[1], f.out[1]}, 1,
        &d[0], 0);
    run(b, HSP_OP_RMSNORM_DW, &f.at, 3, (struct hsp_array[]){f.dy, f.in[0], f.out[1]}, 1, &d[1], 0);
    check_all(b, &f, 0, d, 2);
}

static void rope(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_ROPE,
                        .at = {{6}, {100}},
                        .n_in = 2,
                        .n_out = 1,
                        .in = {array(HSP_I32, 2, (int64_t[]){2, 5}), REAL3(2, 5, 18)},
                        .out = {REAL3(2, 5, 18)}};
    for (int i = 0; i < 10; i++) {
        ((int32_t *)f.in[0].data)[i] = i * 7;
    }
    start(b, &f);
    struct hsp_array dx = REAL3(2, 5, 18);
    run(b, HSP_OP_ROPE_DX, &f.at, 2, (struct hsp_array[]){f.in[0], f.dy}, 1, &dx, 0);
    check_all(b, &f, 1, &dx, 1);
}

static void dropout(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_DROPOUT,
                        .at = {{0, 77}, {0.25}},
                        .n_in = 2,
                        .n_out = 1,
                        .in = {array(HSP_I32, 2, (int64_t[]){3, 2}), REAL3(3, 5, 19)},
                        .out = {REAL3(3, 5, 19)}};
    int32_t *key = f.in[0].data;
    key[0] = 5;
    key[2] = -1; /* no element of the second sequence is dropped */
    key[4] = 6;
    start(b, &f);
    struct hsp_array dx = REAL3(3, 5, 19);
    run(b, HSP_OP_DROPOUT, &f.at, 2, (struct hsp_array[]){f.in[0], f.dy}, 1, &dx, 0);
    int zeros[3] = {0};
    for (int i = 0; i < 3 * 5 * 19; i++) {
        zeros[i / (5 * 19)] += vals(&f.out[0])[i] > 0 || vals(&f.out[0])[i] < 0 ? 0 : 1;
    }
    assert_in_range(zeros[0], 8, 48); /* the expected number is 23.75, the deviation 4.2 */
    assert_int_equal(zeros[1], 0);
    assert_in_range(zeros[2], 8, 48);
    check_all(b, &f, 1, &dx, 1);
}

static void swiglu(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_SWIGLU,
                        .n_in = 2,
                        .n_out = 1,
                        .in = {REAL1(50), REAL1(50)},
                        .out = {REAL1(50)}};
    start(b, &f);
    struct hsp_array d[2] = {REAL1(50), REAL1(50)};
    run(b, HSP_OP_SWIGLU_DX, &f.at, 3, (struct hsp_array[]){f.dy, f.in[0], f.in[1]}, 2, d, 0);
    check_all(b, &f, 0, d, 2);
}

static void check_attention(struct hsp_backend *b, int64_t s, int64_t t, int64_t origin,
                            bool causal, int64_t group)
{
    int64_t e = 12 * group, h = 3 * group;
    struct forward f = {.op = HSP_OP_ATTENTION,
                        .at = {{4, causal, group}, {0.5}},
                        .n_in = 3,
                        .n_out = 2,
                        .in = {REAL3(2, s, e), REAL3(2, t, 12), REAL3(2, t, 12)},
                        .out = {REAL3(2, s, e), REAL3(2, s, h)},
                        .origin = origin};
    start(b, &f);
    struct hsp_array d[3] = {REAL3(2, s, e), REAL3(2, t, 12), REAL3(2, t, 12)};
    run(b, HSP_OP_ATTENTION_BWD, &f.at, 6,
        (struct hsp_array[]){f.dy, f.in[0], f.in[1], f.in[2], f.out[0], f.out[1]}, 3, d, origin);
    check_all(b, &f, 0, d, 3);
}

static void attention(void **state)
{
    check_attention(*state, 9, 9, 0, true, 1);
    check_attention(*state, 5, 9, 4, true, 1); /* the queries are a slice */
    check_attention(*state, 6, 11, 0, false, 1);
    check_attention(*state, 5, 9, 4, true, 3); /* three query heads for each key head */
    check_attention(*state, 6, 11, 0, false, 2);
}

/* Checks documents of 1, 3, 2 and 3 tokens; @origin is that of the slice of the queries. */
static void check_packed_attention(struct hsp_backend *b, int64_t s, int64_t origin, int64_t group)
{
    static const int32_t starts[9] = {0, 1, 1, 1, 4, 4, 6, 6, 6};
    int64_t e = 12 * group, h = 3 * group;
    struct forward f = {.op = HSP_OP_PACKED_ATTENTION,
                        .at = {{4, 1, group}, {0.5}},
                        .n_in = 4,
                        .n_out = 2,
                        .in = {REAL3(2, s, e), REAL3(2, 9, 12), REAL3(2, 9, 12),
                               array(HSP_I32, 2, (int64_t[]){2, s})},
                        .out = {REAL3(2, s, e), REAL3(2, s, h)},
                        .origin = origin};
    for (int64_t i = 0; i < 2 * s; i++) {
        ((int32_t *)f.in[3].data)[i] =
            i < s ? starts[origin + i] : 0; /* the second sequence is one document */
    }
    start(b, &f);
    struct hsp_array d[3] = {REAL3(2, s, e), REAL3(2, 9, 12), REAL3(2, 9, 12)};
    run(b, HSP_OP_PACKED_ATTENTION_BWD, &f.at, 7,
        (struct hsp_array[]){f.dy, f.in[0], f.in[1], f.in[2], f.out[0], f.out[1], f.in[3]}, 3, d,
        origin);
    check_all(b, &f, 0, d, 3);
}

static void packed_attention(void **state)
{
    check_packed_attention(*state, 9, 0, 1);
    check_packed_attention(*state, 5, 4, 3);
}

static void xent(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_XENT,
                        .n_in = 2,
                        .n_out = 2,
                        .in = {REAL3(2, 4, 21), array(HSP_I32, 2, (int64_t[]){2, 4})},
                        .out = {REAL2(2, 4), REAL2(2, 4)}};
    for (int i = 0; i < 8; i++) {
        ((int32_t *)f.in[1].data)[i] = i == 3 ? -1 : i * 2;
    }
    start(b, &f);
    struct hsp_array dx = REAL3(2, 4, 21);
    run(b, HSP_OP_XENT_DX, &f.at, 4, (struct hsp_array[]){f.dy, f.in[0], f.in[1], f.out[1]}, 1, &dx,
        0);
    check_all(b, &f, 0, &dx, 1);
}

/* Compares the loss computed in parts with the loss of all classes, whose log-sum-exp moves with
 * the logits. */
static void xent_in_parts(void **state)
{
    struct hsp_backend *b = *state;
    struct forward f = {.op = HSP_OP_XENT,
                        .n_in = 2,
                        .n_out = 2,
                        .in = {REAL3(2, 4, 21), array(HSP_I32, 2, (int64_t[]){2, 4})},
                        .out = {REAL2(2, 4), REAL2(2, 4)}};
    for (int i = 0; i < 8; i++) {
        ((int32_t *)f.in[1].data)[i] = i == 3 ? -1 : i * 2;
    }
    start(b, &f);
    struct hsp_array dx = REAL3(2, 4, 21), parts = REAL3(2, 4, 3), lse = REAL2(2, 4),
                     loss = REAL2(2, 4);
    struct hsp_attrs chunk = {{7}, {0}}, all = {{21}, {0}};
    run(b, HSP_OP_LSE_PARTS, &chunk, 1, &f.in[0], 1, &parts, 0);
    run(b, HSP_OP_LSE_MERGE, &f.at, 1, &parts, 1, &lse, 0);
    run(b, HSP_OP_XENT_PART, &all, 3, (struct hsp_array[]){f.in[0], f.in[1], lse}, 1, &loss, 0);
    for (int i = 0; i < 8; i++) {
        assert_near(vals(&lse)[i], vals(&f.out[1])[i], 1e-14);
        assert_near(vals(&loss)[i], vals(&f.out[0])[i], 1e-14);
    }
    run(b, HSP_OP_XENT_PART_DX, &all, 4, (struct hsp_array[]){f.dy, f.in[0], f.in[1], lse}, 1, &dx,
        0);
    check_all(b, &f, 0, &dx, 1);
    free(parts.data);
    free(lse.data);
    free(loss.data);
}

HSP_TEST_FILE(gradient_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(linear_and_bias, setup, teardown),
        cmocka_unit_test_setup_teardown(embed, setup, teardown),
        cmocka_unit_test_setup_teardown(layernorm, setup, teardown),
        cmocka_unit_test_setup_teardown(rmsnorm, setup, teardown),
        cmocka_unit_test_setup_teardown(rope, setup, teardown),
        cmocka_unit_test_setup_teardown(dropout, setup, teardown),
        cmocka_unit_test_setup_teardown(swiglu, setup, teardown),
        cmocka_unit_test_setup_teardown(gelu, setup, teardown),
        cmocka_unit_test_setup_teardown(attention, setup, teardown),
        cmocka_unit_test_setup_teardown(packed_attention, setup, teardown),
        cmocka_unit_test_setup_teardown(xent, setup, teardown),
        cmocka_unit_test_setup_teardown(xent_in_parts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
