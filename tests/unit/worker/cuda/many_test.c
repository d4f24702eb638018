/* Tests several calls at once on the CUDA backend, compared with the same calls one by one: outputs
 * that are added to old values, one op over many tensors, chains. The stand-in device watches all
 * accesses. */
#include <math.h>
#include <stdio.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/fakecuda/emulate.h"
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/testlib.h"
#include "worker/backend/cuda/cuda_device.h"

static const enum hsp_devq Q = HSP_DEVQ_COMPUTE;
static uint64_t drawn; /* the number of random numbers drawn so far */

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

static size_t bytes_of(const struct hsp_array *a)
{
    return (size_t)hsp_cuda_count(a) * hsp_dtype_size(a->dtype);
}

static void set(void *p, enum hsp_dtype t, int64_t i, double x)
{
    if (t == HSP_F32) {
        ((float *)p)[i] = (float)x;
    } else if (t == HSP_F64) {
        ((double *)p)[i] = x;
    } else if (t == HSP_BF16) {
        ((uint16_t *)p)[i] = hsp_bf16_of((float)x);
    } else {
        ((int32_t *)p)[i] = (int32_t)x;
    }
}

static double get(const void *p, enum hsp_dtype t, int64_t i)
{
    return t == HSP_F32    ? (double)((const float *)p)[i]
           : t == HSP_F64  ? ((const double *)p)[i]
           : t == HSP_BF16 ? (double)hsp_bf16_float(((const uint16_t *)p)[i])
                           : ((const int32_t *)p)[i];
}

/* Makes an array on the device of numbers between @lo and @hi, @off bytes after an aligned
 * address. */
static struct hsp_array array(struct hsp_backend *b, enum hsp_dtype t, uint8_t rank,
                              const int64_t *ext, double lo, double hi, size_t off)
{
    struct hsp_err err = {0};
    struct hsp_array a = {.dtype = t, .rank = rank};
    for (uint8_t d = 0; d < rank; d++) {
        a.ext[d] = ext[d];
    }
    size_t bytes = bytes_of(&a);
    uint8_t *host = calloc(bytes + 64, 1), *p = NULL;
    assert_non_null(host);
    for (int64_t i = 0; i < hsp_cuda_count(&a); i++) {
        double u = (double)(hsp_test_rand("number", drawn++) >> 11) * 0x1p-53;
        set(host, t, i, t == HSP_I32 ? floor(lo + u * (hi - lo)) : lo + u * (hi - lo));
    }
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes + 64, (void **)&p, &err), &err);
    assert_ok(b->copy(b, Q, p + off, host, bytes, &err), &err);
    a.data = p + off;
    free(host);
    return a;
}

static struct hsp_array copy_of(struct hsp_backend *b, const struct hsp_array *a)
{
    struct hsp_err err = {0};
    struct hsp_array c = *a;
    size_t off = (uintptr_t)a->data % 64;
    uint8_t *p;
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes_of(a) + 64, (void **)&p, &err), &err);
    c.data = p + off;
    assert_ok(b->copy(b, Q, c.data, a->data, bytes_of(a), &err), &err);
    return c;
}

static void *fetch(struct hsp_backend *b, const struct hsp_array *a)
{
    struct hsp_err err = {0};
    uint64_t t;
    void *p = calloc(bytes_of(a) + 64, 1);
    assert_non_null(p);
    assert_ok(b->copy(b, Q, p, a->data, bytes_of(a), &err), &err);
    assert_ok(b->mark(b, Q, &t, &err), &err);
    assert_ok(b->finish(b, Q, t, &err), &err);
    return p;
}

static void drop(struct hsp_backend *b, struct hsp_array *a)
{
    b->release(b, HSP_MEM_DEVICE, (void *)((uintptr_t)a->data & ~(uintptr_t)63));
}

/* Checks that two arrays are equal within @tol of the largest value; 0: that they have the same
 * bits. */
static void compare(struct hsp_backend *b, const struct hsp_array *got,
                    const struct hsp_array *want, double tol, const char *what)
{
    void *x = fetch(b, got), *y = fetch(b, want);
    double most = 1e-30, worst = 0;
    for (int64_t i = 0; i < hsp_cuda_count(got); i++) {
        double d = fabs(get(x, got->dtype, i) - get(y, got->dtype, i));
        most = fmax(most, fabs(get(y, got->dtype, i)));
        worst = isnan(d) ? (double)INFINITY : fmax(worst, d);
    }
    if (worst > tol * most || (tol == 0 && memcmp(x, y, bytes_of(got)) != 0)) {
        fail_msg("%s: off by %g of %g", what, worst, most);
    }
    free(x);
    free(y);
}

