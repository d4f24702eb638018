/* LayerNorm (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019) over the last dim, and their
 * gradients in x.
 *
 * G threads share a row: a warp, or a block of 128 or 256. A thread keeps the first KEEP groups of
 * N elements it reads in registers and reads what is beyond, in rows longer than that, again. */
#include "worker/backend/cuda/blocksum.cuh"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

template <class T> struct norm_rows {
    int64_t rows, e;
    const T *x, *gamma, *beta, *dy;
    T *y; /* or dx */
    hsp_wide<T> *mean, *rstd;
    double eps;
};

/* KEEP groups of N, so that 32 registers or so hold them. */
template <int N> constexpr int norm_keep = N == 8 ? 4 : 8;

/* Runs @F(at, kept) for this thread's groups of a row: at, the first element of a group; kept, its
 * place in registers or -1. */
template <int N, int G, int KEEP, class F>
static __device__ __forceinline__ void norm_walk(int64_t e, const F &f)
{
    int lane = (int)threadIdx.x % G;
    int64_t groups = e / N;
#pragma unroll
    for (int k = 0; k < KEEP; k++) {
        int64_t i = lane + (int64_t)k * G;
        if (i < groups) {
            f(i * N, k);
        }
    }
    for (int64_t i = lane + (int64_t)KEEP * G; i < groups; i += G) {
        f(i * N, -1);
    }
}

template <class T, int N, int G, bool RMS>
__global__ void __launch_bounds__(G > 128 ? G : 128) norm_kernel(norm_rows<T> a)
{
    typedef hsp_wide<T> W;
    constexpr int KEEP = norm_keep<N>, ROWS = G > 128 ? 1 : 128 / G;
    W kept[KEEP][N];
    for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.x / G; r < a.rows;
         r += (int64_t)gridDim.x * ROWS) {
        const T *x = a.x + r * a.e;
        W mean[1] = {0}, var[1] = {0};
        norm_walk<N, G, KEEP>(a.e, [&](int64_t at, int k) {
            W v[N];
            hsp_load<N>(x + at, v);
#pragma unroll
            for (int j = 0; j < N; j++) {
                mean[0] += RMS ? v[j] * v[j] : v[j];
            }
#pragma unroll
            for (int j = 0; k >= 0 && j < N; j++) {
                kept[k < 0 ? 0 : k][j] = v[j];
            }
        });
        hsp_group_sum<G, 1>(mean);
        mean[0] /= (W)a.e;
        if (RMS) {
            var[0] = mean[0];
            mean[0] = 0;
        } else {
            norm_walk<N, G, KEEP>(a.e, [&](int64_t at, int k) {
                W v[N];
                if (k < 0) {
                    hsp_load<N>(x + at, v);
                }
#pragma unroll
                for (int j = 0; j < N; j++) {
                    W d = (k < 0 ? v[j] : kept[k < 0 ? 0 : k][j]) - mean[0];
                    var[0] += d * d;
                }
            });
            hsp_group_sum<G, 1>(var);
            var[0] /= (W)a.e;
        }
        W rstd = 1 / sqrt(var[0] + (W)a.eps);
        norm_walk<N, G, KEEP>(a.e, [&](int64_t at, int k) {
            W v[N], gamma[N], beta[N];
            if (k < 0) {
                hsp_load<N>(x + at, v);
            }
            hsp_load<N>(a.gamma + at, gamma);
            if (!RMS) {
                hsp_load<N>(a.beta + at, beta);
            }
#pragma unroll
            for (int j = 0; j < N; j++) {
                W xhat = ((k < 0 ? v[j] : kept[k < 0 ? 0 : k][j]) - mean[0]) * rstd;
                v[j] = RMS ? xhat * gamma[j] : xhat * gamma[j] + beta[j];
            }
            hsp_store<N>(a.y + r * a.e + at, v);
        });
        if (threadIdx.x % G == 0) {
            a.rstd[r] = rstd;
            if (!RMS) {
                a.mean[r] = mean[0];
            }
        }
    }
}

/* dx = rstd (w - mean(w) - xhat mean(w xhat)), w = dy gamma, xhat = (x - mean) rstd; RMSNorm has no
 * means of x and w. */
