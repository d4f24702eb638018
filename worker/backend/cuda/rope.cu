/* Applies rotary positions (Su et al. 2021): element i of a head is rotated with element i +
 * head_dim / 2.
 *
 * All heads of a row have the same angles: a block computes them once, in shared memory. Angles are
 * computed in fp64, in half turns, and reduced to [-1, 1], so that far positions lose no
 * precision. */
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

#define THREADS 128

template <class T> struct rope_args {
    const int32_t *pos;
    const T *x;
    T *y;
    int64_t rows;
    int heads, half;
    double theta, sign;
};

static __device__ __forceinline__ void turn_of(double turns, float *s, float *c)
{
    sincospif((float)turns, s, c);
}
static __device__ __forceinline__ void turn_of(double turns, double *s, double *c)
{
    sincospi(turns, s, c);
}

template <class T, int N> __global__ void __launch_bounds__(THREADS) rope_kernel(rope_args<T> a)
{
    typedef hsp_wide<T> W;
    HSP_DYNAMIC_SHARED(double, freq); /* half turns for each step of the position */
    W *cosine = (W *)(freq + a.half), *sine = cosine + a.half;
    for (int i = (int)threadIdx.x; i < a.half; i += THREADS) {
        freq[i] = pow(a.theta, -(double)i / a.half) * 0.31830988618379067154;
    }
    for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
        __syncthreads();
        for (int i = (int)threadIdx.x; i < a.half; i += THREADS) {
            double turns = (double)a.pos[r] * freq[i];
            turn_of(turns - 2 * rint(0.5 * turns), &sine[i], &cosine[i]);
        }
        __syncthreads();
        int groups = a.half / N;
        for (int k = (int)threadIdx.x; k < a.heads * groups; k += THREADS) {
            int i = k % groups * N;
            int64_t at = r * 2 * a.half * a.heads + (int64_t)(k / groups) * 2 * a.half + i;
            W u[N], v[N];
            hsp_load<N>(a.x + at, u);
            hsp_load<N>(a.x + at + a.half, v);
#pragma unroll
            for (int j = 0; j < N; j++) {
                W cs = cosine[i + j], sn = (W)a.sign * sine[i + j], first = u[j];
                u[j] = first * cs - v[j] * sn;
                v[j] = v[j] * cs + first * sn;
            }
            hsp_store<N>(a.y + at, u);
            hsp_store<N>(a.y + at + a.half, v);
        }
    }
}

enum hsp_status hsp_cuda_rope(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                              struct hsp_err *err)
{
    const struct hsp_array *x = &c->in[1];
    int64_t d = c->at->i[0], rows = x->ext[0] * x->ext[1];
    if (d < 2 || d > 2048 || d % 2 != 0 || !(c->at->f[0] > 0) || x->ext[2] / d > INT32_MAX / d) {
        return hsp_err_set(err, d > 2048 ? HSP_EUNSUPPORTED : HSP_EINVAL, 0,
                           "%s: heads of %lld, theta %g", hsp_op_name(c->op), (long long)d,
                           c->at->f[0]);
    }
    HSP_FOR_REAL(x->dtype, T, {
        rope_args<T> a = {(const int32_t *)c->in[0].data,
                          (const T *)x->data,
                          (T *)c->out[0].data,
                          rows,
                          (int)(x->ext[2] / d),
                          (int)(d / 2),
                          c->at->f[0],
                          c->op == HSP_OP_ROPE ? 1.0 : -1.0};
        unsigned grid = hsp_grid(g, rows, 1);
        size_t smem = (size_t)a.half * (sizeof(double) + 2 * sizeof(hsp_wide<T>));
        if (a.half % hsp_vec<T> == 0 && hsp_aligned(a.x) && hsp_aligned(a.y)) {
            HSP_LAUNCH((rope_kernel<T, hsp_vec<T>>), grid, THREADS, smem, g->stream[q], a);
        } else {
            HSP_LAUNCH((rope_kernel<T, 1>), grid, THREADS, smem, g->stream[q], a);
        }
    });
    return HSP_OK;
}
