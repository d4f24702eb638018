/* Sums over rows, for the gradients of biases and of the weights of norms. Also computes the
 * gradient of GELU together with the sums over its rows.
 *
 * A block sums 32 groups of N columns over a range of rows, with eight rows of threads; a second
 * kernel adds up the ranges (range_sum.cuh). A thread sums RUN of its rows in the wide type, and
 * these sums in fp64. Ranges depend on the shape alone. */
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/kernels.h"
#include "worker/backend/cuda/range_sum.cuh"

#define ACROSS 32 /* threads of a block along the columns */
#define DOWN   8  /* threads of a block along the rows */
#define RUN    8

template <class T> struct colsum_args {
    int64_t rows, n;
    const T *dy, *x = nullptr;
    const hsp_wide<T> *mean = nullptr, *rstd = nullptr;
    T *dx = nullptr;        /* the output of COLSUM_GELU */
    int64_t per = 0;        /* rows of one range */
    double *part = nullptr; /* [sums][ranges][n] */
};

/* The sums that a kernel makes: of dy; of dy xhat (RMSNorm); of dy xhat and of dy (LayerNorm); of
 * the gradient of GELU, which it also writes. */
enum colsum_kind { COLSUM_PLAIN, COLSUM_RMS, COLSUM_LAYER, COLSUM_GELU };

template <class T, int N, colsum_kind KIND, int K>
static __device__ __forceinline__ void colsum_row(const colsum_args<T> &a, int64_t r, int64_t col,
                                                  hsp_wide<T> (&acc)[K][N])
{
    typedef hsp_wide<T> W;
    W dy[N], x[N];
    hsp_load<N>(a.dy + r * a.n + col, dy);
    if (KIND == COLSUM_GELU) {
        hsp_load<N>(a.x + r * a.n + col, x);
#pragma unroll
        for (int j = 0; j < N; j++) {
            T rounded;
            hsp_narrow(dy[j] * hsp_gelu_slope<T>(x[j]), &rounded);
            dy[j] = hsp_widen(rounded);
        }
        hsp_store<N>(a.dx + r * a.n + col, dy);
    } else if (KIND != COLSUM_PLAIN) {
        hsp_load<N>(a.x + r * a.n + col, x);
        W mean = KIND == COLSUM_LAYER ? a.mean[r] : (W)0, rstd = a.rstd[r];
#pragma unroll
        for (int j = 0; j < N; j++) {
            acc[0][j] += dy[j] * ((x[j] - mean) * rstd);
        }
    }
#pragma unroll
    for (int j = 0; KIND != COLSUM_RMS && j < N; j++) {
        acc[K - 1][j] += dy[j];
    }
}

template <class T, int N, colsum_kind KIND>
__global__ void __launch_bounds__(ACROSS *DOWN) colsum_kernel(colsum_args<T> a)
{
    constexpr int K = KIND == COLSUM_LAYER ? 2 : 1;
    __shared__ double down[DOWN][ACROSS * N];
    int64_t col = ((int64_t)blockIdx.x * ACROSS + threadIdx.x) * N;
    int64_t first = (int64_t)blockIdx.y * a.per;
    int64_t last = first + a.per < a.rows ? first + a.per : a.rows;
    double total[K][N] = {};
    for (int64_t r = first + threadIdx.y; col < a.n && r < last; r += DOWN * RUN) {
        hsp_wide<T> acc[K][N] = {};
#pragma unroll 4
        for (int i = 0; i < RUN; i++) {
            if (r + i * DOWN < last) {
                colsum_row<T, N, KIND, K>(a, r + i * DOWN, col, acc);
            }
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
#pragma unroll
            for (int j = 0; j < N; j++) {
                total[k][j] += (double)acc[k][j];
            }
        }
    }
    for (int k = 0; k < K; k++) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < N; j++) {
            down[threadIdx.y][threadIdx.x * N + j] = total[k][j];
        }
        __syncthreads();
        for (int j = (int)(threadIdx.y * ACROSS + threadIdx.x); j < ACROSS * N;
             j += ACROSS * DOWN) {
            int64_t at = (int64_t)blockIdx.x * ACROSS * N + j;
            double s = 0;
            for (int i = 0; i < DOWN; i++) {
                s += down[i][j];
            }
            if (at < a.n) {
                a.part[((int64_t)k * gridDim.y + blockIdx.y) * a.n + at] = s;
            }
        }
    }
}

