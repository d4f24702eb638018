#include "tests/lib/naive_ops.h"

#include <math.h>

#include "proto/base/rng.h"
#include "proto/op/bf16.h"
#include "tests/lib/testlib.h"

int64_t hsp_naive_count(const struct hsp_array *a)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return n;
}

double hsp_naive_get(const struct hsp_array *a, int64_t i)
{
    switch (a->dtype) {
    case HSP_F32: return (double)((const float *)a->data)[i];
    case HSP_F64: return ((const double *)a->data)[i];
    case HSP_I32: return (double)((const int32_t *)a->data)[i];
    case HSP_BF16: return (double)hsp_bf16_float(((const uint16_t *)a->data)[i]);
    }
    return 0;
}

void hsp_naive_put(const struct hsp_array *a, int64_t i, double v)
{
    if (a->data == NULL) {
        return;
    }
    switch (a->dtype) {
    case HSP_F32: ((float *)a->data)[i] = (float)v; break;
    case HSP_F64: ((double *)a->data)[i] = v; break;
    case HSP_I32: ((int32_t *)a->data)[i] = (int32_t)v; break;
    case HSP_BF16: ((uint16_t *)a->data)[i] = hsp_bf16_of((float)v); break;
    }
}

/* Row-major [i][j] of a matrix with rows of length n, [i][j][k] of n x m rows. */
static double at2(const struct hsp_array *a, int64_t n, int64_t i, int64_t j)
{
    return hsp_naive_get(a, i * n + j);
}

static void add_to(const struct hsp_array *a, int64_t i, double v)
{
    if (a->data != NULL) {
        hsp_naive_put(a, i, hsp_naive_get(a, i) + v);
    }
}

static void clear(const struct hsp_array *a)
{
    for (int64_t i = 0; i < hsp_naive_count(a); i++) {
        hsp_naive_put(a, i, 0);
    }
}

static void same_extents(const struct hsp_array *a, const struct hsp_array *b)
{
    assert_int_equal(a->rank, b->rank);
    for (uint8_t d = 0; d < a->rank; d++) {
        assert_int_equal(a->ext[d], b->ext[d]);
    }
}

/* @r rows (batch x sequence) of operand @a. */
static int64_t rows_of(const struct hsp_array *a)
{
    return a->ext[0] * a->ext[1];
}

static void linear(const struct hsp_call *c)
{
    const struct hsp_array *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
    int64_t n = w->ext[0], k = w->ext[1];
    assert_int_equal(x->ext[2], k);
    assert_int_equal(y->ext[2], n);
    for (int64_t r = 0; r < rows_of(x); r++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++) {
                sum += at2(x, k, r, i) * at2(w, k, j, i);
            }
            hsp_naive_put(y, r * n + j, sum);
        }
    }
}

static void linear_dx(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *w = &c->in[1], *dx = &c->out[0];
    int64_t n = w->ext[0], k = w->ext[1];
    assert_int_equal(dy->ext[2], n);
    assert_int_equal(dx->ext[2], k);
    for (int64_t r = 0; r < rows_of(dy); r++) {
        for (int64_t i = 0; i < k; i++) {
            double sum = 0;
            for (int64_t j = 0; j < n; j++) {
                sum += at2(dy, n, r, j) * at2(w, k, j, i);
            }
            hsp_naive_put(dx, r * k + i, sum);
        }
    }
}

static void linear_dw(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *x = &c->in[1], *dw = &c->out[0];
    int64_t n = dw->ext[0], k = dw->ext[1];
    assert_int_equal(dy->ext[2], n);
    assert_int_equal(x->ext[2], k);
    assert_int_equal(rows_of(dy), rows_of(x));
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < k; i++) {
            double sum = 0;
            for (int64_t r = 0; r < rows_of(dy); r++) {
                sum += at2(dy, n, r, j) * at2(x, k, r, i);
            }
            hsp_naive_put(dw, j * k + i, sum);
        }
    }
}

static void bias_add(const struct hsp_call *c)
{
    same_extents(&c->in[0], &c->out[0]);
    int64_t n = c->in[1].ext[0];
    assert_int_equal(c->in[0].ext[2], n);
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        hsp_naive_put(&c->out[0], i, hsp_naive_get(&c->in[0], i) + hsp_naive_get(&c->in[1], i % n));
    }
}

