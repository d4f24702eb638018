/* Computes the backward pass of a norm in one kernel: the gradient of the norm in x, its sum with
 * the gradient of the residual branch, and the sums over rows that read both (the gradients of the
 * norm's weights, and of the bias of the layer before). Separate kernels would make three to four
 * passes over the same rows.
 *
 * G threads share a row, as in norm.cu. A thread has the same K groups of N columns in every row,
 * so that it keeps their sums in registers. Blocks write their sums, and a second kernel adds these
 * up (range_sum.cuh). The number of rows of each block depends on the shape alone. */
#include "worker/backend/cuda/block_sum.cuh"
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/range_sum.cuh"

template <class T> struct chain_args {
    int64_t rows, e;
    const T *dy, *x, *gamma, *other; /* other may be NULL */
    const hsp_wide<T> *mean, *rstd;
    T *y;              /* dx + other */
    hsp_wide<T> *part; /* [sums][blocks][e] */
};

/* The number of sums: of dy xhat; of dy (LayerNorm); of y (BIAS). */
template <bool RMS, bool BIAS> constexpr int chain_sums = (RMS ? 1 : 2) + (BIAS ? 1 : 0);

/* The part of a row that a thread has. */
template <class T, int N, int K> struct chain_row {
    uint4 x[K], dy[K], other[K];
    bool has[K];
};

template <class T, int N, int G, int K>
static __device__ __forceinline__ void chain_read(const chain_args<T> &a, int64_t r,
                                                  chain_row<T, N, K> *ret)
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        int64_t at = ((int64_t)threadIdx.x % G + (int64_t)k * G) * N;
        ret->has[k] = at < a.e;
        if (ret->has[k]) {
            ret->x[k] = *(const uint4 *)(a.x + r * a.e + at);
            ret->dy[k] = *(const uint4 *)(a.dy + r * a.e + at);
            if (a.other != nullptr) {
                ret->other[k] = *(const uint4 *)(a.other + r * a.e + at);
            }
        }
    }
}

/* Writes the thread's part of row @r of y, and adds its terms to the sums. */
template <class T, int N, int G, int K, bool RMS, bool BIAS>
static __device__ __forceinline__ void chain_one(const chain_args<T> &a, int64_t r,
                                                 hsp_wide<T> (&acc)[chain_sums<RMS, BIAS>][K][N])
{
    typedef hsp_wide<T> W;
    constexpr int M = RMS ? 1 : 2;
    chain_row<T, N, K> row;
    chain_read<T, N, G, K>(a, r, &row);
    W rstd = a.rstd[r], mean = RMS ? (W)0 : a.mean[r], sum[M] = {}; /* the sums of w xhat; of w */
    W x[N], w[N], gamma[N];
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (row.has[k]) {
            hsp_load<N>((const T *)&row.x[k], x);
            hsp_load<N>((const T *)&row.dy[k], w);
            hsp_load<N>(a.gamma + ((int64_t)threadIdx.x % G + (int64_t)k * G) * N, gamma);
#pragma unroll
            for (int j = 0; j < N; j++) {
                W xhat = (x[j] - mean) * rstd;
                acc[0][k][j] += w[j] * xhat;
                if (!RMS) {
                    acc[1][k][j] += w[j];
                    sum[M - 1] += w[j] * gamma[j];
                }
                sum[0] += w[j] * gamma[j] * xhat;
            }
        }
    }
    hsp_group_sum<G, M>(sum);
    W mwx = sum[0] / (W)a.e, mw = RMS ? (W)0 : sum[M - 1] / (W)a.e;
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (row.has[k]) {
            int64_t at = ((int64_t)threadIdx.x % G + (int64_t)k * G) * N;
            W other[N] = {};
            hsp_load<N>((const T *)&row.x[k], x);
            hsp_load<N>((const T *)&row.dy[k], w);
            hsp_load<N>(a.gamma + at, gamma);
            if (a.other != nullptr) {
                hsp_load<N>((const T *)&row.other[k], other);
            }
#pragma unroll
            for (int j = 0; j < N; j++) {
                T rounded;
                W dx = rstd * (w[j] * gamma[j] - mw - (x[j] - mean) * rstd * mwx);
                hsp_narrow(dx + other[j], &rounded);
                w[j] = hsp_widen(rounded);
                if (BIAS) {
                    acc[M][k][j] += w[j];
                }
            }
            hsp_store<N>(a.y + r * a.e + at, w);
        }
    }
}

template <int G> constexpr int chain_threads = G > 128 ? G : 128;

template <class T, int N, int G, int K, bool RMS, bool BIAS>
__global__ void __launch_bounds__(chain_threads<G>) chain_kernel(chain_args<T> a)
{
    typedef hsp_wide<T> W;
    constexpr int ROWS = chain_threads<G> / G, S = chain_sums<RMS, BIAS>;
    __shared__ W down[ROWS][G * N];
    int group = (int)threadIdx.x / G, lane = (int)threadIdx.x % G;
    W acc[S][K][N] = {};
    for (int64_t r = (int64_t)blockIdx.x * ROWS + group; r < a.rows;
         r += (int64_t)gridDim.x * ROWS) {
        chain_one<T, N, G, K, RMS, BIAS>(a, r, acc);
    }
#pragma unroll
    for (int s = 0; s < S; s++) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            __syncthreads();
#pragma unroll
            for (int j = 0; j < N; j++) {
                down[group][lane * N + j] = acc[s][k][j];
            }
            __syncthreads();
            for (int j = (int)threadIdx.x; j < G * N; j += chain_threads<G>) {
                int64_t at = (int64_t)k * G * N + j;
                W sum = down[0][j];
                for (int i = 1; i < ROWS; i++) {
                    sum += down[i][j];
                }
                if (at < a.e) {
                    a.part[((int64_t)s * gridDim.x + blockIdx.x) * a.e + at] = sum;
                }
            }
        }
    }
}