template <class T, int N, int G, bool RMS>
__global__ void __launch_bounds__(G > 128 ? G : 128) norm_dx_kernel(norm_rows<T> a)
{
    typedef hsp_wide<T> W;
    constexpr int KEEP = norm_keep<N>, ROWS = G > 128 ? 1 : 128 / G;
    W kept_w[KEEP][N], kept_x[KEEP][N];
    for (int64_t r = (int64_t)blockIdx.x * ROWS + threadIdx.x / G; r < a.rows;
         r += (int64_t)gridDim.x * ROWS) {
        const T *x = a.x + r * a.e, *dy = a.dy + r * a.e;
        W rstd = a.rstd[r], mean = RMS ? (W)0 : a.mean[r];
        auto load = [&](int64_t at, W(&w)[N], W(&xhat)[N]) {
            W gamma[N];
            hsp_load<N>(dy + at, w);
            hsp_load<N>(x + at, xhat);
            hsp_load<N>(a.gamma + at, gamma);
#pragma unroll
            for (int j = 0; j < N; j++) {
                w[j] *= gamma[j];
                xhat[j] = (xhat[j] - mean) * rstd;
            }
        };
        W sum[RMS ? 1 : 2] = {}; /* of w xhat; of w */
        norm_walk<N, G, KEEP>(a.e, [&](int64_t at, int k) {
            W w[N], xhat[N];
            load(at, w, xhat);
#pragma unroll
            for (int j = 0; j < N; j++) {
                sum[0] += w[j] * xhat[j];
                sum[RMS ? 0 : 1] += RMS ? (W)0 : w[j];
            }
#pragma unroll
            for (int j = 0; k >= 0 && j < N; j++) {
                kept_w[k < 0 ? 0 : k][j] = w[j];
                kept_x[k < 0 ? 0 : k][j] = xhat[j];
            }
        });
        hsp_group_sum<G, RMS ? 1 : 2>(sum);
        W mwx = sum[0] / (W)a.e, mw = RMS ? (W)0 : sum[RMS ? 0 : 1] / (W)a.e;
        norm_walk<N, G, KEEP>(a.e, [&](int64_t at, int k) {
            W w[N], xhat[N];
            if (k < 0) {
                load(at, w, xhat);
            }
#pragma unroll
            for (int j = 0; j < N; j++) {
                W wj = k < 0 ? w[j] : kept_w[k < 0 ? 0 : k][j];
                W xj = k < 0 ? xhat[j] : kept_x[k < 0 ? 0 : k][j];
                w[j] = rstd * (wj - mw - xj * mwx);
            }
            hsp_store<N>(a.y + r * a.e + at, w);
        });
    }
}

template <class T, int N, int G, bool RMS>
static void launch(struct hsp_cuda *g, enum hsp_devq q, const norm_rows<T> &a, bool dx)
{
    constexpr int threads = G > 128 ? G : 128;
    unsigned grid = hsp_grid(g, a.rows, threads / G);
    if (dx) {
        HSP_LAUNCH((norm_dx_kernel<T, N, G, RMS>), grid, threads, 0, g->stream[q], a);
    } else {
        HSP_LAUNCH((norm_kernel<T, N, G, RMS>), grid, threads, 0, g->stream[q], a);
    }
}

template <class T, int N, bool RMS>
static void by_length(struct hsp_cuda *g, enum hsp_devq q, const norm_rows<T> &a, bool dx)
{
    int64_t groups = a.e / N;
    constexpr int keep = norm_keep<N>;
    if (groups <= 32 * keep) {
        launch<T, N, 32, RMS>(g, q, a, dx);
    } else if (groups <= 128 * keep) {
        launch<T, N, 128, RMS>(g, q, a, dx);
    } else {
        launch<T, N, 256, RMS>(g, q, a, dx);
    }
}

template <class T, bool RMS>
static void norm(struct hsp_cuda *g, enum hsp_devq q, const norm_rows<T> &a, bool dx)
{
    bool aligned = a.e % hsp_vec<T> == 0 && hsp_aligned(a.x) && hsp_aligned(a.y) &&
                   hsp_aligned(a.gamma) && (RMS || dx || hsp_aligned(a.beta)) &&
                   (!dx || hsp_aligned(a.dy));
    if (aligned) {
        by_length<T, hsp_vec<T>, RMS>(g, q, a, dx);
    } else {
        by_length<T, 1, RMS>(g, q, a, dx);
    }
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