static void bias_db(const struct hsp_call *c)
{
    int64_t n = c->out[0].ext[0];
    assert_int_equal(c->in[0].ext[2], n);
    clear(&c->out[0]);
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        add_to(&c->out[0], i % n, hsp_naive_get(&c->in[0], i));
    }
}

static void embed(const struct hsp_call *c)
{
    const struct hsp_array *ids = &c->in[0], *table = &c->in[1], *y = &c->out[0];
    int64_t v = table->ext[0], e = table->ext[1];
    assert_int_equal(y->ext[2], e);
    for (int64_t r = 0; r < rows_of(ids); r++) {
        int64_t id = (int64_t)hsp_naive_get(ids, r) - c->origin[0];
        for (int64_t i = 0; i < e; i++) {
            hsp_naive_put(y, r * e + i, id >= 0 && id < v ? at2(table, e, id, i) : 0);
        }
    }
}

static void embed_dw(const struct hsp_call *c)
{
    const struct hsp_array *ids = &c->in[0], *dy = &c->in[1], *dw = &c->out[0];
    int64_t v = dw->ext[0], e = dw->ext[1];
    assert_int_equal(dy->ext[2], e);
    clear(dw);
    for (int64_t r = 0; r < rows_of(ids); r++) {
        int64_t id = (int64_t)hsp_naive_get(ids, r) - c->origin[0];
        for (int64_t i = 0; i < e && id >= 0 && id < v; i++) {
            add_to(dw, id * e + i, at2(dy, e, r, i));
        }
    }
}

static void add(const struct hsp_call *c)
{
    same_extents(&c->in[0], &c->in[1]);
    same_extents(&c->in[0], &c->out[0]);
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        hsp_naive_put(&c->out[0], i, hsp_naive_get(&c->in[0], i) + hsp_naive_get(&c->in[1], i));
    }
}

static void layernorm(const struct hsp_call *c)
{
    const struct hsp_array *x = &c->in[0];
    int64_t e = x->ext[2];
    for (int64_t r = 0; r < rows_of(x); r++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < e; i++) {
            mean += at2(x, e, r, i) / (double)e;
        }
        for (int64_t i = 0; i < e; i++) {
            var += pow(at2(x, e, r, i) - mean, 2) / (double)e;
        }
        double rstd = 1 / sqrt(var + c->at->f[0]);
        for (int64_t i = 0; i < e; i++) {
            double xhat = (at2(x, e, r, i) - mean) * rstd;
            hsp_naive_put(&c->out[0], r * e + i,
                          xhat * hsp_naive_get(&c->in[1], i) + hsp_naive_get(&c->in[2], i));
        }
        hsp_naive_put(&c->out[1], r, mean);
        hsp_naive_put(&c->out[2], r, rstd);
    }
}

static void layernorm_dx(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *x = &c->in[1], *gamma = &c->in[2];
    int64_t e = x->ext[2];
    for (int64_t r = 0; r < rows_of(x); r++) {
        double mean = hsp_naive_get(&c->in[3], r), rstd = hsp_naive_get(&c->in[4], r);
        double sum = 0, dot = 0;
        for (int64_t i = 0; i < e; i++) {
            double d = at2(dy, e, r, i) * hsp_naive_get(gamma, i);
            sum += d / (double)e;
            dot += d * (at2(x, e, r, i) - mean) * rstd / (double)e;
        }
        for (int64_t i = 0; i < e; i++) {
            double d = at2(dy, e, r, i) * hsp_naive_get(gamma, i);
            double xhat = (at2(x, e, r, i) - mean) * rstd;
            hsp_naive_put(&c->out[0], r * e + i, rstd * (d - sum - xhat * dot));
        }
    }
}

static void layernorm_dw(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *x = &c->in[1];
    int64_t e = x->ext[2];
    clear(&c->out[0]);
    clear(&c->out[1]);
    for (int64_t r = 0; r < rows_of(x); r++) {
        double mean = hsp_naive_get(&c->in[2], r), rstd = hsp_naive_get(&c->in[3], r);
        for (int64_t i = 0; i < e; i++) {
            add_to(&c->out[0], i, at2(dy, e, r, i) * (at2(x, e, r, i) - mean) * rstd);
            add_to(&c->out[1], i, at2(dy, e, r, i));
        }
    }
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * sqrt(0.5));
}