static struct hsp_call call(enum hsp_op op, const struct hsp_array *in, const struct hsp_array *out,
                            unsigned adds)
{
    static const struct hsp_attrs at = {.i = {50}};
    return (struct hsp_call){.op = op,
                             .at = &at,
                             .n_in = hsp_op_n_in(op),
                             .n_out = hsp_op_n_out(op),
                             .adds = (uint8_t)adds,
                             .in = in,
                             .out = out};
}

static void run(struct hsp_backend *b, const struct hsp_call *c)
{
    struct hsp_err err = {0};
    assert_ok(b->run(b, Q, c, &err), &err);
}

/* ---- outputs that are added to old values ---- */

/* Runs the call without and with `adds`. The second result must be the sum of the first and the old
 * values. */
static void check_adds(struct hsp_backend *b, struct hsp_call one, double tol)
{
    struct hsp_err err = {0};
    const struct hsp_call *c = &one;
    struct hsp_array sum[HSP_MAX_OUT], alone[HSP_MAX_OUT];
    for (uint8_t k = 0; k < c->n_out; k++) {
        sum[k] = array(b, c->out[k].dtype, c->out[k].rank, c->out[k].ext, -1, 1, 0);
        alone[k] = copy_of(b, &sum[k]);
    }
    struct hsp_array want[HSP_MAX_OUT];
    memcpy(want, alone, sizeof(want));
    run(b, c); /* writes to c->out */
    for (uint8_t k = 0; k < c->n_out; k++) {
        assert_ok(b->accumulate(b, Q, want[k].dtype, want[k].data, want[k].dtype, c->out[k].data,
                                hsp_cuda_count(&want[k]), &err),
                  &err);
    }
    struct hsp_call add = *c;
    add.out = sum;
    for (uint8_t mask = 1; mask < 1U << c->n_out; mask++) {
        struct hsp_array each[HSP_MAX_OUT];
        for (uint8_t k = 0; k < c->n_out; k++) {
            each[k] = copy_of(b, &sum[k]);
        }
        add.out = each;
        add.adds = mask;
        run(b, &add);
        for (uint8_t k = 0; k < c->n_out; k++) {
            compare(b, &each[k], (mask >> k & 1) != 0 ? &want[k] : &c->out[k], tol,
                    hsp_op_name(c->op));
            drop(b, &each[k]);
        }
    }
    for (uint8_t k = 0; k < c->n_out; k++) {
        drop(b, &sum[k]);
        drop(b, &alone[k]);
    }
}

static void outputs_are_added(void **state)
{
    (void)state;
    static const enum hsp_dtype types[] = {HSP_BF16, HSP_F32, HSP_F64};
    struct hsp_backend *b = open_device();
    for (size_t k = 0; k < HSP_ARRAY_LEN(types); k++) {
        enum hsp_dtype t = types[k], w = hsp_dtype_wide(t);
        for (int64_t n = 24; n <= 35; n += 11) {
            const int64_t rows[2] = {2, 70}, x3[3] = {2, 70, n}, columns[1] = {n},
                          table[2] = {50, n}, square[2] = {n, n};
            struct hsp_array in[4] = {array(b, t, 3, x3, -1, 1, 0), array(b, t, 3, x3, -1, 1, 0),
                                      array(b, w, 2, rows, -1, 1, 0),
                                      array(b, w, 2, rows, 0.5, 2, 0)};
            struct hsp_array ids[2] = {array(b, HSP_I32, 2, rows, -3, 60, 0), in[0]};
            struct hsp_array out[2] = {array(b, w, 1, columns, 0, 0, 0),
                                       array(b, w, 1, columns, 0, 0, 0)};
            struct hsp_array dw[2] = {array(b, w, 2, table, 0, 0, 0),
                                      array(b, w, 2, square, 0, 0, 0)};
            struct hsp_array rms[3] = {in[0], in[1], in[3]};
            check_adds(b, call(HSP_OP_BIAS_DB, in, out, 0), 0);
            check_adds(b, call(HSP_OP_LAYERNORM_DW, in, out, 0), 0);
            check_adds(b, call(HSP_OP_RMSNORM_DW, rms, out, 0), 0);
            check_adds(b, call(HSP_OP_EMBED_DW, ids, dw, 0), 0);
            check_adds(b, call(HSP_OP_LINEAR_DW, in, dw + 1, 0), 1e-6);
            for (int i = 0; i < 4; i++) {
                drop(b, &in[i]);
            }
            drop(b, &ids[0]);
            for (int i = 0; i < 2; i++) {
                drop(b, &out[i]);
                drop(b, &dw[i]);
            }
        }
    }
    struct hsp_err err = {0};
    struct hsp_array x = array(b, HSP_F32, 1, (const int64_t[]){8}, 0, 1, 0);
    struct hsp_call c = call(HSP_OP_GELU, &x, &x, 1);
    assert_status(b->run(b, Q, &c, &err), HSP_EUNSUPPORTED);
    drop(b, &x);
    close_device(b);
}

