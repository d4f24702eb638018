#include "tests/unit/worker/backend/block_suite.h"

#include <math.h>

#include "proto/base/size.h"
#include "proto/op/bf16.h"
#include "tests/lib/testlib.h"

#define MAX_BLOCKS 5

/* The suite stores operands as fp64 numbers, rounded to the precision of the type under test. */
static const struct block_suite *suite;

struct sizes {
    int64_t b, s, h, group, d;
    bool causal, packed;
};

enum operand { DO, Q, K, V, O, LSE, STARTS, DQ, DK, DV, N_OPERANDS };

static int64_t count(const struct hsp_array *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return n;
}

static double *vals(const struct hsp_array *a)
{
    return a->data;
}

static bool of_keys(enum operand x)
{
    return x == K || x == V || x == DK || x == DV;
}

/* Returns operand @x over @len positions. */
static struct hsp_array array(const struct sizes *z, enum operand x, int64_t len)
{
    struct hsp_array a = {.dtype = x == STARTS ? HSP_I32 : HSP_F64, .rank = 3};
    int64_t heads = of_keys(x) ? z->h : z->h * z->group;
    a.ext[0] = z->b;
    a.ext[1] = len;
    a.ext[2] = x == LSE ? heads : heads * z->d;
    a.rank = x == STARTS ? 2 : 3;
    a.data = aligned_alloc(64, ((size_t)count(&a) * 8 + 127) / 64 * 64);
    assert_non_null(a.data);
    return a;
}

/* Copies positions @lo .. @lo + n - 1 of @whole to @part, whose length is n. @back: copies from
 * @part to @whole. */
static void copy_range(struct hsp_array *whole, struct hsp_array *part, int64_t lo, bool back)
{
    size_t row = hsp_dtype_size(whole->dtype);
    row *= whole->rank == 3 ? (size_t)whole->ext[2] : 1;
    for (int64_t b = 0; b < whole->ext[0]; b++) {
        char *w = (char *)whole->data + (size_t)(b * whole->ext[1] + lo) * row;
        char *p = (char *)part->data + (size_t)(b * part->ext[1]) * row;
        memcpy(back ? w : p, back ? p : w, (size_t)part->ext[1] * row);
    }
}

static struct hsp_array range_of(const struct sizes *z, struct hsp_array *all, enum operand x,
                                 int64_t lo, int64_t hi)
{
    struct hsp_array a = array(z, x, hi - lo);
    copy_range(&all[x], &a, lo, false);
    return a;
}

static struct hsp_attrs attrs(const struct sizes *z)
{
    return (struct hsp_attrs){{z->d, z->causal, z->group}, {1 / sqrt((double)z->d)}};
}

/* ---- in the backend's memory ---- */

static double get(const void *p, enum hsp_dtype t, int64_t i)
{
    return t == HSP_F64   ? ((const double *)p)[i]
           : t == HSP_F32 ? (double)((const float *)p)[i]
                          : (double)hsp_bf16_float(((const uint16_t *)p)[i]);
}

static void set(void *p, enum hsp_dtype t, int64_t i, double v)
{
    if (t == HSP_F64) {
        ((double *)p)[i] = v;
    } else if (t == HSP_F32) {
        ((float *)p)[i] = (float)v;
    } else {
        ((uint16_t *)p)[i] = hsp_bf16_of((float)v);
    }
}

/* Returns the operand in memory of the backend. @stat: the operand is lse, which is never stored in
 * a narrow type. */
static struct hsp_array device_array(const struct hsp_array *a, bool stat, bool filled)
{
    struct hsp_backend *b = suite->backend;
    struct hsp_err err = {0};
    struct hsp_array d = *a;
    d.dtype = a->dtype == HSP_I32 ? HSP_I32 : stat ? hsp_dtype_wide(suite->type) : suite->type;
    size_t bytes = (size_t)count(a) * hsp_dtype_size(d.dtype);
    void *host = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(host);
    for (int64_t i = 0; i < count(a); i++) {
        if (d.dtype == HSP_I32) {
            ((int32_t *)host)[i] = ((const int32_t *)a->data)[i];
        } else {
            set(host, d.dtype, i, filled ? vals(a)[i] : (double)NAN);
        }
    }
    assert_ok(b->alloc(b, HSP_MEM_DEVICE, bytes, &d.data, &err), &err);
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, d.data, host, bytes, &err), &err);
    uint64_t ticket;
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &ticket, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMPUTE, ticket, &err), &err);
    free(host);
    return d;
}