static void gelu(const struct hsp_call *c)
{
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        double x = hsp_naive_get(&c->in[0], i);
        hsp_naive_put(&c->out[0], i, x * normal_cdf(x));
    }
}

static void gelu_dx(const struct hsp_call *c)
{
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        double x = hsp_naive_get(&c->in[1], i);
        double density = exp(-x * x / 2) / sqrt(2 * acos(-1.0));
        hsp_naive_put(&c->out[0], i, hsp_naive_get(&c->in[0], i) * (normal_cdf(x) + x * density));
    }
}

static void rmsnorm(const struct hsp_call *c)
{
    const struct hsp_array *x = &c->in[0];
    int64_t e = x->ext[2];
    for (int64_t r = 0; r < rows_of(x); r++) {
        double square = 0;
        for (int64_t i = 0; i < e; i++) {
            square += pow(at2(x, e, r, i), 2) / (double)e;
        }
        double rstd = 1 / sqrt(square + c->at->f[0]);
        for (int64_t i = 0; i < e; i++) {
            hsp_naive_put(&c->out[0], r * e + i,
                          at2(x, e, r, i) * rstd * hsp_naive_get(&c->in[1], i));
        }
        hsp_naive_put(&c->out[1], r, rstd);
    }
}

static void rmsnorm_dx(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *x = &c->in[1], *gamma = &c->in[2];
    int64_t e = x->ext[2];
    for (int64_t r = 0; r < rows_of(x); r++) {
        double rstd = hsp_naive_get(&c->in[3], r), dot = 0;
        for (int64_t i = 0; i < e; i++) {
            dot += at2(dy, e, r, i) * hsp_naive_get(gamma, i) * at2(x, e, r, i) / (double)e;
        }
        for (int64_t i = 0; i < e; i++) {
            double d = at2(dy, e, r, i) * hsp_naive_get(gamma, i);
            hsp_naive_put(&c->out[0], r * e + i, rstd * d - pow(rstd, 3) * at2(x, e, r, i) * dot);
        }
    }
}

static void rmsnorm_dw(const struct hsp_call *c)
{
    const struct hsp_array *dy = &c->in[0], *x = &c->in[1];
    int64_t e = x->ext[2];
    clear(&c->out[0]);
    for (int64_t r = 0; r < rows_of(x); r++) {
        for (int64_t i = 0; i < e; i++) {
            add_to(&c->out[0], i, at2(dy, e, r, i) * at2(x, e, r, i) * hsp_naive_get(&c->in[2], r));
        }
    }
}

/* Pair i of a head is a complex number, turned by position * theta^(-2 i / d); _dx turns it
 * back. */
static void rope(const struct hsp_call *c)
{
    const struct hsp_array *x = &c->in[1];
    int64_t d = c->at->i[0], n = x->ext[2];
    assert_int_equal(rows_of(&c->in[0]), rows_of(x));
    assert_int_equal(n % d, 0);
    for (int64_t k = 0; k < hsp_naive_count(x); k++) {
        int64_t i = k % d, half = d / 2, other = i < half ? k + half : k - half;
        double angle = hsp_naive_get(&c->in[0], k / n) *
                       exp(-2 * (double)(i % half) / (double)d * log(c->at->f[0]));
        double side = (i < half ? -1 : 1) * (c->op == HSP_OP_ROPE ? 1 : -1);
        hsp_naive_put(&c->out[0], k,
                      hsp_naive_get(x, k) * cos(angle) +
                          side * hsp_naive_get(x, other) * sin(angle));
    }
}

