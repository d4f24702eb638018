/* Every op, all types, odd and empty shapes, slices with origins, against the naive fp64
 * reference. */
#include <math.h>
#include <stdio.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/testlib.h"
#include "tests/unit/backend/refops.h"

#define MAX_OPERANDS (HSP_MAX_IN + HSP_MAX_OUT)
#define GUARD        16 /* elements behind each output that must stay as they are */

/* Largest difference from the reference relative to the largest value of the operand (at least 1).
 * ids: operand with ids or labels, -1 none. wide: the first input (fp64) and outputs are scalars.
 */
static const struct op_case {
    enum hsp_op op;
    int ids;
    double tol32, tol64;
    bool same_bits; /* whatever the number of threads */
    const char
        *shape; /* inputs:outputs, dims by letter; H = h * d, Q = 3 * H, q = 3 * h, P = 2 * H,
                        * S = s * e */
} ops[] = {
    {HSP_OP_LINEAR, -1, 2e-6, 4e-15, false, "bsk,nk:bsn"},
    {HSP_OP_LINEAR_DX, -1, 2e-6, 4e-15, false, "bsn,nk:bsk"},
    {HSP_OP_LINEAR_DW, -1, 2e-6, 4e-15, false, "bsn,bsk:nk"},
    {HSP_OP_BIAS_ADD, -1, 1e-7, 1e-16, true, "bsn,n:bsn"},
    {HSP_OP_BIAS_DB, -1, 1e-7, 2e-15, true, "bsn:n"},
    {HSP_OP_EMBED, 0, 0, 0, true, "bs,ve:bse"},
    {HSP_OP_EMBED_DW, 0, 1e-6, 2e-15, true, "bs,bse:ve"},
    {HSP_OP_ADD, -1, 1e-7, 1e-16, true, "bsn,bsn:bsn"},
    {HSP_OP_LAYERNORM, -1, 1e-5, 4e-14, true, "bse,e,e:bse,bs,bs"},
    {HSP_OP_LAYERNORM_DX, -1, 2e-6, 4e-15, true, "bse,bse,e,bs,bs:bse"},
    {HSP_OP_LAYERNORM_DW, -1, 1e-6, 4e-15, true, "bse,bse,bs,bs:e,e"},
    {HSP_OP_GELU, -1, 3e-7, 1e-15, true, "bsn:bsn"},
    {HSP_OP_GELU_DX, -1, 5e-7, 1e-15, true, "bsn,bsn:bsn"},
    {HSP_OP_RMSNORM, -1, 1e-5, 4e-14, true, "bse,e:bse,bs"},
    {HSP_OP_RMSNORM_DX, -1, 2e-6, 4e-15, true, "bse,bse,e,bs:bse"},
    {HSP_OP_RMSNORM_DW, -1, 1e-6, 4e-15, true, "bse,bse,bs:e"},
    {HSP_OP_ROPE, 0, 2e-7, 4e-13, true, "bs,bsP:bsP"},
    {HSP_OP_ROPE_DX, 0, 2e-7, 4e-13, true, "bs,bsP:bsP"},
    {HSP_OP_DROPOUT, 0, 2e-7, 4e-16, true, "b2,bse:bse"},
    {HSP_OP_SWIGLU, -1, 3e-7, 1e-15, true, "bsn,bsn:bsn"},
    {HSP_OP_SWIGLU_DX, -1, 5e-7, 2e-15, true, "bsn,bsn,bsn:bsn,bsn"},
    {HSP_OP_ATTENTION, -1, 2e-6, 4e-15, false, "bsH,btH,btH:bsH,bsh"},
    {HSP_OP_ATTENTION, -1, 2e-6, 4e-15, false, "bsQ,btH,btH:bsQ,bsq"},
    {HSP_OP_ATTENTION_BWD, -1, 2e-5, 4e-14, false, "bsH,bsH,btH,btH,bsH,bsh:bsH,btH,btH"},
    {HSP_OP_ATTENTION_BWD, -1, 2e-5, 4e-14, false, "bsQ,bsQ,btH,btH,bsQ,bsq:bsQ,btH,btH"},
    {HSP_OP_PACKED_ATTENTION, 3, 2e-6, 4e-15, false, "bsQ,btH,btH,bs:bsQ,bsq"},
    {HSP_OP_PACKED_ATTENTION_BWD, 6, 2e-5, 4e-14, false, "bsQ,bsQ,btH,btH,bsQ,bsq,bs:bsQ,btH,btH"},
    {HSP_OP_ATTENTION_MERGE, -1, 1e-6, 2e-15, true, "bsH,bsh,bsH,bsh:bsH,bsh"},
    {HSP_OP_ATTENTION_MERGE, -1, 1e-6, 2e-15, true, "bsQ,bsq,bsQ,bsq:bsQ,bsq"},
    {HSP_OP_XENT, 1, 1e-6, 2e-15, true, "bsv,bs:bs,bs"},
    {HSP_OP_XENT_DX, 2, 1e-6, 2e-15, true, "bs,bsv,bs,bs:bsv"},
    {HSP_OP_LSE_PARTS, -1, 1e-6, 2e-15, true, "bsH:bsh"},
    {HSP_OP_LSE_MERGE, -1, 1e-6, 2e-15, true, "bse:bs"},
    {HSP_OP_XENT_PART, 1, 1e-6, 2e-15, true, "bsv,bs,bs:bs"},
    {HSP_OP_XENT_PART_DX, 2, 1e-6, 2e-15, true, "bs,bsv,bs,bs:bsv"},
    {HSP_OP_SUM, -1, 1e-11, 1e-11, true, "bsn:"},
    {HSP_OP_COUNT, 0, 0, 0, true, "bs:"},
    {HSP_OP_BROADCAST, -1, 1e-7, 0, true, ",bs:bs"},
    {HSP_OP_FLATTEN, -1, 0, 0, true, "bse:boS"},
    {HSP_OP_UNFLATTEN, -1, 0, 0, true, "boS:bse"},
    {HSP_OP_SQSUM, -1, 1e-13, 1e-13, true, "nk:"},
    {HSP_OP_ADAMW, -1, 1e-6, 2e-15, true, "nk,nk,nk,nk:nk,nk,nk"},
    {HSP_OP_SGDM, -1, 5e-7, 1e-15, true, "nk,nk,nk:nk,nk"},
    {HSP_OP_NARROW, -1, 0, 0, true, "bsn:bsn"},
    {HSP_OP_WIDEN, -1, 0, 0, true, "bsn:bsn"},
};

