/* Computes products of matrices for which cuBLASLt has no code. */
#include "worker/backend/cuda/element.cuh"
#include "worker/backend/cuda/gemm_plain.h"

#define PLAIN_TILE 64 /* rows and columns of D that a block computes; a thread computes 4 x 4 */
#define PLAIN_DEEP 16 /* elements of k that are loaded at a time */

/* D = op(A) op(B) [+ C]; C is laid out as D. Element (i, j) of op(A) is at a[i * ai + j * aj], of
 * op(B) at b[i * bi + j * bj]. Sums are made in ascending k in the wide type. A block computes one
 * tile; there are @tiles tiles in a column. */
template <class T, class R>
static __global__ void __launch_bounds__(256)
    gemm_plain_kernel(const T *a, int64_t ai, int64_t aj, const T *b, int64_t bi, int64_t bj,
                      const R *c, R *d, int64_t m, int64_t n, int64_t k, int64_t tiles)
{
    typedef hsp_wide<T> W;
    __shared__ W x[PLAIN_DEEP][PLAIN_TILE + 1], y[PLAIN_DEEP][PLAIN_TILE + 1];
    int64_t row0 = blockIdx.x % tiles * PLAIN_TILE, column0 = blockIdx.x / tiles * PLAIN_TILE;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    W sum[4][4] = {};
    for (int64_t k0 = 0; k0 < k; k0 += PLAIN_DEEP) {
        for (int i = threadIdx.x; i < PLAIN_DEEP * PLAIN_TILE; i += 256) {
            int64_t row = row0 + i % PLAIN_TILE, column = column0 + i % PLAIN_TILE;
            int64_t l = k0 + i / PLAIN_TILE;
            x[i / PLAIN_TILE][i % PLAIN_TILE] =
                row < m && l < k ? hsp_widen(a[row * ai + l * aj]) : (W)0;
            y[i / PLAIN_TILE][i % PLAIN_TILE] =
                column < n && l < k ? hsp_widen(b[l * bi + column * bj]) : (W)0;
        }
        __syncthreads();
        for (int l = 0; l < PLAIN_DEEP; l++) {
#pragma unroll
            for (int i = 0; i < 16; i++) {
                sum[i / 4][i % 4] += x[l][ty + 16 * (i / 4)] * y[l][tx + 16 * (i % 4)];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 16; i++) {
        int64_t row = row0 + ty + 16 * (i / 4), column = column0 + tx + 16 * (i % 4);
        if (row < m && column < n) {
            int64_t at = column * m + row;
            hsp_narrow(sum[i / 4][i % 4] + (c != nullptr ? hsp_widen(c[at]) : 0), d + at);
        }
    }
}

template <class T, class R>
static void gemm_plain_start(struct hsp_cuda *g, enum hsp_devq q, const struct hsp_product *x,
                             int64_t tiles, unsigned blocks)
{
    HSP_LAUNCH((gemm_plain_kernel<T, R>), blocks, 256, 0, g->stream[q], (const T *)x->a,
               x->ta ? x->lda : 1, x->ta ? 1 : x->lda, (const T *)x->b, x->tb ? x->ldb : 1,
               x->tb ? 1 : x->ldb, (const R *)x->c, (R *)x->d, x->m, x->n, x->k, tiles);
}

enum hsp_status hsp_cuda_gemm_plain(struct hsp_cuda *g, enum hsp_devq q,
                                    const struct hsp_product *x, struct hsp_err *err)
{
    int64_t tiles = (x->m + PLAIN_TILE - 1) / PLAIN_TILE;
    int64_t blocks = tiles * ((x->n + PLAIN_TILE - 1) / PLAIN_TILE);
    if (blocks > INT32_MAX) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "product %lld x %lld x %lld is too large",
                           (long long)x->m, (long long)x->k, (long long)x->n);
    }
    HSP_FOR_REAL(x->type, T, {
        if (x->out_type == x->type) {
            gemm_plain_start<T, T>(g, q, x, tiles, (unsigned)blocks);
        } else {
            gemm_plain_start<T, hsp_wide<T>>(g, q, x, tiles, (unsigned)blocks);
        }
    });
    return HSP_OK;
}