static void dropout(const struct hsp_call *c)
{
    const struct hsp_array *x = &c->in[1];
    int64_t s = x->ext[1], n = x->ext[2];
    uint64_t name = (uint64_t)c->at->i[1];
    assert_int_equal(c->in[0].ext[1], 2);
    for (int64_t i = 0; i < hsp_naive_count(x); i++) {
        int64_t row = i / n, e = i % n + c->origin[1];
        double k0 = hsp_naive_get(&c->in[0], row / s * 2), y = hsp_naive_get(x, i);
        if (k0 >= 0) {
            uint32_t ctr[4] = {(uint32_t)(e / 4), (uint32_t)(row % s + c->origin[0]), (uint32_t)k0,
                               (uint32_t)(int32_t)hsp_naive_get(&c->in[0], row / s * 2 + 1)};
            uint32_t key[2] = {(uint32_t)name, (uint32_t)(name >> 32)}, word[4];
            hsp_philox(ctr, key, word);
            y = (double)word[e % 4] < (double)(uint32_t)(c->at->f[0] * 0x1p32)
                    ? 0
                    : y / (1 - c->at->f[0]);
        }
        hsp_naive_put(&c->out[0], i, y);
    }
}

static void swiglu(const struct hsp_call *c)
{
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        double gate = hsp_naive_get(&c->in[0], i);
        hsp_naive_put(&c->out[0], i, gate / (1 + exp(-gate)) * hsp_naive_get(&c->in[1], i));
    }
}

static void swiglu_dx(const struct hsp_call *c)
{
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        double dy = hsp_naive_get(&c->in[0], i), gate = hsp_naive_get(&c->in[1], i);
        double s = 1 / (1 + exp(-gate));
        hsp_naive_put(&c->out[0], i, dy * hsp_naive_get(&c->in[2], i) * (s + gate * s * (1 - s)));
        hsp_naive_put(&c->out[1], i, dy * gate * s);
    }
}

/* Coordinates of attention: one query of one head, and its keys. */
struct head {
    const struct hsp_call *c;
    int64_t b, s, h;          /* batch, query, head */
    int64_t S, T, H, D, keys; /* extents, head dim, visible keys */
    int64_t group;            /* query heads for each key head */
    int64_t first;            /* visible key before which none is; both counted from k's first */
};

static int64_t query_at(const struct head *p, int64_t i)
{
    return ((p->b * p->S + p->s) * p->H + p->h) * p->D + i;
}

static int64_t key_at(const struct head *p, int64_t t, int64_t i)
{
    return ((p->b * p->T + t) * (p->H / p->group) + p->h / p->group) * p->D + i;
}

static double score(const struct head *p, const struct hsp_array *q, const struct hsp_array *k,
                    int64_t t)
{
    double sum = 0;
    for (int64_t i = 0; i < p->D; i++) {
        sum += hsp_naive_get(q, query_at(p, i)) * hsp_naive_get(k, key_at(p, t, i));
    }
    return sum * p->c->at->f[0];
}

/* @starts: first visible key of each query; NULL: 0. */
static void for_each_head(const struct hsp_call *c, const struct hsp_array *q,
                          const struct hsp_array *k, const struct hsp_array *starts,
                          void (*fn)(const struct head *))
{
    struct head p = {
        .c = c, .S = q->ext[1], .T = k->ext[1], .D = c->at->i[0], .group = c->at->i[2]};
    assert_int_equal(q->ext[2] % p.D, 0);
    assert_int_equal(q->ext[2], k->ext[2] * p.group);
    p.H = q->ext[2] / p.D;
    for (p.b = 0; p.b < q->ext[0]; p.b++) {
        for (p.s = 0; p.s < p.S; p.s++) {
            for (p.h = 0; p.h < p.H; p.h++) {
                int64_t causal = c->origin[0] + p.s + 1 - c->origin[1];
                p.keys = c->at->i[1] != 0 && causal < p.T ? causal : p.T;
                p.first = starts ? (int64_t)hsp_naive_get(starts, p.b * p.S + p.s) : 0;
                p.first = p.first < c->origin[1] ? 0 : p.first - c->origin[1];
                fn(&p);
            }
        }
    }
}