struct dims {
    int64_t b, s, t, k, n, e, v, h, d, origin, origin2;
    bool causal;
};

static int64_t extent(const struct dims *m, char c)
{
    switch (c) {
    case 'b': return m->b;
    case 's': return m->s;
    case 't': return m->t;
    case 'k': return m->k;
    case 'n': return m->n;
    case 'e': return m->e;
    case 'v': return m->v;
    case 'h': return m->h;
    case 'H': return m->h * m->d;
    case 'Q': return 3 * m->h * m->d;
    case 'q': return 3 * m->h;
    case 'P': return 2 * m->h * m->d;
    case '2': return 2;
    case 'S': return m->s * m->e;
    case 'o': return 1;
    default: fail_msg("dim %c", c); return 0;
    }
}

struct problem {
    struct hsp_call call, ref;
    struct hsp_attrs at;
    struct hsp_update_scalars update;
    struct hsp_array a[MAX_OPERANDS], r[MAX_OPERANDS]; /* backend's and reference's operands */
    uint8_t n_in, n_out;
};

static int64_t count(const struct hsp_array *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return n;
}

static double as_double(const struct hsp_array *a, int64_t i)
{
    return a->dtype == HSP_F32    ? (double)((const float *)a->data)[i]
           : a->dtype == HSP_F64  ? ((const double *)a->data)[i]
           : a->dtype == HSP_BF16 ? (double)hsp_bf16_float(((const uint16_t *)a->data)[i])
                                  : (double)((const int32_t *)a->data)[i];
}