/* The calls of a chain by their op; NULL: the chain has no such call. */
struct chain_calls {
    const struct hsp_call *dx, *add, *dw, *db;
};

template <class T, int G, int K, bool RMS, bool BIAS>
static enum hsp_status chain_start(struct hsp_cuda *g, enum hsp_devq q, chain_args<T> a,
                                   const chain_calls &c, struct hsp_err *err)
{
    typedef hsp_wide<T> W;
    constexpr int N = hsp_vec<T>, ROWS = chain_threads<G> / G, S = chain_sums<RMS, BIAS>;
    int64_t blocks = a.rows / (ROWS * 4), most = G == 32 ? 396 : G == 128 ? 528 : 264;
    blocks = blocks < 1 ? 1 : blocks < most ? blocks : most;
    void *part;
    enum hsp_status st = hsp_cuda_scratch(g, q, (size_t)(S * blocks * a.e) * sizeof(W), &part, err);
    if (st != HSP_OK) {
        return st;
    }
    a.part = (W *)part;
    HSP_LAUNCH((chain_kernel<T, N, G, K, RMS, BIAS>), (unsigned)blocks, chain_threads<G>, 0,
               g->stream[q], a);
    hsp_range_sums<W, W> sums = {
        a.part, {(W *)c.dw->out[0].data, nullptr, nullptr}, a.e, (int)blocks, c.dw->adds};
    if (!RMS) {
        sums.out[1] = (W *)c.dw->out[1].data;
    }
    if (BIAS) {
        sums.out[S - 1] = (W *)c.db->out[0].data;
        sums.adds |= (unsigned)c.db->adds << (S - 1);
    }
    hsp_range_sum(g, q, sums, S);
    return HSP_OK;
}

template <class T, bool RMS, bool BIAS>
static enum hsp_status chain_size(struct hsp_cuda *g, enum hsp_devq q, const chain_args<T> &a,
                                  const chain_calls &c, bool *ret_done, struct hsp_err *err)
{
    int64_t groups = a.e / hsp_vec<T>;
    *ret_done = true;
    if (groups <= 32 * 3) {
        return chain_start<T, 32, 3, RMS, BIAS>(g, q, a, c, err);
    } else if (groups <= 128 * 2) {
        return chain_start<T, 128, 2, RMS, BIAS>(g, q, a, c, err);
    } else if (groups <= 256 * 4) {
        return chain_start<T, 256, 4, RMS, BIAS>(g, q, a, c, err);
    }
    *ret_done = false; /* the row is too long: the caller runs the calls one by one */
    return HSP_OK;
}

template <class T>
static enum hsp_status chain(struct hsp_cuda *g, enum hsp_devq q, const chain_calls &c,
                             bool *ret_done, struct hsp_err *err)
{
    const struct hsp_array *in = c.dx->in;
    bool rms = c.dx->op == HSP_OP_RMSNORM_DX;
    chain_args<T> a = {};
    a.rows = in[1].ext[0] * in[1].ext[1];
    a.e = in[1].ext[2];
    a.dy = (const T *)in[0].data;
    a.x = (const T *)in[1].data;
    a.gamma = (const T *)in[2].data;
    a.mean = rms ? nullptr : (const hsp_wide<T> *)in[3].data;
    a.rstd = (const hsp_wide<T> *)in[rms ? 3 : 4].data;
    a.y = (T *)c.dx->out[0].data;
    if (c.add != nullptr) {
        bool first = c.add->in[0].data == c.dx->out[0].data;
        a.other = (const T *)c.add->in[first ? 1 : 0].data;
        a.y = (T *)c.add->out[0].data;
    }
    bool aligned = a.e % hsp_vec<T> == 0 && hsp_aligned(a.dy) && hsp_aligned(a.x) &&
                   hsp_aligned(a.gamma) && hsp_aligned(a.other) && hsp_aligned(a.y);
    if (!aligned || (rms && c.db != nullptr)) {
        return HSP_OK;
    }
    return rms               ? chain_size<T, true, false>(g, q, a, c, ret_done, err)
           : c.db != nullptr ? chain_size<T, false, true>(g, q, a, c, ret_done, err)
                             : chain_size<T, false, false>(g, q, a, c, ret_done, err);
}

enum hsp_status hsp_cuda_norm_chain(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    uint32_t n, bool *ret_done, struct hsp_err *err)
{
    chain_calls x = {};
    for (uint32_t k = 0; k < n; k++) {
        *(k == 0                      ? &x.dx
          : c[k].op == HSP_OP_ADD     ? &x.add
          : c[k].op == HSP_OP_BIAS_DB ? &x.db
                                      : &x.dw) = &c[k];
    }
    *ret_done = false;
    if (x.dw == nullptr) {
        return HSP_OK;
    }
    return c->in[0].dtype == HSP_BF16  ? chain<hsp_bf16>(g, q, x, ret_done, err)
           : c->in[0].dtype == HSP_F32 ? chain<float>(g, q, x, ret_done, err)
                                       : HSP_OK;
}