static void attention_head(const struct head *p)
{
    const struct hsp_array *q = &p->c->in[0], *k = &p->c->in[1], *v = &p->c->in[2];
    double top = -HUGE_VAL, sum = 0;
    for (int64_t t = p->first; t < p->keys; t++) {
        top = fmax(top, score(p, q, k, t));
    }
    for (int64_t t = p->first; t < p->keys; t++) {
        sum += exp(score(p, q, k, t) - top);
    }
    double lse = top + log(sum);
    for (int64_t i = 0; i < p->D; i++) {
        double o = 0;
        for (int64_t t = p->first; t < p->keys; t++) {
            o += exp(score(p, q, k, t) - lse) * hsp_naive_get(v, key_at(p, t, i));
        }
        hsp_naive_put(&p->c->out[0], query_at(p, i), o);
    }
    hsp_naive_put(&p->c->out[1], (p->b * p->S + p->s) * p->H + p->h, lse);
}

static void attention_bwd_head(const struct head *p)
{
    const struct hsp_array *in = p->c->in, *d_o = &in[0], *q = &in[1], *k = &in[2], *v = &in[3],
                           *o = &in[4], *out = p->c->out;
    double lse = hsp_naive_get(&in[5], (p->b * p->S + p->s) * p->H + p->h), dot = 0;
    for (int64_t i = 0; i < p->D; i++) {
        dot += hsp_naive_get(d_o, query_at(p, i)) * hsp_naive_get(o, query_at(p, i));
    }
    for (int64_t t = p->first; t < p->keys; t++) {
        double prob = exp(score(p, q, k, t) - lse), dp = 0;
        for (int64_t i = 0; i < p->D; i++) {
            dp += hsp_naive_get(d_o, query_at(p, i)) * hsp_naive_get(v, key_at(p, t, i));
        }
        double ds = prob * (dp - dot) * p->c->at->f[0];
        for (int64_t i = 0; i < p->D; i++) {
            add_to(&out[0], query_at(p, i), ds * hsp_naive_get(k, key_at(p, t, i)));
            add_to(&out[1], key_at(p, t, i), ds * hsp_naive_get(q, query_at(p, i)));
            add_to(&out[2], key_at(p, t, i), prob * hsp_naive_get(d_o, query_at(p, i)));
        }
    }
}

static void attention(const struct hsp_call *c)
{
    const struct hsp_array *starts = c->op == HSP_OP_PACKED_ATTENTION ? &c->in[3] : NULL;
    for_each_head(c, &c->in[0], &c->in[1], starts, attention_head);
}

static void attention_bwd(const struct hsp_call *c)
{
    for (int i = 0; i < 3; i++) {
        clear(&c->out[i]);
    }
    const struct hsp_array *starts = c->op == HSP_OP_PACKED_ATTENTION_BWD ? &c->in[6] : NULL;
    for_each_head(c, &c->in[1], &c->in[2], starts, attention_bwd_head);
}

/* Softmax over the union of two sets of keys: each set counts as much as its sum of e^score. */
static void attention_merge(const struct hsp_call *c)
{
    int64_t d = c->at->i[0];
    for (int64_t r = 0; r < hsp_naive_count(&c->in[1]); r++) {
        double l1 = hsp_naive_get(&c->in[1], r), l2 = hsp_naive_get(&c->in[3], r);
        double top = fmax(l1, l2), lse = top + log(exp(l1 - top) + exp(l2 - top));
        bool none = top == -HUGE_VAL;
        hsp_naive_put(&c->out[1], r, none ? top : lse);
        for (int64_t i = r * d; i < (r + 1) * d; i++) {
            double o = exp(l1 - lse) * hsp_naive_get(&c->in[0], i) +
                       exp(l2 - lse) * hsp_naive_get(&c->in[2], i);
            hsp_naive_put(&c->out[0], i, none ? 0 : o);
        }
    }
}

static void xent(const struct hsp_call *c)
{
    const struct hsp_array *logits = &c->in[0];
    int64_t v = logits->ext[2];
    for (int64_t r = 0; r < rows_of(logits); r++) {
        double top = -HUGE_VAL, sum = 0;
        int64_t label = (int64_t)hsp_naive_get(&c->in[1], r);
        assert_true(label < v);
        for (int64_t i = 0; i < v; i++) {
            top = fmax(top, at2(logits, v, r, i));
        }
        for (int64_t i = 0; i < v; i++) {
            sum += exp(at2(logits, v, r, i) - top);
        }
        double lse = top + log(sum);
        hsp_naive_put(&c->out[0], r, label >= 0 ? lse - at2(logits, v, r, label) : 0);
        hsp_naive_put(&c->out[1], r, lse);
    }
}