/* ---- one op over many tensors ---- */

enum { MANY = 130 };

struct many {
    struct hsp_array in[MANY][4], out[MANY][3], alone[MANY][3];
    struct hsp_call c[MANY];
    struct hsp_array scalars;
};

/* Makes tensors of 0 elements up to a few blocks. Some do not begin at a multiple of 16 bytes, so
 * they are read one element at a time. */
static void make_many(struct hsp_backend *b, struct many *m, enum hsp_op op, enum hsp_dtype real,
                      const struct hsp_attrs *at)
{
    m->scalars = array(b, HSP_F64, 1, (const int64_t[]){4}, 0.1, 0.9, 0);
    for (int k = 0; k < MANY; k++) {
        int64_t n = k % 9 == 4 ? 0 : k % 31 == 7 ? 9000 + k * 61 : k * k % 517 + 1;
        size_t off = k % 5 == 3 ? 8 : 0;
        struct hsp_call *c = &m->c[k];
        *c = (struct hsp_call){.op = op,
                               .at = at,
                               .n_in = hsp_op_n_in(op),
                               .n_out = hsp_op_n_out(op),
                               .in = m->in[k],
                               .out = m->out[k]};
        if (op == HSP_OP_ADAMW || op == HSP_OP_SGDM) {
            c->update = m->scalars.data;
        }
        for (uint8_t i = 0; i < c->n_in; i++) {
            m->in[k][i] = array(b, hsp_op_dtype(op, i, real), 1, &n, i == 2 ? 0 : -1, 1, off);
        }
        for (uint8_t i = 0; i < c->n_out; i++) {
            uint8_t rank = op == HSP_OP_SQSUM ? 0 : 1;
            m->out[k][i] = array(b, hsp_op_dtype(op, (uint8_t)(c->n_in + i), real), rank, &n, 0, 0,
                                 rank == 0 ? 0 : off);
            m->alone[k][i] = copy_of(b, &m->out[k][i]);
        }
    }
}

static void check_many(enum hsp_op op, enum hsp_dtype real)
{
    static struct many m;
    struct hsp_backend *b = open_device();
    struct hsp_err err = {0};
    struct hsp_attrs at = {.f = {0.9, 0.95, 1e-8, 0.1}};
    make_many(b, &m, op, real, &at);
    assert_true((b->many >> op & 1) != 0);
    assert_ok(b->run_many(b, Q, m.c, MANY, &err), &err);
    for (int k = 0; k < MANY; k++) {
        m.c[k].out = m.alone[k];
        run(b, &m.c[k]);
    }
    for (int k = 0; k < MANY; k++) {
        for (uint8_t i = 0; i < m.c[k].n_out; i++) {
            compare(b, &m.out[k][i], &m.alone[k][i], 0, hsp_op_name(op));
            drop(b, &m.out[k][i]);
            drop(b, &m.alone[k][i]);
        }
        for (uint8_t i = 0; i < m.c[k].n_in; i++) {
            drop(b, &m.in[k][i]);
        }
    }
    drop(b, &m.scalars);
    close_device(b);
}

