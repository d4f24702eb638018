#include "tests/unit/worker/backend/op_suite.h"

#include <math.h>
#include <stdio.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/testlib.h"
#include "tests/unit/worker/backend/reference_ops.h"

#define MAX_OPERANDS (HSP_MAX_IN + HSP_MAX_OUT)
#define GUARD        16 /* elements after each output that must not change */

/* Largest difference from the reference relative to the largest value of the operand (at least 1).
 * ids: operand with ids or labels, -1 none. wide: the first input (fp64) and outputs are scalars.
 */
static const struct op_case {
    enum hsp_op op;
    int ids;
    double tol32, tol64;
    bool same_bits; /* the bits are the same for any number of threads */
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

static int64_t extent(const struct op_dims *m, char c)
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
    /* a: the operands of the backend; r: those of the reference */
    struct hsp_array a[MAX_OPERANDS], r[MAX_OPERANDS];
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
    /* a number in [-1, 1) */
    return (double)(hsp_test_rand(name, (uint64_t)i) >> 11) * 0x1p-52 - 1.0;
}

static void fill(struct problem *p, const struct op_case *oc, const struct op_dims *m, int i)
{
    struct hsp_array *a = &p->a[i];
    char name[64];
    (void)snprintf(name, sizeof(name), "%s/%d", hsp_op_name(oc->op), i);
    for (int64_t j = 0; j < count(a); j++) {
        double x = 3 * uniform(name, j);
        if (a->dtype == HSP_I32) { /* some are out of range: ids on both sides, labels -1 only */
            int64_t lo = oc->op == HSP_OP_EMBED || oc->op == HSP_OP_EMBED_DW ? m->origin - 2 : -1;
            int64_t hi = lo == -1 ? m->v - 1 : m->origin + m->v + 1;
            if (oc->op == HSP_OP_PACKED_ATTENTION || oc->op == HSP_OP_PACKED_ATTENTION_BWD) {
                /* in any order; some starts come after the query itself, which then sees no key */
                lo = -1;
                hi = m->origin + j % m->s + (j % 11 == 0 ? 2 : 0);
            }
            x = (double)hsp_test_range(name, (uint64_t)j, lo, hi);
        } else if ((oc->op == HSP_OP_ADAMW && i == 2) ||
                   (oc->op == HSP_OP_LAYERNORM_DX && i == 4) ||
                   (oc->op == HSP_OP_RMSNORM_DX && i == 3)) {
            x = fabs(x) + 0.1; /* v and rstd are positive */
        } else if (oc->op ==
                   HSP_OP_ATTENTION_MERGE) { /* some rows see keys of one block only, or of none */
            int64_t row = i % 2 == 0 ? j / m->d : j;
            x = row % 5 == i / 2 * 2 || row % 7 == 6 ? (i % 2 == 0 ? 0 : (double)-INFINITY) : x;
        }
        set_value(a, j, x);
    }
}

/* Fills the lse of backward ops with that which their forward op would compute. */
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

static void set_attrs(struct problem *p, const struct op_case *oc, const struct op_dims *m)
{
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
        /* the number of all classes; some labels are in no part */
        p->at.i[0] = m->v + m->origin + 2;
    } else if (oc->op == HSP_OP_DROPOUT) {
        p->at = (struct hsp_attrs){{0, INT64_C(0x123456789abcdef)}, {0.3, 0, 0, 0}};
    } else if (oc->op == HSP_OP_EMBED_DW) {
        p->at.i[0] = m->v + m->origin + 3; /* the table has more rows than the slice */
    } else if (oc->op == HSP_OP_FLATTEN || oc->op == HSP_OP_UNFLATTEN) {
        p->at.i[0] = m->e;
    } else if (oc->op == HSP_OP_ADAMW) {
        p->at = (struct hsp_attrs){{0}, {0.9, 0.95, 1e-8, 0.1}};
    } else if (oc->op == HSP_OP_SGDM) {
        p->at = (struct hsp_attrs){{0}, {0.9, 0.01, 0, 0}};
    }
}