template <class T, int N, colsum_kind KIND>
static enum hsp_status colsum(struct hsp_cuda *g, enum hsp_devq q, colsum_args<T> a,
                              const struct hsp_call *c, struct hsp_err *err)
{
    constexpr int K = KIND == COLSUM_LAYER ? 2 : 1;
    int64_t across = (a.n / N + ACROSS - 1) / ACROSS, ranges = 512 / across;
    int64_t most = a.rows / (DOWN * RUN);
    ranges = ranges > most ? most : ranges;
    ranges = ranges < 1 ? 1 : ranges;
    a.per = (a.rows + ranges - 1) / ranges;
    void *part;
    enum hsp_status st =
        hsp_cuda_scratch(g, q, (size_t)(K * ranges * a.n) * sizeof(double), &part, err);
    if (st != HSP_OK) {
        return st;
    }
    a.part = (double *)part;
    HSP_LAUNCH((colsum_kernel<T, N, KIND>), dim3((unsigned)across, (unsigned)ranges),
               dim3(ACROSS, DOWN), 0, g->stream[q], a);
    typedef hsp_wide<T> W;
    hsp_range_sum(g, q,
                  hsp_range_sums<double, W>{a.part,
                                            {(W *)c->out[0].data, (W *)c->out[K - 1].data, nullptr},
                                            a.n,
                                            (int)ranges,
                                            c->adds},
                  K);
    return HSP_OK;
}

template <colsum_kind KIND>
static enum hsp_status by_type(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                               struct hsp_err *err)
{
    const struct hsp_array *dy = &c->in[0];
    HSP_FOR_REAL(dy->dtype, T, {
        colsum_args<T> a = {dy->ext[0] * dy->ext[1], dy->ext[2], (const T *)dy->data};
        if (KIND != COLSUM_PLAIN) {
            a.x = (const T *)c->in[1].data;
            a.mean = (const hsp_wide<T> *)c->in[2].data;
            a.rstd = (const hsp_wide<T> *)c->in[KIND == COLSUM_LAYER ? 3 : 2].data;
        }
        if (a.n % hsp_vec<T> == 0 && hsp_aligned(a.dy) &&
            (KIND == COLSUM_PLAIN || hsp_aligned(a.x))) {
            return colsum<T, hsp_vec<T>, KIND>(g, q, a, c, err);
        }
        return colsum<T, 1, KIND>(g, q, a, c, err);
    });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "%s of %s", hsp_op_name(c->op),
                       hsp_dtype_name(dy->dtype));
}

enum hsp_status hsp_cuda_bias_db(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    return by_type<COLSUM_PLAIN>(g, q, c, err);
}

enum hsp_status hsp_cuda_layernorm_dw(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                      struct hsp_err *err)
{
    return by_type<COLSUM_LAYER>(g, q, c, err);
}

enum hsp_status hsp_cuda_rmsnorm_dw(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    struct hsp_err *err)
{
    return by_type<COLSUM_RMS>(g, q, c, err);
}

/* Computes dx of GELU, and the sums over its rows. */
enum hsp_status hsp_cuda_gelu_chain(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    bool *ret_done, struct hsp_err *err)
{
    const struct hsp_array *dy = &c[0].in[0];
    *ret_done = false;
    if (dy->rank != 3) {
        return HSP_OK;
    }
    HSP_FOR_REAL(dy->dtype, T, {
        constexpr int N = hsp_vec<T>;
        colsum_args<T> a = {dy->ext[0] * dy->ext[1], dy->ext[2], (const T *)dy->data,
                            (const T *)c[0].in[1].data};
        a.dx = (T *)c[0].out[0].data;
        *ret_done = a.n % N == 0 && hsp_aligned(a.dy) && hsp_aligned(a.x) && hsp_aligned(a.dx);
        return *ret_done ? colsum<T, N, COLSUM_GELU>(g, q, a, &c[1], err) : HSP_OK;
    });
    return HSP_OK;
}
