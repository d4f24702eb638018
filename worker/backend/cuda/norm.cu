/* Computes LayerNorm (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019) over the last dim, and
 * their gradients with respect to x.
 *
 * G threads share a row: a warp, or a block of 128 or 256 threads. A thread keeps the first KEEP
 * groups of 16 bytes that it reads in registers, as they are in memory. It reads further groups, in
 * longer rows, again in each pass. Rows that are not aligned are read element by element, again in
 * each pass. */
#include "worker/backend/cuda/block_sum.cuh"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

template <class T> struct norm_rows {
    int64_t rows, e;
    const T *x, *gamma, *beta, *dy;
    T *y; /* y, or dx */
    hsp_wide<T> *mean, *rstd;
    double eps;
};

#define KEEP 4

/* Runs @f(at, k) for this thread's groups of a row. at is the first element of a group; k is the
 * place of the group among those that are kept, or -1. */
template <int N, int G, class F>
static __device__ __forceinline__ void norm_walk(int64_t e, const F &f)
{
    constexpr int kept = N > 1 ? KEEP : 0;
    int lane = (int)threadIdx.x % G;
    int64_t groups = e / N;
#pragma unroll
    for (int k = 0; k < kept; k++) {
        int64_t i = lane + (int64_t)k * G;
        if (i < groups) {
            f(i * N, k);
        }
    }
    for (int64_t i = lane + (int64_t)kept * G; i < groups; i += G) {
        f(i * N, -1);
    }
}

/* Returns elements of a row, from registers if they were kept, else from memory. */
template <class T, int N> struct norm_kept {
    uint4 raw[KEEP];
    __device__ __forceinline__ void read(const T *p, int k, hsp_wide<T> (&r)[N])
    {
        if (N > 1 && k >= 0) {
            HSP_ALIGNED(p, 16);
            raw[k] = *(const uint4 *)p;
            hsp_load<N>((const T *)&raw[k], r);
        } else {
            hsp_load<N>(p, r);
        }
    }
    __device__ __forceinline__ void again(const T *p, int k, hsp_wide<T> (&r)[N]) const
    {
        hsp_load<N>(N > 1 && k >= 0 ? (const T *)&raw[k] : p, r);
    }
};

template <int G> constexpr int norm_threads = G > 128 ? G : 128;

template <class T, int N, int G, bool RMS>
__global__ void __launch_bounds__(norm_threads<G>) norm_kernel(norm_rows<T> a)
{
    typedef hsp_wide<T> W;
    constexpr int ROWS = norm_threads<G> / G;
    for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.x / G; r < a.rows;
         r += (int64_t)gridDim.x * ROWS) {
        const T *x = a.x + r * a.e;
        norm_kept<T, N> kept;
        W sum[1] = {0}, mean = 0;
        norm_walk<N, G>(a.e, [&](int64_t at, int k) {
            W v[N];
            kept.read(x + at, k, v);
#pragma unroll
            for (int j = 0; j < N; j++) {
                sum[0] += RMS ? v[j] * v[j] : v[j];
            }
        });
        hsp_group_sum<G, 1>(sum);
        if (!RMS) {
            mean = sum[0] / (W)a.e;
            sum[0] = 0;
            norm_walk<N, G>(a.e, [&](int64_t at, int k) {
                W v[N];
                kept.again(x + at, k, v);
#pragma unroll
                for (int j = 0; j < N; j++) {
                    sum[0] += (v[j] - mean) * (v[j] - mean);
                }
            });
            hsp_group_sum<G, 1>(sum);
        }
        W rstd = 1 / sqrt(sum[0] / (W)a.e + (W)a.eps);
        norm_walk<N, G>(a.e, [&](int64_t at, int k) {
            W v[N], gamma[N], beta[N];
            kept.again(x + at, k, v);
            hsp_load<N>(a.gamma + at, gamma);
            if (!RMS) {
                hsp_load<N>(a.beta + at, beta);
            }
#pragma unroll
            for (int j = 0; j < N; j++) {
                W y = (v[j] - mean) * rstd * gamma[j];
                v[j] = RMS ? y : y + beta[j];
            }
            hsp_store<N>(a.y + r * a.e + at, v);
        });
        if (threadIdx.x % G == 0) {
            a.rstd[r] = rstd;
            if (!RMS) {
                a.mean[r] = mean;
            }
        }
    }
}

/* dx = rstd (w - mean(w) - xhat mean(w xhat)), w = dy gamma, xhat = (x - mean) rstd. RMSNorm has
 * neither the mean of x nor that of w. */