static void fetch(const struct hsp_array *d, const struct hsp_array *a)
{
    struct hsp_backend *b = suite->backend;
    struct hsp_err err = {0};
    uint64_t ticket;
    size_t bytes = (size_t)count(a) * hsp_dtype_size(d->dtype);
    void *host = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(host);
    assert_ok(b->copy(b, HSP_DEVQ_COMPUTE, host, d->data, bytes, &err), &err);
    assert_ok(b->mark(b, HSP_DEVQ_COMPUTE, &ticket, &err), &err);
    assert_ok(b->finish(b, HSP_DEVQ_COMPUTE, ticket, &err), &err);
    for (int64_t i = 0; i < count(a); i++) {
        vals(a)[i] = get(host, d->dtype, i);
    }
    free(host);
}

/* Returns a bit for each operand of an op that is lse. */
static unsigned stats_of(enum hsp_op op, bool outputs)
{
    if (op == HSP_OP_ATTENTION_MERGE) {
        return outputs ? 2 : 2 | 8;
    }
    bool bwd = op == HSP_OP_ATTENTION_BWD || op == HSP_OP_PACKED_ATTENTION_BWD;
    return bwd ? (outputs ? 0 : 1U << 5) : (outputs ? 2 : 0);
}

static void run(enum hsp_op op, const struct sizes *z, const struct hsp_array *in,
                const struct hsp_array *out, int64_t q0, int64_t k0)
{
    struct hsp_backend *b = suite->backend;
    struct hsp_err err = {0};
    struct hsp_attrs at = attrs(z);
    struct hsp_array x[HSP_MAX_IN], y[HSP_MAX_OUT];
    struct hsp_call c = {.op = op,
                         .at = &at,
                         .n_in = hsp_op_n_in(op),
                         .n_out = hsp_op_n_out(op),
                         .in = x,
                         .out = y,
                         .origin = {q0, k0}};
    for (int i = 0; i < c.n_in; i++) {
        x[i] = device_array(&in[i], (stats_of(op, false) >> i & 1) != 0, true);
    }
    for (int i = 0; i < c.n_out; i++) {
        y[i] = device_array(&out[i], (stats_of(op, true) >> i & 1) != 0, false);
    }
    assert_ok(b->run(b, HSP_DEVQ_COMPUTE, &c, &err), &err);
    for (int i = 0; i < c.n_out; i++) {
        fetch(&y[i], &out[i]);
        b->release(b, HSP_MEM_DEVICE, y[i].data);
    }
    for (int i = 0; i < c.n_in; i++) {
        b->release(b, HSP_MEM_DEVICE, x[i].data);
    }
}

/* ---- whole and blocks ---- */

static void forward(const struct sizes *z, const struct hsp_array *x, int64_t q0, int64_t k0)
{
    struct hsp_array in[] = {x[Q], x[K], x[V], x[STARTS]}, out[] = {x[O], x[LSE]};
    run(z->packed ? HSP_OP_PACKED_ATTENTION : HSP_OP_ATTENTION, z, in, out, q0, k0);
}

static void backward(const struct sizes *z, const struct hsp_array *x, int64_t q0, int64_t k0)
{
    struct hsp_array in[] = {x[DO], x[Q], x[K], x[V], x[O], x[LSE], x[STARTS]};
    struct hsp_array out[] = {x[DQ], x[DK], x[DV]};
    run(z->packed ? HSP_OP_PACKED_ATTENTION_BWD : HSP_OP_ATTENTION_BWD, z, in, out, q0, k0);
}

/* Makes operands with all keys and random inputs, and computes the results of the ops on them. */
static void make_whole(const struct sizes *z, struct hsp_array *x)
{
    for (int i = 0; i < N_OPERANDS; i++) {
        x[i] = array(z, (enum operand)i, z->s);
        for (int64_t k = 0; i <= V && k < count(&x[i]); k++) {
            double v = (double)hsp_test_range("value", (uint64_t)(k * 8 + i), -2000, 2000) / 1e3;
            uint8_t kept[8];
            set(kept, suite->type, 0, v);
            vals(&x[i])[k] = get(kept, suite->type, 0);
        }
    }
    for (int64_t k = 0; k < count(&x[STARTS]); k++) { /* a query in seven sees no key */
        int64_t s = k % z->s;
        ((int32_t *)x[STARTS].data)[k] =
            (int32_t)(s % 7 == 5 ? s + 1 : hsp_test_range("start", (uint64_t)k, -1, s));
    }
    forward(z, x, 0, 0);
    backward(z, x, 0, 0);
}

static void drop(struct hsp_array *x, int n)
{
    for (int i = 0; i < n; i++) {
        free(x[i].data);
    }
}