static void problem_init(struct problem *p, const struct op_case *oc, const struct op_dims *m,
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
    set_attrs(p, oc, m);
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
    /* nothing was written after the output */
    for (int64_t j = count(a); j < count(a) + GUARD; j++) {
        assert_true(a->dtype == HSP_I32 ? as_double(a, j) == -777 : isnan(as_double(a, j)));
    }
}

/* Returns the tolerance of an operand. For bf16 operands it is half a step of bf16 more, since
 * results are rounded once. */
static double tolerance(const struct op_suite *s, const struct op_case *oc, enum hsp_dtype t,
                        enum hsp_dtype operand)
{
    double tol = t == HSP_F64 ? oc->tol64 : oc->tol32;
    tol = s->tolerance != NULL ? s->tolerance(oc->op, t, tol) : tol;
    return tol + (operand == HSP_BF16 ? 0x1p-8 : 0);
}

/* ---- on a backend ---- */

static size_t operand_bytes(const struct hsp_array *a)
{
    return (size_t)(count(a) + GUARD) * hsp_dtype_size(a->dtype);
}

static void *device_copy(struct hsp_backend *b, const void *host, size_t bytes)
{
    void *p = NULL;
    struct hsp_err err = {0};
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes, &p, &err), &err);
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, p, host, bytes, &err), &err);
    return p;
}

/* Runs the call with operands in memory of the backend, and copies the results, and the bytes after
 * them, to those of the problem. @in_place: output k is written over input k. */
static void run_on(struct hsp_backend *b, struct problem *p, bool in_place)
{
    struct hsp_err err = {0};
    struct hsp_array a[MAX_OPERANDS];
    uint64_t ticket;
    struct hsp_call c = p->call;
    int n = p->n_in + p->n_out;
    memcpy(a, p->a, sizeof(a));
    for (int i = 0; i < n; i++) {
        a[i].data = in_place && i >= p->n_in
                        ? a[i - p->n_in].data
                        : device_copy(b, p->a[i].data, operand_bytes(&p->a[i]));
    }
    c.in = a;
    c.out = a + p->n_in;
    void *update = device_copy(b, &p->update, sizeof(p->update));
    c.update = update;
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    for (int i = p->n_in; i < n; i++) {
        assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, p->a[i].data, a[i].data, operand_bytes(&a[i]), &err),
                  &err);
    }
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &ticket, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMPUTE, ticket, &err), &err);
    for (int i = 0; i < (in_place ? p->n_in : n); i++) {
        b->release(b, HSP_MEM_DEVICE, a[i].data);
    }
    b->release(b, HSP_MEM_DEVICE, update);
}

static void new_outputs(struct problem *p)
{
    for (int i = p->n_in; i < p->n_in + p->n_out; i++) {
        allocate(&p->a[i]);
    }
}

/* Checks that the results agree with the reference. @first: the results of the first run, whose
 * bits these must have if @same_bits. */
static void check_results(const struct op_suite *s, const struct op_case *oc,
                          const struct problem *p, enum hsp_dtype t, void *const *first,
                          bool same_bits)
{
    for (int i = p->n_in; i < p->n_in + p->n_out; i++) {
        const struct hsp_array *a = &p->a[i];
        check_operand(oc, p, i, tolerance(s, oc, t, a->dtype));
        if (first != NULL && same_bits) {
            assert_memory_equal(a->data, first[i - p->n_in],
                                (size_t)count(a) * hsp_dtype_size(a->dtype));
        }
    }
}

/* Checks that an update that writes over the state it reads gives the same results, and changes
 * nothing else. */
static void check_in_place(const struct op_suite *s, const struct op_case *oc, struct problem *p,
                           enum hsp_dtype t)
{
    void *first[HSP_MAX_OUT];
    if (oc->op != HSP_OP_ADAMW && oc->op != HSP_OP_SGDM) {
        return;
    }
    for (int i = 0; i < p->n_out; i++) {
        first[i] = p->a[p->n_in + i].data;
    }
    new_outputs(p);
    run_on(s->many, p, true);
    check_results(s, oc, p, t, first, true);
    for (int i = 0; i < p->n_out; i++) {
        free(first[i]);
    }
}