static void xent_dx(const struct hsp_call *c)
{
    const struct hsp_array *logits = &c->in[1];
    int64_t v = logits->ext[2];
    for (int64_t r = 0; r < rows_of(logits); r++) {
        double dloss = hsp_naive_get(&c->in[0], r), lse = hsp_naive_get(&c->in[3], r);
        int64_t label = (int64_t)hsp_naive_get(&c->in[2], r);
        for (int64_t i = 0; i < v; i++) {
            double p = exp(at2(logits, v, r, i) - lse);
            hsp_naive_put(&c->out[0], r * v + i, label >= 0 ? dloss * (p - (i == label)) : 0);
        }
    }
}

/* Log-sum-exp of runs of @n values. */
static void lse_rows(const struct hsp_call *c, int64_t n)
{
    for (int64_t r = 0; r < hsp_naive_count(&c->out[0]); r++) {
        double top = -HUGE_VAL, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            top = fmax(top, at2(&c->in[0], n, r, i));
        }
        for (int64_t i = 0; i < n; i++) {
            sum += exp(at2(&c->in[0], n, r, i) - top);
        }
        hsp_naive_put(&c->out[0], r, top + log(sum));
    }
}

/* A label outside of the slice counts elsewhere. */
static void xent_part(const struct hsp_call *c)
{
    int64_t v = c->in[0].ext[2];
    for (int64_t r = 0; r < rows_of(&c->in[0]); r++) {
        int64_t label = (int64_t)hsp_naive_get(&c->in[1], r), at = label - c->origin[0];
        bool here = label >= 0 && at >= 0 && at < v;
        hsp_naive_put(&c->out[0], r,
                      here ? hsp_naive_get(&c->in[2], r) - at2(&c->in[0], v, r, at) : 0);
    }
}

static void xent_part_dx(const struct hsp_call *c)
{
    int64_t v = c->in[1].ext[2];
    for (int64_t r = 0; r < rows_of(&c->in[1]); r++) {
        double dloss = hsp_naive_get(&c->in[0], r), lse = hsp_naive_get(&c->in[3], r);
        int64_t label = (int64_t)hsp_naive_get(&c->in[2], r);
        for (int64_t i = 0; i < v; i++) {
            double p = exp(at2(&c->in[1], v, r, i) - lse) - (i + c->origin[0] == label);
            hsp_naive_put(&c->out[0], r * v + i, label >= 0 ? dloss * p : 0);
        }
    }
}

static void reduce(const struct hsp_call *c)
{
    double sum = 0;
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        double x = hsp_naive_get(&c->in[0], i);
        sum += c->op == HSP_OP_SUM ? x : c->op == HSP_OP_SQSUM ? x * x : (x >= 0);
    }
    hsp_naive_put(&c->out[0], 0, sum);
}

static void broadcast(const struct hsp_call *c)
{
    same_extents(&c->in[1], &c->out[0]);
    for (int64_t i = 0; i < hsp_naive_count(&c->out[0]); i++) {
        hsp_naive_put(&c->out[0], i, hsp_naive_get(&c->in[0], 0));
    }
}

/* Flatten and unflatten keep the row-major order. Of an empty o (extent 0) the sum is 0. */
static void reshape(const struct hsp_call *c)
{
    int64_t n = hsp_naive_count(&c->in[0]);
    clear(&c->out[0]);
    if (c->op == HSP_OP_FLATTEN && c->out[0].ext[1] == 0) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        hsp_naive_put(&c->out[0], i, hsp_naive_get(&c->in[0], i));
    }
}