static void cut_at_random(const char *name, uint64_t seed, int64_t n, int64_t *cut)
{
    cut[0] = 0;
    for (int i = 1; i < MAX_BLOCKS; i++) { /* some blocks are empty */
        cut[i] = hsp_test_range(name, seed * 8 + (uint64_t)i, cut[i - 1], n);
    }
    cut[MAX_BLOCKS] = n;
}

/* Computes attention of the queries q0 .. q1 - 1 against each block of keys, and merges two results
 * at a time, in random order, until one result is left. */
static void merge_blocks(const struct sizes *z, struct hsp_array *all, int64_t q0, int64_t q1,
                         const int64_t *key, uint64_t seed, struct hsp_array *ret_o,
                         struct hsp_array *ret_lse)
{
    struct hsp_array o[MAX_BLOCKS], lse[MAX_BLOCKS], x[N_OPERANDS] = {0};
    x[Q] = range_of(z, all, Q, q0, q1);
    x[STARTS] = range_of(z, all, STARTS, q0, q1);
    for (int j = 0; j < MAX_BLOCKS; j++) {
        x[K] = range_of(z, all, K, key[j], key[j + 1]);
        x[V] = range_of(z, all, V, key[j], key[j + 1]);
        x[O] = o[j] = array(z, O, q1 - q0);
        x[LSE] = lse[j] = array(z, LSE, q1 - q0);
        forward(z, x, q0, key[j]);
        free(x[K].data);
        free(x[V].data);
    }
    for (int n = MAX_BLOCKS; n > 1; n--) {
        int i = (int)hsp_test_range("first", seed * 8 + (uint64_t)n, 0, n - 2);
        int j = (int)hsp_test_range("second", seed * 8 + (uint64_t)n, i + 1, n - 1);
        bool swap = hsp_test_rand("swap", seed * 8 + (uint64_t)n) % 2 == 0;
        int first = swap ? j : i, second = swap ? i : j;
        struct hsp_array in[] = {o[first], lse[first], o[second], lse[second]};
        struct hsp_array out[] = {array(z, O, q1 - q0), array(z, LSE, q1 - q0)};
        run(HSP_OP_ATTENTION_MERGE, z, in, out, 0, 0);
        drop(in, 4);
        o[i] = out[0];
        lse[i] = out[1];
        o[j] = o[n - 1];
        lse[j] = lse[n - 1];
    }
    free(x[Q].data);
    free(x[STARTS].data);
    *ret_o = o[0];
    *ret_lse = lse[0];
}

static void compare(const struct hsp_array *want, const struct hsp_array *got, const char *what)
{
    double scale = 1;
    for (int64_t i = 0; i < count(want); i++) {
        double v = fabs(vals(want)[i]);
        scale = isfinite(v) && v > scale ? v : scale;
    }
    for (int64_t i = 0; i < count(want); i++) {
        double w = vals(want)[i], g = vals(got)[i];
        if (w != g && !(fabs(w - g) <= suite->tolerance * scale)) {
            fail_msg("%s, element %lld: %.17g, not %.17g", what, (long long)i, g, w);
        }
    }
}

/* Computes the gradients of one range of queries, block by block of keys. Adds the parts of dq
 * here, and those of dk and dv to @sum. */
static void add_gradients(const struct sizes *z, struct hsp_array *all, int64_t q0, int64_t q1,
                          const int64_t *key, struct hsp_array *sum)
{
    struct hsp_array x[N_OPERANDS];
    for (int i = DO; i <= STARTS; i++) {
        x[i] = of_keys((enum operand)i) ? (struct hsp_array){0}
                                        : range_of(z, all, (enum operand)i, q0, q1);
    }
    x[DQ] = array(z, DQ, q1 - q0);
    for (int j = 0; j < MAX_BLOCKS; j++) {
        int64_t at[] = {[DQ - DQ] = q0, [DK - DQ] = key[j], [DV - DQ] = key[j]};
        x[K] = range_of(z, all, K, key[j], key[j + 1]);
        x[V] = range_of(z, all, V, key[j], key[j + 1]);
        x[DK] = array(z, DK, key[j + 1] - key[j]);
        x[DV] = array(z, DV, key[j + 1] - key[j]);
        backward(z, x, q0, key[j]);
        for (int i = DQ; i <= DV; i++) {
            struct hsp_array so_far = array(z, (enum operand)i, x[i].ext[1]);
            copy_range(&sum[i - DQ], &so_far, at[i - DQ], false);
            for (int64_t k = 0; k < count(&so_far); k++) {
                vals(&so_far)[k] += vals(&x[i])[k];
            }
            copy_range(&sum[i - DQ], &so_far, at[i - DQ], true);
            free(so_far.data);
        }
        free(x[K].data);
        free(x[V].data);
        free(x[DK].data);
        free(x[DV].data);
    }
    x[K].data = x[V].data = NULL;
    drop(x, DQ + 1);
}

