/* Sums values over the threads of a block, or of a warp, in one order, so that the bits of all runs
 * are equal. */
#ifndef HSP_BLOCKSUM_CUH
#define HSP_BLOCKSUM_CUH
#include <cuda_runtime.h>

template <class W> static __device__ __forceinline__ W hsp_warp_sum(W v)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
        v += __shfl_xor_sync(0xffffffffU, v, d);
    }
    return v;
}

/* Sums each of @K values over the G threads that share a row: a warp, or all threads of the block.
 * Each of these threads gets the sums. Barriers keep @part free for the next call. */
template <int G, int K, class W> static __device__ __forceinline__ void hsp_group_sum(W (&v)[K])
{
#pragma unroll
    for (int k = 0; k < K; k++) {
        v[k] = hsp_warp_sum(v[k]);
    }
    if constexpr (G > 32) {
        __shared__ W part[K][G / 32];
        __syncthreads();
        if (threadIdx.x % 32 == 0) {
#pragma unroll
            for (int k = 0; k < K; k++) {
                part[k][threadIdx.x / 32] = v[k];
            }
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < K; k++) {
            v[k] = 0;
#pragma unroll
            for (int i = 0; i < G / 32; i++) {
                v[k] += part[k][i];
            }
        }
    }
}
#endif