/* AdamW (Loshchilov and Hutter, 2019, algorithm 2), decay decoupled from the gradient. */
static void adamw(const struct hsp_call *c)
{
    const double *f = c->at->f;
    const struct hsp_update_scalars *u = c->update;
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        double p = hsp_naive_get(&c->in[0], i), g = hsp_naive_get(&c->in[3], i) * u->grad_scale;
        double m = f[0] * hsp_naive_get(&c->in[1], i) + (1 - f[0]) * g;
        double v = f[1] * hsp_naive_get(&c->in[2], i) + (1 - f[1]) * g * g;
        double step = m / u->bias1 / (sqrt(v / u->bias2) + f[2]) + f[3] * p;
        hsp_naive_put(&c->out[0], i, p - u->lr * step);
        hsp_naive_put(&c->out[1], i, m);
        hsp_naive_put(&c->out[2], i, v);
    }
}

/* SGD with momentum as torch.optim.SGD: decay enters the gradient, no dampening. */
static void sgdm(const struct hsp_call *c)
{
    const double *f = c->at->f;
    for (int64_t i = 0; i < hsp_naive_count(&c->in[0]); i++) {
        double p = hsp_naive_get(&c->in[0], i);
        double g = hsp_naive_get(&c->in[2], i) * c->update->grad_scale + f[1] * p;
        double m = f[0] * hsp_naive_get(&c->in[1], i) + g;
        hsp_naive_put(&c->out[0], i, p - c->update->lr * m);
        hsp_naive_put(&c->out[1], i, m);
    }
}

void hsp_naive_op(const struct hsp_call *c)
{
    assert_int_equal(c->n_in, hsp_op_n_in(c->op));
    assert_int_equal(c->n_out, hsp_op_n_out(c->op));
    switch (c->op) {
    case HSP_OP_LINEAR: linear(c); break;
    case HSP_OP_LINEAR_DX: linear_dx(c); break;
    case HSP_OP_LINEAR_DW: linear_dw(c); break;
    case HSP_OP_BIAS_ADD: bias_add(c); break;
    case HSP_OP_BIAS_DB: bias_db(c); break;
    case HSP_OP_EMBED: embed(c); break;
    case HSP_OP_EMBED_DW: embed_dw(c); break;
    case HSP_OP_ADD: add(c); break;
    case HSP_OP_LAYERNORM: layernorm(c); break;
    case HSP_OP_LAYERNORM_DX: layernorm_dx(c); break;
    case HSP_OP_LAYERNORM_DW: layernorm_dw(c); break;
    case HSP_OP_RMSNORM: rmsnorm(c); break;
    case HSP_OP_RMSNORM_DX: rmsnorm_dx(c); break;
    case HSP_OP_RMSNORM_DW: rmsnorm_dw(c); break;
    case HSP_OP_ROPE:
    case HSP_OP_ROPE_DX: rope(c); break;
    case HSP_OP_DROPOUT: dropout(c); break;
    case HSP_OP_SWIGLU: swiglu(c); break;
    case HSP_OP_SWIGLU_DX: swiglu_dx(c); break;
    case HSP_OP_GELU: gelu(c); break;
    case HSP_OP_GELU_DX: gelu_dx(c); break;
    case HSP_OP_ATTENTION:
    case HSP_OP_PACKED_ATTENTION: attention(c); break;
    case HSP_OP_ATTENTION_BWD:
    case HSP_OP_PACKED_ATTENTION_BWD: attention_bwd(c); break;
    case HSP_OP_ATTENTION_MERGE: attention_merge(c); break;
    case HSP_OP_XENT: xent(c); break;
    case HSP_OP_XENT_DX: xent_dx(c); break;
    case HSP_OP_LSE_PARTS: lse_rows(c, c->at->i[0]); break;
    case HSP_OP_LSE_MERGE: lse_rows(c, c->in[0].ext[2]); break;
    case HSP_OP_XENT_PART: xent_part(c); break;
    case HSP_OP_XENT_PART_DX: xent_part_dx(c); break;
    case HSP_OP_SUM:
    case HSP_OP_COUNT:
    case HSP_OP_SQSUM: reduce(c); break;
    case HSP_OP_BROADCAST: broadcast(c); break;
    case HSP_OP_NARROW:
    case HSP_OP_WIDEN: /* storing rounds */
    case HSP_OP_FLATTEN:
    case HSP_OP_UNFLATTEN: reshape(c); break;
    case HSP_OP_ADAMW: adamw(c); break;
    case HSP_OP_SGDM: sgdm(c); break;
    }
}
