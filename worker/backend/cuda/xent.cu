/* Computes softmax cross-entropy over a row of classes, or over a part of the classes, and its
 * gradient.
 *
 * A block (or a warp, for short rows) reads a row once. Each thread keeps the largest value m that
 * it has seen and the sum s of e^(x - m) (Milakov and Gimelshein, Online normalizer calculation for
 * softmax, 2018); the pairs (m, s) of threads are merged in one order. Rows need not be aligned:
 * elements before an aligned address are read one by one. */
#include "worker/backend/cuda/block_sum.cuh"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

/* Runs op.run<N>(i) for the groups of N aligned elements of a row, and op.run<1>(i) for the
 * elements before and after them, with G threads. */
template <class T, int G, class Op>
static __device__ __forceinline__ void row_walk(const T *row, int64_t n, Op &op)
{
    constexpr int N = hsp_vec<T>;
    int lane = (int)threadIdx.x % G;
    int64_t head = (int64_t)((16 - (uintptr_t)row % 16) % 16 / sizeof(T));
    head = head < n ? head : n;
    int64_t body = (n - head) / N;
    if (lane < head) {
        op.template run<1>(lane);
    }
    for (int64_t i = lane; i < body; i += G) {
        op.template run<N>(head + i * N);
    }
    int64_t tail = head + body * N + lane;
    if (tail < n) {
        op.template run<1>(tail);
    }
}

template <class W> static __device__ __forceinline__ W above(W m)
{
    return m == (W)-INFINITY ? (W)0 : m; /* if all elements are -inf: avoids inf - inf */
}

template <class T> struct online_sum {
    typedef hsp_wide<T> W;
    const T *x;
    W m = (W)-INFINITY, s = 0;
    template <int N> __device__ void run(int64_t i)
    {
        W v[N], top = m;
        hsp_load<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            top = v[j] > top ? v[j] : top;
        }
        W base = above(top);
        s *= hsp_exp<T>(m - base);
#pragma unroll
        for (int j = 0; j < N; j++) {
            s += hsp_exp<T>(v[j] - base);
        }
        m = top;
    }
    __device__ void merge(W m2, W s2)
    {
        W top = m2 > m ? m2 : m, base = above(top);
        s = s * hsp_exp<T>(m - base) + s2 * hsp_exp<T>(m2 - base);
        m = top;
    }
};

/* Returns the log of the sum of e^x over a row, in each of the G threads that read the row. */
template <class T, int G>
static __device__ __forceinline__ hsp_wide<T> row_lse(const T *x, int64_t n)
{
    typedef hsp_wide<T> W;
    online_sum<T> a;
    a.x = x;
    row_walk<T, G>(x, n, a);
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
        W m = __shfl_xor_sync(0xffffffffU, a.m, d), s = __shfl_xor_sync(0xffffffffU, a.s, d);
        a.merge(m, s);
    }
    if constexpr (G > 32) {
        __shared__ W part[2][G / 32];
        __syncthreads();
        if (threadIdx.x % 32 == 0) {
            part[0][threadIdx.x / 32] = a.m;
            part[1][threadIdx.x / 32] = a.s;
        }
        __syncthreads();
        a.m = part[0][0];
        a.s = part[1][0];
        for (int i = 1; i < G / 32; i++) {
            a.merge(part[0][i], part[1][i]);
        }
    }
    return a.m + log(a.s);
}

/* The arguments. R is the type of the log-sum-exps. */
template <class T, class R> struct xent_args {
    const T *x;
    const int32_t *label; /* NULL: only the log-sum-exp is computed */
    hsp_wide<T> *loss;
    R *lse;
    int64_t rows, v;
};

/* Computes loss and lse of rows; a row has G threads, a block 256. */
template <class T, class R, int G>
__global__ void __launch_bounds__(256) xent_kernel(xent_args<T, R> a)
{
    typedef hsp_wide<T> W;
    constexpr int ROWS = 256 / G;
    for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.x / G; r < a.rows;
         r += (int64_t)gridDim.x * ROWS) {
        const T *x = a.x + r * a.v;
        W lse = row_lse<T, G>(x, a.v);
        if (threadIdx.x % G == 0) {
            hsp_narrow(lse, a.lse + r);
            if (a.label != nullptr) {
                int64_t label = a.label[r];
                a.loss[r] = label < 0 ? (W)0 : label < a.v ? lse - hsp_widen(x[label]) : (W)NAN;
            }
        }
    }
}

#define LONG 2048 /* rows with more classes take a block, others a warp, which needs no barriers */

template <class T, class R>
static void lse_rows(struct hsp_cuda *g, enum hsp_devq q, const xent_args<T, R> &a)
{
    if (a.v > LONG) {
        HSP_LAUNCH((xent_kernel<T, R, 256>), hsp_grid(g, a.rows, 1), 256, 0, g->stream[q], a);
    } else {
        HSP_LAUNCH((xent_kernel<T, R, 32>), hsp_grid(g, a.rows, 8), 256, 0, g->stream[q], a);
    }
}