static void set_value(struct hsp_array *a, int64_t i, double v)
{
    if (a->dtype == HSP_F32) {
        ((float *)a->data)[i] = (float)v;
    } else if (a->dtype == HSP_F64) {
        ((double *)a->data)[i] = v;
    } else if (a->dtype == HSP_BF16) {
        ((uint16_t *)a->data)[i] = hsp_bf16_of((float)v);
    } else {
        ((int32_t *)a->data)[i] = (int32_t)v;
    }
}

static void *aligned(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    assert_non_null(p);
    return p;
}

static void allocate(struct hsp_array *a)
{
    a->data = aligned((size_t)(count(a) + GUARD) * hsp_dtype_size(a->dtype));
    for (int64_t i = 0; i < count(a) + GUARD; i++) {
        set_value(a, i, a->dtype == HSP_I32 ? -777 : (double)NAN);
    }
}

static double uniform(const char *name, int64_t i)
{
    return (double)(hsp_test_rand(name, (uint64_t)i) >> 11) * 0x1p-52 - 1.0; /* [-1, 1) */
}

static void fill(struct problem *p, const struct op_case *oc, const struct dims *m, int i)
{
    struct hsp_array *a = &p->a[i];
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/%d", hsp_op_name(oc->op), i);
    for (int64_t j = 0; j < count(a); j++) {
        double x = 3 * uniform(name, j);
        if (a->dtype == HSP_I32) { /* also out of range: ids on both sides, labels -1 only */
            int64_t lo = oc->op == HSP_OP_EMBED || oc->op == HSP_OP_EMBED_DW ? m->origin - 2 : -1;
            int64_t hi = lo == -1 ? m->v - 1 : m->origin + m->v + 1;
            if (oc->op == HSP_OP_PACKED_ATTENTION || oc->op == HSP_OP_PACKED_ATTENTION_BWD) {
                lo = -1; /* in any order; some behind the query itself, which then sees no key */
                hi = m->origin + j % m->s + (j % 11 == 0 ? 2 : 0);
            }
            x = (double)hsp_test_range(name, (uint64_t)j, lo, hi);
        } else if ((oc->op == HSP_OP_ADAMW && i == 2) ||
                   (oc->op == HSP_OP_LAYERNORM_DX && i == 4) ||
                   (oc->op == HSP_OP_RMSNORM_DX && i == 3)) {
            x = fabs(x) + 0.1; /* v, rstd */
        } else if (oc->op ==
                   HSP_OP_ATTENTION_MERGE) { /* some rows see keys of one block, of none */
            int64_t row = i % 2 == 0 ? j / m->d : j;
            x = row % 5 == i / 2 * 2 || row % 7 == 6 ? (i % 2 == 0 ? 0 : (double)-INFINITY) : x;
        }
        set_value(a, j, x);
    }
}

/* Backward ops get the lse their forward op would have made. */
static void fill_lse(struct problem *p, enum hsp_op op)
{
    struct hsp_call c = p->ref;
    double *junk;
    if (op == HSP_OP_ATTENTION_BWD || op == HSP_OP_PACKED_ATTENTION_BWD) {
        junk = aligned((size_t)(count(&p->r[4]) + 1) * 8);
        struct hsp_array in[4] = {p->r[1], p->r[2], p->r[3], p->r[6]}, out[2] = {p->r[4], p->r[5]};
        (void)junk;
        c.op = op == HSP_OP_ATTENTION_BWD ? HSP_OP_ATTENTION : HSP_OP_PACKED_ATTENTION;
        c.in = in;
        c.out = out;
        ref_run(&c);
        for (int i = 4; i < 6; i++) {
            for (int64_t j = 0; j < count(&p->a[i]); j++) {
                set_value(&p->a[i], j, as_double(&p->r[i], j));
                set_value(&p->r[i], j, as_double(&p->a[i], j));
            }
        }
        free(junk);
    } else if (op == HSP_OP_XENT_DX) {
        junk = aligned((size_t)(count(&p->r[3]) + 1) * 8);
        struct hsp_array in[2] = {p->r[1], p->r[2]}, out[2] = {p->r[3], p->r[3]};
        out[0].data = junk;
        c.op = HSP_OP_XENT;
        c.in = in;
        c.out = out;
        ref_run(&c);
        for (int64_t j = 0; j < count(&p->a[3]); j++) {
            set_value(&p->a[3], j, as_double(&p->r[3], j));
            set_value(&p->r[3], j, as_double(&p->a[3], j));
        }
        free(junk);
    }
}