static void many_tensors_are_as_one_by_one(void **state)
{
    (void)state;
    check_many(HSP_OP_ADAMW, HSP_F32);
    check_many(HSP_OP_ADAMW, HSP_F64);
    check_many(HSP_OP_SGDM, HSP_F32);
    check_many(HSP_OP_SQSUM, HSP_F32);
    check_many(HSP_OP_SQSUM, HSP_F64);
    check_many(HSP_OP_NARROW, HSP_BF16);
    check_many(HSP_OP_NARROW, HSP_F32); /* the types are equal: narrow copies */
}

/* An update of many tensors takes a few launches. */
static void many_tensors_are_few_launches(void **state)
{
    (void)state;
    static struct many m;
    struct hsp_backend *b = open_device();
    struct hsp_err err = {0};
    struct hsp_attrs at = {.f = {0.9, 0.95, 1e-8, 0.1}};
    make_many(b, &m, HSP_OP_ADAMW, HSP_F32, &at);
    assert_ok(b->run_many(b, Q, m.c, MANY, &err), &err);
    hsp_fake_settle();
    assert_int_equal(hsp_fake_done("update_kernel"), 4);
    for (int k = 0; k < MANY; k++) {
        for (int i = 0; i < 4; i++) {
            drop(b, &m.in[k][i]);
        }
        for (int i = 0; i < 3; i++) {
            drop(b, &m.out[k][i]);
            drop(b, &m.alone[k][i]);
        }
    }
    drop(b, &m.scalars);
    close_device(b);
}

/* ---- chains ---- */

struct chain_case {
    bool rms, add, bias;
    enum hsp_dtype type;
    int64_t rows, e;
    uint8_t adds; /* bits of hsp_call.adds, for the gradients of weights */
    bool done;
};

static void check_chain(const struct chain_case *k)
{
    struct hsp_backend *b = open_device();
    struct hsp_err err = {0};
    enum hsp_dtype t = k->type, w = hsp_dtype_wide(t);
    const int64_t x3[3] = {1, k->rows, k->e}, rows[2] = {1, k->rows}, columns[1] = {k->e};
    struct hsp_array mean = array(b, w, 2, rows, -0.2, 0.2, 0),
                     rstd = array(b, w, 2, rows, 0.5, 2, 0);
    struct hsp_array dx_in[5] = {array(b, t, 3, x3, -1, 1, 0), array(b, t, 3, x3, -1, 1, 0),
                                 array(b, t, 1, columns, 0.5, 1.5, 0), k->rms ? rstd : mean, rstd};
    struct hsp_array dw_in[4] = {dx_in[0], dx_in[1], k->rms ? rstd : mean, rstd};
    struct hsp_array other = array(b, t, 3, x3, -1, 1, 0), none[2][5];
    for (int i = 0; i < 2; i++) { /* run by the chain; run by calls one by one */
        none[i][0] = array(b, t, 3, x3, 0, 0, 0);
        none[i][1] = array(b, t, 3, x3, 0, 0, 0);
        for (int n = 2; n < 5; n++) {
            none[i][n] = i == 0 ? array(b, w, 1, columns, -1, 1, 0) : copy_of(b, &none[0][n]);
        }
    }
    for (int i = 0; i < 2; i++) {
        struct hsp_array *o = none[i], add_in[2] = {other, o[0]};
        struct hsp_call c[4] = {
            call(k->rms ? HSP_OP_RMSNORM_DX : HSP_OP_LAYERNORM_DX, dx_in, o, 0)};
        uint32_t n = 1;
        if (k->add) {
            c[n++] = call(HSP_OP_ADD, add_in, o + 1, 0);
        }
        c[n++] = call(k->rms ? HSP_OP_RMSNORM_DW : HSP_OP_LAYERNORM_DW, dw_in, o + 2,
                      k->rms ? k->adds & 1 : k->adds & 3);
        if (k->bias) {
            c[n++] = call(HSP_OP_BIAS_DB, k->add ? o + 1 : o, o + 4, (unsigned)k->adds >> 2);
        }
        bool done = true;
        if (i == 0) {
            assert_ok(b->run_chain(b, Q, c, n, &done, &err), &err);
            assert_int_equal(done, k->done);
        }
        for (uint32_t j = 0; j < n && (i == 1 || !done); j++) {
            run(b, &c[j]);
        }
    }
    double tol = t == HSP_BF16 ? 0x1p-7 : 2e-6;
    compare(b, &none[0][k->add], &none[1][k->add], tol, "dx");
    /* dx is rounded once in the chain and twice in single calls; the sum over it differs by as
     * much */
    for (int n = 2; n < 5; n++) {
        compare(b, &none[0][n], &none[1][n], t == HSP_BF16 && n == 4 ? 2e-2 : 4e-6, "weights");
    }
    for (int i = 0; i < 10; i++) {
        drop(b, &none[i / 5][i % 5]);
    }
    for (int i = 0; i < 3; i++) {
        drop(b, &dx_in[i]);
    }
    drop(b, &other);
    drop(b, &mean);
    drop(b, &rstd);
    close_device(b);
}