static void check_blocks(const struct sizes *z, uint64_t seed)
{
    struct hsp_array all[N_OPERANDS], o = array(z, O, z->s), lse = array(z, LSE, z->s), sum[3];
    int64_t query[MAX_BLOCKS + 1], key[MAX_BLOCKS + 1];
    make_whole(z, all);
    cut_at_random("query", seed, z->s, query);
    cut_at_random("key", seed, z->s, key);
    for (int i = DQ; i <= DV; i++) {
        sum[i - DQ] = array(z, (enum operand)i, z->s);
        memset(sum[i - DQ].data, 0, (size_t)count(&sum[i - DQ]) * 8);
    }
    for (int i = 0; i < MAX_BLOCKS; i++) {
        struct hsp_array part[2];
        merge_blocks(z, all, query[i], query[i + 1], key, seed * 8 + (uint64_t)i, &part[0],
                     &part[1]);
        copy_range(&o, &part[0], query[i], true);
        copy_range(&lse, &part[1], query[i], true);
        drop(part, 2);
        add_gradients(z, all, query[i], query[i + 1], key, sum);
    }
    compare(&all[O], &o, "o");
    compare(&all[LSE], &lse, "lse");
    compare(&all[DQ], &sum[0], "dq");
    compare(&all[DK], &sum[1], "dk");
    compare(&all[DV], &sum[2], "dv");
    free(o.data);
    free(lse.data);
    drop(sum, 3);
    drop(all, N_OPERANDS);
}

void block_suite_whole(const struct block_suite *s)
{
    suite = s;
    for (uint64_t seed = 0; seed < s->n; seed++) {
        struct sizes z = {.b = 2,
                          .s = hsp_test_range("s", seed, 1, 40),
                          .h = hsp_test_range("h", seed, 1, 3),
                          .group = hsp_test_range("group", seed, 1, 3),
                          .d = hsp_test_range("d", seed, 1, s->max_d),
                          .causal = seed % 3 != 0,
                          .packed = seed % 3 == 2};
        z.d = (z.d + s->unit_d - 1) / s->unit_d * s->unit_d;
        check_blocks(&z, seed);
    }
    for (int i = 0; i < 3 && s->long_s > 0; i++) { /* more than one tile of queries */
        struct sizes z = {
            .b = 1, .s = s->long_s, .h = 1, .group = 2, .d = s->unit_d * 16, .causal = i > 0};
        z.d = z.d > s->max_d ? s->max_d : z.d;
        z.packed = i == 2;
        check_blocks(&z, 100 + (uint64_t)i);
    }
}

void block_suite_nothing(const struct block_suite *s)
{
    suite = s;
    struct sizes z = {.b = 1, .s = 9, .h = 2, .group = 2, .d = 8, .causal = true};
    struct hsp_array all[N_OPERANDS], x[N_OPERANDS], none[2] = {array(&z, O, 9), array(&z, LSE, 9)};
    make_whole(&z, all);
    memcpy(x, all, sizeof x);
    x[O] = none[0];
    x[LSE] = none[1];
    forward(&z, x, 0, 100); /* all keys come after all queries */
    for (int64_t i = 0; i < count(&none[0]); i++) {
        assert_true(vals(&none[0])[i] == 0);
    }
    for (int64_t i = 0; i < count(&none[1]); i++) {
        assert_true(vals(&none[1])[i] == (double)-INFINITY);
    }
    struct hsp_array out[2] = {array(&z, O, 9), array(&z, LSE, 9)};
    for (int k = 0; k < 3; k++) {
        struct hsp_array *first = k == 0 ? &all[O] : none, *second = k == 1 ? &all[O] : none;
        struct hsp_array in[] = {first[0], first[1], second[0], second[1]};
        run(HSP_OP_ATTENTION_MERGE, &z, in, out, 0, 0);
        for (int i = 0; i < 2; i++) {
            struct hsp_array *want = k == 0 ? &first[i] : &second[i];
            assert_memory_equal(out[i].data, want->data, (size_t)count(want) * 8);
        }
    }
    x[O] = all[O];
    x[LSE] = all[LSE];
    backward(&z, x, 0, 100);
    for (int i = DQ; i <= DV; i++) {
        for (int64_t k = 0; k < count(&x[i]); k++) {
            assert_true(vals(&x[i])[k] == 0);
        }
    }
    drop(out, 2);
    drop(none, 2);
    drop(all, N_OPERANDS);
}