static void problem_init(struct problem *p, const struct op_case *oc, const struct dims *m,
                         enum hsp_dtype t)
{
    memset(p, 0, sizeof(*p));
    int n = 0;
    bool out = false;
    for (const char *c = oc->shape;; c++) {
        if (*c == '\0' || *c == ',' || *c == ':') {
            p->a[n].dtype = hsp_op_dtype(oc->op, (uint8_t)n, t);
            assert_int_equal(p->a[n].dtype == HSP_I32, !out && n == oc->ids);
            n++;
            if (out) {
                p->n_out++;
            } else {
                p->n_in++;
            }
            if (*c == '\0') {
                break;
            }
            out = out || *c == ':';
        } else {
            p->a[n].ext[p->a[n].rank++] = extent(m, *c);
        }
    }
    p->at = (struct hsp_attrs){{m->d, m->causal, 1}, {1e-5, 0, 0, 0}};
    bool packed = oc->op == HSP_OP_PACKED_ATTENTION || oc->op == HSP_OP_PACKED_ATTENTION_BWD;
    if (oc->op == HSP_OP_ATTENTION || oc->op == HSP_OP_ATTENTION_BWD || packed ||
        oc->op == HSP_OP_ATTENTION_MERGE) {
        p->at.i[1] = p->at.i[1] != 0 || packed;
        p->at.i[2] = strchr(oc->shape, 'Q') != NULL ? 3 : 1;
        p->at.f[0] = 1 / sqrt((double)m->d);
    } else if (oc->op == HSP_OP_ROPE || oc->op == HSP_OP_ROPE_DX) {
        p->at = (struct hsp_attrs){{2 * m->d}, {500, 0, 0, 0}};
    } else if (oc->op == HSP_OP_XENT_PART || oc->op == HSP_OP_XENT_PART_DX) {
        p->at.i[0] = m->v + m->origin + 2; /* classes in all: some labels are on neither side */
    } else if (oc->op == HSP_OP_DROPOUT) {
        p->at = (struct hsp_attrs){{0, INT64_C(0x123456789abcdef)}, {0.3, 0, 0, 0}};
    } else if (oc->op == HSP_OP_EMBED_DW) {
        p->at.i[0] = m->v + m->origin + 3; /* the whole table is longer than the slice */
    } else if (oc->op == HSP_OP_FLATTEN || oc->op == HSP_OP_UNFLATTEN) {
        p->at.i[0] = m->e;
    } else if (oc->op == HSP_OP_ADAMW) {
        p->at = (struct hsp_attrs){{0}, {0.9, 0.95, 1e-8, 0.1}};
    } else if (oc->op == HSP_OP_SGDM) {
        p->at = (struct hsp_attrs){{0}, {0.9, 0.01, 0, 0}};
    }
    p->update =
        (struct hsp_update_scalars){3e-3, 0.125, 1 - 0.9 * 0.9 * 0.9, 1 - 0.95 * 0.95 * 0.95};
    for (int i = 0; i < n; i++) {
        p->r[i] = p->a[i];
        p->r[i].dtype = p->a[i].dtype == HSP_I32 ? HSP_I32 : HSP_F64;
        allocate(&p->a[i]);
        allocate(&p->r[i]);
        if (i < p->n_in) {
            fill(p, oc, m, i);
            for (int64_t j = 0; j < count(&p->a[i]); j++) {
                set_value(&p->r[i], j, as_double(&p->a[i], j));
            }
        }
    }
    p->call = (struct hsp_call){.op = oc->op,
                                .at = &p->at,
                                .n_in = p->n_in,
                                .n_out = p->n_out,
                                .in = p->a,
                                .out = p->a + p->n_in,
                                .origin = {m->origin, m->origin2},
                                .update = &p->update};
    p->ref = p->call;
    p->ref.in = p->r;
    p->ref.out = p->r + p->n_in;
    fill_lse(p, oc->op);
}

