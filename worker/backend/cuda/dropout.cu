/* Drops elements by a mask that is a function of coordinates (proto/op/op.h): Philox4x32-10 as in
 * proto/base/rng.c, with the same random words as on a CPU. A thread computes the four words of a
 * counter and applies those whose elements lie in its row. */
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/kernels.h"

static __device__ __forceinline__ void philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3,
                                              uint32_t k0, uint32_t k1, uint32_t (&ret)[4])
{
#pragma unroll
    for (int i = 0; i < 10; i++) {
        uint32_t hi0 = __umulhi(0xD2511F53U, c0), lo0 = 0xD2511F53U * c0;
        uint32_t hi1 = __umulhi(0xCD9E8D57U, c2), lo1 = 0xCD9E8D57U * c2;
        c0 = hi1 ^ c1 ^ k0;
        c1 = lo1;
        c2 = hi0 ^ c3 ^ k1;
        c3 = lo0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    ret[0] = c0;
    ret[1] = c1;
    ret[2] = c2;
    ret[3] = c3;
}

template <class T> struct dropout_args {
    const int32_t *keys; /* two keys for each sample */
    const T *x;
    T *y;
    int64_t rows, s, n, s0, e0; /* s0, e0: global coordinates of the first element */
    uint32_t k0, k1, below;
    hsp_wide<T> scale;
};

/* Applies the mask: threadIdx.y chooses the row, threadIdx.x the counter in the row. WHOLE: the
 * elements of every counter lie in the row, and are aligned. */
template <class T, bool WHOLE>
__global__ void __launch_bounds__(256) dropout_kernel(dropout_args<T> a)
{
    typedef hsp_wide<T> W;
    int64_t first = a.e0 / 4, counters = (a.e0 + a.n + 3) / 4 - first;
    for (int64_t r = (int64_t)blockIdx.x * 4 + threadIdx.y; r < a.rows;
         r += (int64_t)gridDim.x * 4) {
        const int32_t *key = a.keys + r / a.s * 2;
        uint32_t key0 = (uint32_t)key[0], key1 = (uint32_t)key[1], word[4];
        bool asleep = key[0] < 0;
        uint32_t row = (uint32_t)(a.s0 + r % a.s);
        for (int64_t i = threadIdx.x; i < counters; i += 64) {
            philox((uint32_t)(first + i), row, key0, key1, a.k0, a.k1, word);
            /* the element of word 0; it may lie before the row */
            int64_t at = (first + i) * 4 - a.e0;
            if (WHOLE) {
                W v[4];
                constexpr int N = sizeof(T) == 8 ? 2 : 4;
#pragma unroll
                for (int j = 0; j < 4; j += N) {
                    hsp_load<N>(a.x + r * a.n + at + j, *(W(*)[N])(v + j));
                }
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    v[j] = asleep ? v[j] : word[j] < a.below ? (W)0 : v[j] * a.scale;
                }
#pragma unroll
                for (int j = 0; j < 4; j += N) {
                    hsp_store<N>(a.y + r * a.n + at + j, *(W(*)[N])(v + j));
                }
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    if (at + j >= 0 && at + j < a.n) {
                        int64_t to = r * a.n + at + j;
                        W v = hsp_widen(a.x[to]);
                        hsp_narrow(asleep ? v : word[j] < a.below ? (W)0 : v * a.scale, a.y + to);
                    }
                }
            }
        }
    }
}

enum hsp_status hsp_cuda_dropout(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_call *c,
                                 struct hsp_err *err)
{
    const struct hsp_array *x = &c->in[1];
    double p = c->at->f[0];
    if (!(p >= 0 && p < 1) || c->in[0].ext[1] != 2) {
        return hsp_err_set(err, HSP_EINVAL, 0, "dropout with probability %g and %lld keys", p,
                           (long long)c->in[0].ext[1]);
    }
    uint64_t name = (uint64_t)c->at->i[1];
    HSP_FOR_REAL(x->dtype, T, {
        dropout_args<T> a = {(const int32_t *)c->in[0].data,
                             (const T *)x->data,
                             (T *)c->out[0].data,
                             x->ext[0] * x->ext[1],
                             x->ext[1],
                             x->ext[2],
                             c->origin[0],
                             c->origin[1],
                             (uint32_t)name,
                             (uint32_t)(name >> 32),
                             (uint32_t)(p * 0x1p32),
                             (hsp_wide<T>)(1.0 / (1.0 - p))};
        unsigned grid = hsp_grid(g, a.rows, 4);
        if (a.e0 % 4 == 0 && a.n % 4 == 0 && hsp_aligned(a.x) && hsp_aligned(a.y)) {
            HSP_LAUNCH((dropout_kernel<T, true>), grid, dim3(64, 4), 0, g->stream[q], a);
        } else {
            HSP_LAUNCH((dropout_kernel<T, false>), grid, dim3(64, 4), 0, g->stream[q], a);
        }
    });
    return HSP_OK;
}