enum hsp_status hsp_cuda_xent(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                              struct hsp_err *err)
{
    (void)err;
    const struct hsp_array *x = &c->in[0];
    HSP_FOR_REAL(x->dtype, T, {
        typedef hsp_wide<T> W;
        xent_args<T, W> a = {(const T *)x->data,    (const int32_t *)c->in[1].data,
                             (W *)c->out[0].data,   (W *)c->out[1].data,
                             x->ext[0] * x->ext[1], x->ext[2]};
        lse_rows(g, q, a);
    });
    return HSP_OK;
}

template <class T, class R>
static void lse_only(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c)
{
    int64_t n = c->op == HSP_OP_LSE_PARTS ? c->at->i[0] : c->in[0].ext[2];
    xent_args<T, R> a = {(const T *)c->in[0].data,   nullptr, nullptr, (R *)c->out[0].data,
                         hsp_cuda_count(&c->out[0]), n};
    lse_rows(g, q, a);
}

enum hsp_status hsp_cuda_lse(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                             struct hsp_err *err)
{
    (void)err;
    if (c->out[0].dtype == HSP_BF16) {
        lse_only<hsp_bf16, hsp_bf16>(g, q, c);
    } else {
        HSP_FOR_REAL(c->in[0].dtype, T, lse_only<T, hsp_wide<T>>(g, q, c););
    }
    return HSP_OK;
}

/* ---- gradients ---- */

template <class T> struct xent_dx_args {
    const hsp_wide<T> *dloss, *lse;
    const T *x;
    const int32_t *label;
    T *dx;
    int64_t rows, v, origin; /* origin: the first class of the part */
};

/* Computes dloss (softmax - onehot(label)). */
template <class T> struct xent_dx_row {
    const T *x;
    T *dx;
    hsp_wide<T> dloss, lse;
    /* the column of the label; outside of the row if the label is not in this part */
    int64_t label;
    template <int N> __device__ void run(int64_t i) const
    {
        hsp_wide<T> v[N];
        hsp_load<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            v[j] = dloss * (hsp_exp<T>(v[j] - lse) - (i + j == label ? 1 : 0));
        }
        hsp_store<N>(dx + i, v);
    }
};

template <class T> struct zero_row {
    T *dx;
    template <int N> __device__ void run(int64_t i) const
    {
        const hsp_wide<T> v[N] = {};
        hsp_store<N>(dx + i, v);
    }
};

template <class T> __global__ void __launch_bounds__(256) xent_dx_kernel(xent_dx_args<T> a)
{
    for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
        int64_t label = a.label[r];
        T *dx = a.dx + r * a.v;
        if (label < 0) { /* the row has no label: the gradient is zero for any logits */
            zero_row<T> op = {dx};
            row_walk<T, 256>(dx, a.v, op);
        } else {
            xent_dx_row<T> op = {a.x + r * a.v, dx, a.dloss[r], a.lse[r], label - a.origin};
            row_walk<T, 256>(op.x, a.v, op);
        }
    }
}

/* Runs xent_dx and xent_part_dx; in a part, columns count from its origin. */
enum hsp_status hsp_cuda_xent_dx(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    const struct hsp_array *x = &c->in[1];
    if (((uintptr_t)x->data - (uintptr_t)c->out[0].data) % 16 != 0) {
        return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s: operands are not aligned alike",
                           hsp_op_name(c->op));
    }
    HSP_FOR_REAL(x->dtype, T, {
        typedef hsp_wide<T> W;
        xent_dx_args<T> a = {(const W *)c->in[0].data,
                             (const W *)c->in[3].data,
                             (const T *)x->data,
                             (const int32_t *)c->in[2].data,
                             (T *)c->out[0].data,
                             x->ext[0] * x->ext[1],
                             x->ext[2],
                             c->op == HSP_OP_XENT_PART_DX ? c->origin[0] : 0};
        HSP_LAUNCH((xent_dx_kernel<T>), hsp_grid(g, a.rows, 1), 256, 0, g->stream[q], a);
    });
    return HSP_OK;
}

/* ---- the loss of a part ---- */

template <class T> struct xent_part_op {
    const T *x;
    const int32_t *label;
    const hsp_wide<T> *lse;
    hsp_wide<T> *loss;
    int64_t v, origin, all;
    template <int N> __device__ void run(int64_t r) const
    {
        static_assert(N == 1, "one row at a time");
        int64_t l = label[r], at = l - origin;
        bool here = l >= 0 && at >= 0 && at < v;
        hsp_wide<T> y = here ? lse[r] - hsp_widen(x[r * v + at]) : 0;
        loss[r] = l >= all ? (hsp_wide<T>)NAN : y;
    }
};

enum hsp_status hsp_cuda_xent_part(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    (void)err;
    const struct hsp_array *x = &c->in[0];
    HSP_FOR_REAL(x->dtype, T, {
        typedef hsp_wide<T> W;
        xent_part_op<T> op = {(const T *)x->data,
                              (const int32_t *)c->in[1].data,
                              (const W *)c->in[2].data,
                              (W *)c->out[0].data,
                              x->ext[2],
                              c->origin[0],
                              c->at->i[0]};
        hsp_map<1>(g, q, op, x->ext[0] * x->ext[1], true);
    });
    return HSP_OK;
}
