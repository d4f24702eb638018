/* Runs the attention ops of the catalogue: reads and checks a call, and launches the kernels that
 * fit it. */
#include "worker/backend/cuda/attention.cuh"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/products.h"

#define ATT_MAX_ROWS (1 << 30) /* positions, and sums of two positions, are ints */

static int att_int(int64_t x)
{
    return att_clamp(x, -ATT_MAX_ROWS, ATT_MAX_ROWS);
}

/* Reads the parts of a call that all attention ops have in common. */
static enum hsp_status att_read(const struct hsp_call *c, const struct hsp_array *q,
                                const struct hsp_array *k, struct att *a, struct hsp_err *err)
{
    int64_t d = c->at->i[0], group = c->at->i[2];
    if (d < 1 || group < 1 || q->ext[2] != k->ext[2] * group || k->ext[2] % d != 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s: %lld features are not heads of %lld",
                           hsp_op_name(c->op), (long long)q->ext[2], (long long)d);
    }
    if (d > ATT_MAX_D) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s: heads of %lld elements, above %d",
                           hsp_op_name(c->op), (long long)d, ATT_MAX_D);
    }
    int64_t h = q->ext[2] / d, rows = q->ext[1] > k->ext[1] ? q->ext[1] : k->ext[1];
    /* a block computes at least 16 rows of a head, or half of them; a warp one row of delta */
    double blocks = ((double)rows + 64) / 8 * (double)h * (double)q->ext[0];
    if (rows > ATT_MAX_ROWS || q->ext[2] > ATT_MAX_ROWS || blocks > 2e9) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%s: %lld sequences of %lld rows of %lld heads",
                           hsp_op_name(c->op), (long long)q->ext[0], (long long)rows, (long long)h);
    }
    a->b = (int)q->ext[0];
    a->s = (int)q->ext[1];
    a->t = (int)k->ext[1];
    a->h = (int)h;
    a->group = (int)group;
    a->d = (int)d;
    a->key_heads = (int)(h / group);
    a->stride_q = q->ext[2];
    a->stride_k = k->ext[2];
    a->first_key = c->origin[1];
    a->shift = att_int(c->origin[0] - c->origin[1]);
    a->causal = c->at->i[1] != 0;
    a->scale64 = c->at->f[0];
    a->scale = (float)c->at->f[0];
    return HSP_OK;
}

/* Returns whether the kernels for tensor cores can run the call: they copy 16 bytes at a time. */
static bool att_fits_flash(const struct hsp_cuda *g, enum hsp_dtype t, const struct att *a)
{
    bool aligned = hsp_aligned(a->q) && hsp_aligned(a->k) && hsp_aligned(a->v) &&
                   hsp_aligned(a->o) && hsp_aligned(a->dout) && hsp_aligned(a->out) &&
                   hsp_aligned(a->dq) && hsp_aligned(a->dk) && hsp_aligned(a->dv);
    return t == HSP_BF16 && g->sm >= 80 && a->d % 8 == 0 && a->scale > 0 && aligned;
}

enum hsp_status hsp_cuda_attention(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    struct att a = {};
    a.q = c->in[0].data;
    a.k = c->in[1].data;
    a.v = c->in[2].data;
    a.starts = c->op == HSP_OP_PACKED_ATTENTION ? (const int32_t *)c->in[3].data : NULL;
    a.out = c->out[0].data;
    a.out_lse = c->out[1].data;
    enum hsp_status st = att_read(c, &c->in[0], &c->in[1], &a, err);
    if (st != HSP_OK || a.b == 0 || a.s == 0 || a.h == 0) {
        return st;
    }
    enum hsp_dtype t = c->in[0].dtype;
    return att_fits_flash(g, t, &a) ? att_flash_forward(g, q, &a, err)
                                    : att_plain_forward(g, q, t, &a, err);
}

enum hsp_status hsp_cuda_attention_bwd(struct hsp_cuda *g, enum hsp_devq q,
                                       const struct hsp_call *c, struct hsp_err *err)
{
    struct att a = {};
    a.dout = c->in[0].data;
    a.q = c->in[1].data;
    a.k = c->in[2].data;
    a.v = c->in[3].data;
    a.o = c->in[4].data;
    a.lse = c->in[5].data;
    a.starts = c->op == HSP_OP_PACKED_ATTENTION_BWD ? (const int32_t *)c->in[6].data : NULL;
    a.dq = c->out[0].data;
    a.dk = c->out[1].data;
    a.dv = c->out[2].data;
    enum hsp_status st = att_read(c, &c->in[1], &c->in[2], &a, err);
    if (st != HSP_OK || a.b == 0 || a.h == 0) {
        return st;
    }
    enum hsp_dtype t = c->in[0].dtype;
    return att_fits_flash(g, t, &a) ? att_flash_backward(g, q, &a, err)
                                    : att_plain_backward(g, q, t, &a, err);
}

/* ---- two blocks of keys ---- */

/* Merges the results of two blocks of keys: o = (e^l1 o1 + e^l2 o2) / (e^l1 + e^l2), computed
 * relative to the larger lse. If both lse are -inf, both weights are 0. Elements i .. i + N - 1 lie
 * in one head. */
template <class T> struct att_merge {
    typedef hsp_wide<T> W;
    const T *o1, *o2;
    const W *l1, *l2;
    T *o;
    W *lse;
    int64_t d;

    template <int N> __device__ void run(int64_t i) const
    {
        int64_t row = i / d;
        W a = l1[row], b = l2[row], top = a > b ? a : b, x[N], y[N];
        bool none = top == (W)-INFINITY;
        W w1 = none ? (W)0 : hsp_exp<W>(a - top), w2 = none ? (W)0 : hsp_exp<W>(b - top);
        W total = w1 + w2;
        w1 = none ? (W)0 : w1 / total;
        w2 = none ? (W)0 : w2 / total;
        hsp_load<N>(o1 + i, x);
        hsp_load<N>(o2 + i, y);
#pragma unroll
        for (int k = 0; k < N; k++) {
            x[k] = w1 * x[k] + w2 * y[k];
        }
        hsp_store<N>(o + i, x);
        if (i % d == 0) {
            lse[row] = none ? top : top + log(total);
        }
    }
};

enum hsp_status hsp_cuda_attention_merge(struct hsp_cuda *g, enum hsp_devq q,
                                         const struct hsp_call *c, struct hsp_err *err)
{
    const struct hsp_array *in = c->in, *out = c->out;
    int64_t d = c->at->i[0], n = hsp_cuda_count(&in[0]);
    if (d < 1 || n != hsp_cuda_count(&in[1]) * d) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%s: %lld features are not heads of %lld",
                           hsp_op_name(c->op), (long long)in[0].ext[2], (long long)d);
    }
    if (n == 0) {
        return HSP_OK;
    }
    HSP_FOR_REAL(in[0].dtype, T, {
        typedef hsp_wide<T> W;
        constexpr int N = hsp_vec<T>;
        att_merge<T> m = {(const T *)in[0].data,
                          (const T *)in[2].data,
                          (const W *)in[1].data,
                          (const W *)in[3].data,
                          (T *)out[0].data,
                          (W *)out[1].data,
                          d};
        bool aligned = hsp_aligned(m.o1) && hsp_aligned(m.o2) && hsp_aligned(m.o);
        hsp_map<N>(g, q, m, n, d % N == 0 && aligned);
        return HSP_OK;
    });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s of %s", hsp_op_name(c->op),
                       hsp_dtype_name(in[0].dtype));
}