static void norms_backward_at_once(void **state)
{
    (void)state;
    static const struct chain_case cases[] = {
        {false, true, true, HSP_BF16, 70, 768, 0, true},
        {false, true, true, HSP_BF16, 37, 96, 7, true},
        {false, true, true, HSP_BF16, 9, 8, 5, true},
        {false, false, true, HSP_BF16, 21, 264, 0, true},
        {false, true, false, HSP_BF16, 1, 1024, 2, true},
        {false, true, true, HSP_BF16, 9, 4096, 0, true},
        {true, true, false, HSP_BF16, 70, 2048, 0, true},
        {true, true, false, HSP_BF16, 33, 768, 1, true},
        {true, false, false, HSP_BF16, 11, 8192, 0, true},
        {false, true, true, HSP_F32, 40, 384, 3, true},
        {false, true, true, HSP_F32, 13, 1024, 4, true},
        {true, true, false, HSP_F32, 13, 1028, 1, true},
        {false, true, true, HSP_BF16, 5, 770, 0, false},   /* rows are not aligned */
        {false, true, true, HSP_BF16, 3, 16384, 0, false}, /* the rows are too long */
        {true, true, true, HSP_F32, 5, 64, 0, false},      /* no model has such a chain */
        {false, true, true, HSP_F64, 5, 64, 7, false},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(cases); i++) {
        check_chain(&cases[i]);
    }
}

static void check_gelu(enum hsp_dtype t, int64_t rows, int64_t n, uint8_t adds, bool fits)
{
    struct hsp_backend *b = open_device();
    struct hsp_err err = {0};
    const int64_t x3[3] = {1, rows, n};
    struct hsp_array in[2] = {array(b, t, 3, x3, -1, 1, 0), array(b, t, 3, x3, -4, 4, 0)};
    struct hsp_array dx[2] = {array(b, t, 3, x3, 0, 0, 0), array(b, t, 3, x3, 0, 0, 0)};
    struct hsp_array db[2] = {array(b, hsp_dtype_wide(t), 1, &n, -1, 1, 0)};
    db[1] = copy_of(b, &db[0]);
    bool done = false;
    for (int i = 0; i < 2; i++) {
        struct hsp_call c[2] = {call(HSP_OP_GELU_DX, in, &dx[i], 0),
                                call(HSP_OP_BIAS_DB, &dx[i], &db[i], adds)};
        if (i == 0) {
            assert_ok(b->run_chain(b, Q, c, 2, &done, &err), &err);
            assert_int_equal(done, fits);
        }
        for (int k = 0; k < 2 && (i == 1 || !done); k++) {
            run(b, &c[k]);
        }
    }
    compare(b, &dx[0], &dx[1], 0, "gelu_dx");
    compare(b, &db[0], &db[1], 0, "bias_db");
    for (int i = 0; i < 2; i++) {
        drop(b, &in[i]);
        drop(b, &dx[i]);
        drop(b, &db[i]);
    }
    close_device(b);
}

static void activations_backward_at_once(void **state)
{
    (void)state;
    check_gelu(HSP_BF16, 150, 264, 0, true);
    check_gelu(HSP_BF16, 7, 3072, 1, true);
    check_gelu(HSP_F32, 70, 44, 1, true);
    check_gelu(HSP_F64, 5, 6, 0, true);
    check_gelu(HSP_BF16, 5, 7, 0, false);
}

HSP_TEST_FILE(many_test)
{
    if (!hsp_fake_can_run()) {
        (void)puts("1..0 # SKIP threads of a block have stacks of their own, which this tool does "
                   "not follow");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_added),
        cmocka_unit_test(many_tensors_are_as_one_by_one),
        cmocka_unit_test(many_tensors_are_few_launches),
        cmocka_unit_test(norms_backward_at_once),
        cmocka_unit_test(activations_backward_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