static void check_problem(const struct op_suite *s, const struct op_case *oc,
                          const struct op_dims *m, enum hsp_dtype t)
{
    struct problem p;
    if (s->judged != NULL && !s->judged(oc->op, t)) {
        return;
    }
    problem_init(&p, oc, m, t);
    ref_run(&p.ref);
    run_on(s->one, &p, false);
    check_results(s, oc, &p, t, NULL, false);
    void *first[HSP_MAX_OUT];
    for (int i = 0; i < p.n_out; i++) {
        first[i] = p.a[p.n_in + i].data;
    }
    new_outputs(&p);
    if (s->second != NULL) {
        s->second(true);
    }
    run_on(s->many, &p, false);
    if (s->second != NULL) {
        s->second(false);
    }
    check_results(s, oc, &p, t, first, oc->same_bits || s->same_bits);
    for (int i = 0; i < p.n_out; i++) {
        free(first[i]);
    }
    check_in_place(s, oc, &p, t);
    problem_fini(&p);
}

static void random_dims(struct op_dims *m, uint64_t i, int64_t lo)
{
    int64_t *v[] = {&m->b, &m->s, &m->t, &m->k, &m->n, &m->e, &m->v, &m->h, &m->d};
    static const int64_t hi[] = {4, 19, 23, 70, 67, 65, 45, 4, 24};
    for (size_t j = 0; j < HSP_ARRAY_LEN(v); j++) {
        *v[j] = hsp_test_range("dims", i * 16 + j, lo, hi[j]);
    }
    m->d = m->d > 0 ? m->d : 1;
    m->e =
        /* the catalogue has no norm over 0 elements and no class out of 0 classes */
        m->e > 0 ? m->e : 1;
    m->v = m->v > 0 ? m->v : 1;
    m->origin = hsp_test_range("origin", i, 0, 9);
    m->origin2 =
        /* the origin of keys: before, among and after the queries */
        hsp_test_range("origin2", i, 0, 14);
    m->causal = hsp_test_rand("causal", i) % 2 == 0;
}

static void every_op_is_in_the_table(void)
{
    for (int op = 0; op < HSP_N_OPS; op++) {
        bool found = false;
        for (size_t o = 0; o < HSP_ARRAY_LEN(ops); o++) {
            found = found || ops[o].op == (enum hsp_op)op;
        }
        if (!found) {
            fail_msg("%s has no row in the table of this suite", hsp_op_name((enum hsp_op)op));
        }
    }
}

void op_suite_dims(const struct op_suite *s, const struct op_dims *m)
{
    for (size_t o = 0; o < HSP_ARRAY_LEN(ops); o++) {
        check_problem(s, &ops[o], m, HSP_F32);
        check_problem(s, &ops[o], m, HSP_F64);
        check_problem(s, &ops[o], m, HSP_BF16);
    }
}

void op_suite_random(const struct op_suite *s)
{
    every_op_is_in_the_table();
    for (uint64_t i = 0; i < 24; i++) {
        struct op_dims m;
        random_dims(&m, i, i < 16 ? 1 : 0); /* the last problems have empty dims */
        op_suite_dims(s, &m);
    }
    /* large enough for several threads, tiles and blocks of sums */
    const struct op_dims big = {.b = 2,
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
    op_suite_dims(s, &big);
}

void op_suite_empty(const struct op_suite *s)
{
    for (size_t o = 0; o < HSP_ARRAY_LEN(ops); o++) {
        for (int z = 0; z < 8; z++) {
            struct op_dims m = {
                .b = 2, .s = 3, .t = 4, .k = 5, .n = 6, .e = 7, .v = 8, .h = 2, .d = 4};
            int64_t *v[] = {&m.b, &m.s, &m.t, &m.k, &m.n, &m.h, &m.v, &m.e};
            *v[z] = 0;
            if ((z == 6 && (ops[o].op == HSP_OP_XENT || ops[o].op == HSP_OP_XENT_DX)) ||
                (z == 7 && ops[o].op != HSP_OP_EMBED && ops[o].op != HSP_OP_EMBED_DW)) {
                continue; /* an axis that cannot be cut is never empty */
            }
            check_problem(s, &ops[o], &m, HSP_F64);
            check_problem(s, &ops[o], &m, HSP_BF16);
        }
    }
}