template <class T, int N, int G, bool RMS>
__global__ void __launch_bounds__(norm_threads<G>) norm_dx_kernel(norm_rows<T> a)
{
    typedef hsp_wide<T> W;
    constexpr int ROWS = norm_threads<G> / G, K = RMS ? 1 : 2;
    for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.x / G; r < a.rows;
         r += (int64_t)gridDim.x * ROWS) {
        const T *x = a.x + r * a.e, *dy = a.dy + r * a.e;
        norm_kept<T, N> kept_x, kept_dy;
        /* the sums of w xhat; of w */
        W rstd = a.rstd[r], mean = RMS ? (W)0 : a.mean[r], sum[K] = {};
        norm_walk<N, G>(a.e, [&](int64_t at, int k) {
            W v[N], w[N], gamma[N];
            kept_x.read(x + at, k, v);
            kept_dy.read(dy + at, k, w);
            hsp_load<N>(a.gamma + at, gamma);
#pragma unroll
            for (int j = 0; j < N; j++) {
                w[j] *= gamma[j];
                sum[0] += w[j] * ((v[j] - mean) * rstd);
                if (!RMS) {
                    sum[K - 1] += w[j];
                }
            }
        });
        hsp_group_sum<G, K>(sum);
        W mwx = sum[0] / (W)a.e, mw = RMS ? (W)0 : sum[K - 1] / (W)a.e;
        norm_walk<N, G>(a.e, [&](int64_t at, int k) {
            W v[N], w[N], gamma[N];
            kept_x.again(x + at, k, v);
            kept_dy.again(dy + at, k, w);
            hsp_load<N>(a.gamma + at, gamma);
#pragma unroll
            for (int j = 0; j < N; j++) {
                w[j] = rstd * (w[j] * gamma[j] - mw - (v[j] - mean) * rstd * mwx);
            }
            hsp_store<N>(a.y + r * a.e + at, w);
        });
    }
}

template <class T, int N, int G, bool RMS>
static void launch(struct hsp_cuda *g, enum hsp_devq q, const norm_rows<T> &a, bool dx)
{
    constexpr int threads = norm_threads<G>;
    unsigned grid = hsp_grid(g, a.rows, threads / G);
    if (dx) {
        HSP_LAUNCH((norm_dx_kernel<T, N, G, RMS>), grid, threads, 0, g->stream[q], a);
    } else {
        HSP_LAUNCH((norm_kernel<T, N, G, RMS>), grid, threads, 0, g->stream[q], a);
    }
}

template <class T, bool RMS>
static void norm(struct hsp_cuda *g, enum hsp_devq q, const norm_rows<T> &a, bool dx)
{
    constexpr int N = hsp_vec<T>;
    bool aligned = a.e % N == 0 && hsp_aligned(a.x) && hsp_aligned(a.y) && hsp_aligned(a.gamma) &&
                   (RMS || dx || hsp_aligned(a.beta)) && (!dx || hsp_aligned(a.dy));
    if constexpr (sizeof(T) < 8) { /* fp64 serves for comparisons: one kernel will do */
        int64_t groups = a.e / N;
        if (aligned && groups <= 32 * KEEP) {
            return launch<T, N, 32, RMS>(g, q, a, dx);
        } else if (aligned && groups <= 128 * KEEP) {
            return launch<T, N, 128, RMS>(g, q, a, dx);
        } else if (aligned) {
            return launch<T, N, 256, RMS>(g, q, a, dx);
        }
    }
    launch<T, 1, 128, RMS>(g, q, a, dx);
}

#define IN(i)   ((const T *)c->in[i].data)
#define OUT(i)  ((T *)c->out[i].data)
#define STAT(a) ((hsp_wide<T> *)(a).data)

enum hsp_status hsp_cuda_layernorm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                   struct hsp_err *err)
{
    (void)err;
    int64_t e = c->in[0].ext[2], rows = c->in[0].ext[0] * c->in[0].ext[1];
    HSP_FOR_REAL(c->in[0].dtype, T, {
        norm_rows<T> a = {rows,    e,      IN(0),           IN(1),           IN(2),
                          nullptr, OUT(0), STAT(c->out[1]), STAT(c->out[2]), c->at->f[0]};
        norm<T, false>(g, q, a, false);
    });
    return HSP_OK;
}

enum hsp_status hsp_cuda_layernorm_dx(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                      struct hsp_err *err)
{
    (void)err;
    int64_t e = c->in[0].ext[2], rows = c->in[0].ext[0] * c->in[0].ext[1];
    HSP_FOR_REAL(c->in[0].dtype, T, {
        norm_rows<T> a = {rows,  e,      IN(1),          IN(2),          nullptr,
                          IN(0), OUT(0), STAT(c->in[3]), STAT(c->in[4]), 0};
        norm<T, false>(g, q, a, true);
    });
    return HSP_OK;
}

enum hsp_status hsp_cuda_rmsnorm(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    (void)err;
    int64_t e = c->in[0].ext[2], rows = c->in[0].ext[0] * c->in[0].ext[1];
    HSP_FOR_REAL(c->in[0].dtype, T, {
        norm_rows<T> a = {rows,    e,      IN(0),   IN(1),           nullptr,
                          nullptr, OUT(0), nullptr, STAT(c->out[1]), c->at->f[0]};
        norm<T, true>(g, q, a, false);
    });
    return HSP_OK;
}

enum hsp_status hsp_cuda_rmsnorm_dx(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    struct hsp_err *err)
{
    (void)err;
    int64_t e = c->in[0].ext[2], rows = c->in[0].ext[0] * c->in[0].ext[1];
    HSP_FOR_REAL(c->in[0].dtype, T, {
        norm_rows<T> a = {rows,  e,      IN(1),   IN(2),          nullptr,
                          IN(0), OUT(0), nullptr, STAT(c->in[3]), 0};
        norm<T, true>(g, q, a, true);
    });
    return HSP_OK;
}
