/* Sums over all elements, into an fp64 scalar.
 *
 * Blocks sum pieces of the tensor, and a further block adds up their results. The number of pieces
 * depends on the number of elements alone. */
#include "worker/backend/cuda/block_sum.cuh"
#include "worker/backend/cuda/cuda_device.h"
#include "worker/backend/cuda/cuda_memory.h"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

#define THREADS 256
#define PIECES  1024 /* pieces of a tensor at most */

template <class T> struct plain_term {
    const T *x;
    template <int N> __device__ double at(int64_t i) const
    {
        hsp_wide<T> v[N];
        double s = 0;
        hsp_load<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            s += (double)v[j];
        }
        return s;
    }
};

template <class T> struct square_term {
    const T *x;
    template <int N> __device__ double at(int64_t i) const
    {
        hsp_wide<T> v[N];
        double s = 0;
        hsp_load<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++) {
            s += (double)v[j] * (double)v[j];
        }
        return s;
    }
};

struct label_term {
    const int32_t *x;
    template <int N> __device__ double at(int64_t i) const
    {
        double s = 0;
#pragma unroll
        for (int j = 0; j < N; j++) {
            s += x[i + j] >= 0 ? 1 : 0;
        }
        return s;
    }
};

/* Sums this block's piece of the @n elements, which are cut into @pieces pieces. */
template <class Term, int N>
static __device__ __forceinline__ void total_piece(const Term &term, int64_t n, int64_t piece,
                                                   int64_t pieces, double *ret)
{
    int64_t first = piece * THREADS + threadIdx.x, step = pieces * THREADS;
    double s[1] = {0};
    for (int64_t i = first; i < n / N; i += step) {
        s[0] += term.template at<N>(i * N);
    }
    if (N > 1 && first < n % N) {
        s[0] += term.template at<1>(n / N * N + first);
    }
    hsp_group_sum<THREADS, 1>(s);
    if (threadIdx.x == 0) {
        *ret = s[0];
    }
}

template <class Term, int N>
__global__ void __launch_bounds__(THREADS) total_kernel(Term term, int64_t n, double *part)
{
    total_piece<Term, N>(term, n, blockIdx.x, gridDim.x, part + blockIdx.x);
}

static int64_t total_pieces(int64_t n)
{
    int64_t pieces = n / (THREADS * 16);
    return pieces < 1 ? 1 : pieces < PIECES ? pieces : PIECES;
}

template <class Term, int N>
static enum hsp_status total(struct hsp_cuda *g, enum hsp_devq q, const Term &term,
                             const struct hsp_call *c, struct hsp_err *err)
{
    int64_t n = hsp_cuda_count(&c->in[0]), pieces = total_pieces(n);
    double *ret = (double *)c->out[0].data;
    void *part;
    enum hsp_status st = hsp_cuda_scratch(g, q, (size_t)pieces * sizeof(double), &part, err);
    if (st != HSP_OK) {
        return st;
    }
    if (pieces == 1) {
        HSP_LAUNCH((total_kernel<Term, N>), 1, THREADS, 0, g->stream[q], term, n, ret);
        return HSP_OK;
    }
    HSP_LAUNCH((total_kernel<Term, N>), (unsigned)pieces, THREADS, 0, g->stream[q], term, n,
               (double *)part);
    HSP_LAUNCH((total_kernel<plain_term<double>, 1>), 1, THREADS, 0, g->stream[q],
               (plain_term<double>{(const double *)part}), pieces, ret);
    return HSP_OK;
}

enum hsp_status hsp_cuda_sum(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                             struct hsp_err *err)
{
    const struct hsp_array *x = &c->in[0];
    HSP_FOR_REAL(x->dtype, T, {
        plain_term<T> term = {(const T *)x->data};
        return hsp_aligned(x->data) ? total<plain_term<T>, hsp_vec<T>>(g, q, term, c, err)
                                    : total<plain_term<T>, 1>(g, q, term, c, err);
    });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "sum of %s", hsp_dtype_name(x->dtype));
}

enum hsp_status hsp_cuda_sqsum(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                               struct hsp_err *err)
{
    const struct hsp_array *x = &c->in[0];
    HSP_FOR_REAL(x->dtype, T, {
        square_term<T> term = {(const T *)x->data};
        return hsp_aligned(x->data) ? total<square_term<T>, hsp_vec<T>>(g, q, term, c, err)
                                    : total<square_term<T>, 1>(g, q, term, c, err);
    });
    return hsp_err_set(err, HSP_EUNSUPPORTED, 0, "sqsum of %s", hsp_dtype_name(x->dtype));
}

enum hsp_status hsp_cuda_count_labels(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                      struct hsp_err *err)
{
    label_term term = {(const int32_t *)c->in[0].data};
    return total<label_term, 4>(g, q, term, c, err);
}

/* ---- many tensors at once: the same pieces, the same bits ---- */

template <class T> struct sqsum_at {
    const T *x;
    double *ret;
};

template <class T>
__global__ void __launch_bounds__(THREADS)
    sqsum_pieces(__grid_constant__ const hsp_table<sqsum_at<T>> t, double *part)
{
    int k = hsp_table_find(t);
    square_term<T> term = {t.at[k].x};
    unsigned piece = blockIdx.x - t.first[k], pieces = t.first[k + 1] - t.first[k];
    if ((t.aligned >> k & 1) != 0) {
        total_piece<square_term<T>, hsp_vec<T>>(term, t.n[k], piece, pieces, part + blockIdx.x);
    } else {
        total_piece<square_term<T>, 1>(term, t.n[k], piece, pieces, part + blockIdx.x);
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    sqsum_sums(__grid_constant__ const hsp_table<sqsum_at<T>> t, const double *part)
{
    int k = (int)blockIdx.x;
    plain_term<double> term = {part + t.first[k]};
    total_piece<plain_term<double>, 1>(term, t.first[k + 1] - t.first[k], 0, 1, t.at[k].ret);
}

template <class T>
static enum hsp_status sqsum_some(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                  uint32_t n, struct hsp_err *err)
{
    hsp_table<sqsum_at<T>> t = {};
    for (uint32_t k = 0; k < n; k++) {
        int64_t size = hsp_cuda_count(&c[k].in[0]);
        sqsum_at<T> at = {(const T *)c[k].in[0].data, (double *)c[k].out[0].data};
        hsp_table_put(&t, at, size, (unsigned)total_pieces(size), hsp_aligned(at.x));
    }
    void *part;
    enum hsp_status st = hsp_cuda_scratch(g, q, t.first[t.tensors] * sizeof(double), &part, err);
    if (st == HSP_OK) {
        HSP_LAUNCH((sqsum_pieces<T>), t.first[t.tensors], THREADS, 0, g->stream[q], t,
                   (double *)part);
        HSP_LAUNCH((sqsum_sums<T>), (unsigned)t.tensors, THREADS, 0, g->stream[q], t,
                   (const double *)part);
    }
    return st;
}

enum hsp_status hsp_cuda_sqsum_many(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                    uint32_t n, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k += HSP_TABLE_MOST) {
        uint32_t some = n - k < HSP_TABLE_MOST ? n - k : HSP_TABLE_MOST;
        HSP_FOR_REAL(c->in[0].dtype, T, st = sqsum_some<T>(g, q, c + k, some, err););
    }
    return st;
}
