/* Sums over all elements: an fp64 scalar.
 *
 * Blocks sum pieces of the tensor, a last one adds up their results; the number of pieces depends
 * on the number of elements alone. */
#include "worker/backend/cuda/blocksum.cuh"
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

#define THREADS 256
#define PIECES  1024 /* at most */

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

template <class Term, int N>
__global__ void __launch_bounds__(THREADS) total_kernel(Term term, int64_t n, double *part)
{
    int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * THREADS;
    double s[1] = {0};
    for (int64_t i = first; i < n / N; i += step) {
        s[0] += term.template at<N>(i * N);
    }
    if (N > 1 && first < n % N) {
        s[0] += term.template at<1>(n / N * N + first);
    }
    hsp_group_sum<THREADS, 1>(s);
    if (threadIdx.x == 0) {
        part[blockIdx.x] = s[0];
    }
}

template <class Term, int N>
static enum hsp_status total(struct hsp_cuda *g, enum hsp_devq q, const Term &term,
                             const struct hsp_call *c, struct hsp_err *err)
{
    int64_t n = hsp_cuda_count(&c->in[0]), pieces = n / (THREADS * 16);
    double *ret = (double *)c->out[0].data;
    pieces = pieces < 1 ? 1 : pieces < PIECES ? pieces : PIECES;
    if (pieces == 1) {
        HSP_LAUNCH((total_kernel<Term, N>), 1, THREADS, 0, g->stream[q], term, n, ret);
        return HSP_OK;
    }
    void *part;
    enum hsp_status st = hsp_cuda_scratch(g, q, (size_t)pieces * sizeof(double), &part, err);
    if (st != HSP_OK) {
        return st;
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