static void problem_fini(struct problem *p)
{
    for (int i = 0; i < p->n_in + p->n_out; i++) {
        free(p->a[i].data);
        free(p->r[i].data);
    }
}

static void check_operand(const struct op_case *oc, const struct problem *p, int i, double tol)
{
    const struct hsp_array *a = &p->a[i], *r = &p->r[i];
    double scale = 1;
    for (int64_t j = 0; j < count(r); j++) {
        double x = fabs(as_double(r, j));
        scale = isfinite(x) && x > scale ? x : scale;
    }
    for (int64_t j = 0; j < count(a); j++) {
        double x = as_double(a, j), y = as_double(r, j);
        if (x != y && !(fabs(x - y) <= tol * scale)) {
            fail_msg(
                "%s %s operand %d element %lld: %.17g, expected %.17g, off by %g, tolerance %g",
                hsp_op_name(oc->op), hsp_dtype_name(a->dtype), i, (long long)j, x, y,
                fabs(x - y) / scale, tol);
        }
    }
    for (int64_t j = count(a); j < count(a) + GUARD; j++) { /* nothing written behind */
        assert_true(a->dtype == HSP_I32 ? as_double(a, j) == -777 : isnan(as_double(a, j)));
    }
}

/* Of bf16 operands half a step of bf16 more: results are rounded once. */
static double tolerance(const struct op_case *oc, enum hsp_dtype t, enum hsp_dtype operand)
{
    return t == HSP_F64 ? oc->tol64 : oc->tol32 + (operand == HSP_BF16 ? 0x1p-8 : 0);
}

static void check_problem(struct hsp_backend *one, struct hsp_backend *many,
                          const struct op_case *oc, const struct dims *m, enum hsp_dtype t)
{
    struct problem p;
    struct hsp_err err = {0};
    problem_init(&p, oc, m, t);
    ref_run(&p.ref);
    assert_ok(one->run(one, HSP_DEVQ_COMPUTE, &p.call, &err), &err);
    for (int i = p.n_in; i < p.n_in + p.n_out; i++) {
        check_operand(oc, &p, i, tolerance(oc, t, p.a[i].dtype));
    }
    void *first[HSP_MAX_OUT];
    for (int i = 0; i < p.n_out; i++) {
        first[i] = p.a[p.n_in + i].data;
        allocate(&p.a[p.n_in + i]);
    }
    assert_ok(many->run(many, HSP_DEVQ_COMPUTE, &p.call, &err), &err);
    for (int i = 0; i < p.n_out; i++) {
        struct hsp_array *a = &p.a[p.n_in + i];
        check_operand(oc, &p, p.n_in + i, tolerance(oc, t, a->dtype));
        if (oc->same_bits) {
            assert_memory_equal(a->data, first[i], (size_t)count(a) * hsp_dtype_size(a->dtype));
        }
        free(first[i]);
    }
    problem_fini(&p);
}

static void random_dims(struct dims *m, uint64_t i, int64_t lo)
{
    int64_t *v[] = {&m->b, &m->s, &m->t, &m->k, &m->n, &m->e, &m->v, &m->h, &m->d};
    static const int64_t hi[] = {4, 19, 23, 70, 67, 65, 45, 4, 24};
    for (size_t j = 0; j < HSP_ARRAY_LEN(v); j++) {
        *v[j] = hsp_test_range("dims", i * 16 + j, lo, hi[j]);
    }
    m->d = m->d > 0 ? m->d : 1;
    m->e =
        m->e > 0 ? m->e : 1; /* a norm over nothing, a class out of nothing: not in the catalogue */
    m->v = m->v > 0 ? m->v : 1;
    m->origin = hsp_test_range("origin", i, 0, 9);
    m->origin2 =
        hsp_test_range("origin2", i, 0, 14); /* of keys: before, among and behind queries */
    m->causal = hsp_test_rand("causal", i) % 2 == 0;
}

static void every_op_is_in_the_table(void)
{
    for (int op = 0; op < HSP_N_OPS; op++) {
        bool found = false;
        for (size_t o = 0; o < HSP_ARRAY_LEN(ops); o++) {
            found = found || ops[o].op == (enum hsp_op)op;
        }
        assert_true(found);
    }
}

static void every_op_matches_the_reference(void **state)
{
    (void)state;
    struct hsp_backend *one, *many;
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(1, &one, &err), &err);
    assert_ok(hsp_backend_cpu_open(3, &many, &err), &err);
    every_op_is_in_the_table();
    for (size_t o = 0; o < HSP_ARRAY_LEN(ops); o++) {
        for (uint64_t i = 0; i < 24; i++) {
            struct dims m;
            random_dims(&m, i, i < 16 ? 1 : 0); /* the last ones have empty dims */
            check_problem(one, many, &ops[o], &m, HSP_F32);
            check_problem(one, many, &ops[o], &m, HSP_F64);
            check_problem(one, many, &ops[o], &m, HSP_BF16);
        }
        /* large enough for several threads, tiles and blocks of sums */
        struct dims big = {.b = 2,
                           .s = 300,
                           .t = 310,
                           .k = 257,
                           .n = 321,
                           .e = 130,
                           .v = 600,
                           .h = 2,
                           .d = 16,
                           .origin = 33,
                           .origin2 = 3,
                           .causal = true};
        check_problem(one, many, &ops[o], &big, HSP_F32);
        check_problem(one, many, &ops[o], &big, HSP_F64);
        check_problem(one, many, &ops[o], &big, HSP_BF16);
    }
    one->close(one);
    many->close(many);
}

static void each_empty_dim_is_handled(void **state)
{
    (void)state;
    struct hsp_backend *one, *many;
    struct hsp_err err = {0};
    assert_ok(hsp_backend_cpu_open(1, &one, &err), &err);
    assert_ok(hsp_backend_cpu_open(2, &many, &err), &err);
    for (size_t o = 0; o < HSP_ARRAY_LEN(ops); o++) {
        for (int z = 0; z < 8; z++) {
            struct dims m = {
                .b = 2, .s = 3, .t = 4, .k = 5, .n = 6, .e = 7, .v = 8, .h = 2, .d = 4};
            int64_t *v[] = {&m.b, &m.s, &m.t, &m.k, &m.n, &m.h, &m.v, &m.e};
            *v[z] = 0;
            if ((z == 6 && (ops[o].op == HSP_OP_XENT || ops[o].op == HSP_OP_XENT_DX)) ||
                (z == 7 && ops[o].op != HSP_OP_EMBED && ops[o].op != HSP_OP_EMBED_DW)) {
                continue; /* whole axes are never empty */
            }
            check_problem(one, many, &ops[o], &m, HSP_F64);
            check_problem(one, many, &ops[o], &m, HSP_BF16);
        }
    }
    one->close(one);
    many->close(many);
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
        double amplified = 1 + x[i] * x[i]; /* of the rounding of x^2 in the exponent */
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
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EINVAL); /* output shape */
    out[0].ext[2] = 3;
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_OK);
    in[1].ext[1] = 3;
    assert_status(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), HSP_EINVAL); /* operands disagree */
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
    /* a label outside the table */
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

/* What needs no kernel: memory, copies, fills, cells, tickets. */
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
    const struct hsp_box cell = {.rank = 2, .lo = {0, 1}, .hi = {2, 2}}; /* elements 1 and 4 */
    const struct hsp_view to = {.data = x[0], .box = whole, .dtype = HSP_F32};
    const struct hsp_view from = {.data = x[1], .box = whole, .dtype = HSP_F32};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_matches_the_reference),
        cmocka_unit_test(each_empty_dim_is_handled),
        cmocka_unit_test(accumulate_adds),
        cmocka_unit_test(memory_and_queues),
        cmocka_unit_test(tails_of_gelu_keep_relative_accuracy),
        cmocka_unit_test(not_a_number_stays),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
