/* Adds up the sums over ranges of rows that the blocks of another kernel have made, by columns, in
 * one order.
 *
 * A block has 32 columns and 8 threads for each: a thread adds every eighth range, in ascending
 * order, and the eight sums are added in the order of the threads. */
#ifndef HSP_RANGESUM_CUH
#define HSP_RANGESUM_CUH
#include "worker/backend/cuda/element.cuh"

#define HSP_RANGE_ACROSS 32
#define HSP_RANGE_DOWN   8

/* The arguments. P is the type of the parts [outputs][ranges][n]; sums are fp64. Bit i of @adds:
 * output i is added to its present content. */
template <class P, class W> struct hsp_range_sums {
    const P *part;
    W *out[3];
    int64_t n;
    int ranges;
    unsigned adds;
};

template <class P, class W>
static __global__ void __launch_bounds__(HSP_RANGE_ACROSS *HSP_RANGE_DOWN)
    hsp_range_kernel(hsp_range_sums<P, W> a)
{
    __shared__ double down[HSP_RANGE_DOWN][HSP_RANGE_ACROSS];
    int64_t at = (int64_t)blockIdx.x * HSP_RANGE_ACROSS + threadIdx.x;
    double s = 0;
    if (at < a.n) {
        const P *p = a.part + (int64_t)blockIdx.y * a.ranges * a.n + at;
#pragma unroll 8
        for (int i = (int)threadIdx.y; i < a.ranges; i += HSP_RANGE_DOWN) {
            s += (double)p[i * a.n];
        }
    }
    down[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y == 0 && at < a.n) {
#pragma unroll
        for (int i = 1; i < HSP_RANGE_DOWN; i++) {
            s += down[i][threadIdx.x];
        }
        /* the compiler would copy an array of arguments to memory if it were indexed */
        W *out = (blockIdx.y == 0 ? a.out[0] : blockIdx.y == 1 ? a.out[1] : a.out[2]) + at;
        *out = (a.adds >> blockIdx.y & 1) != 0 ? *out + (W)s : (W)s;
    }
}

template <class P, class W>
static inline void hsp_range_sum(struct hsp_cuda *g, enum hsp_devq q, const hsp_range_sums<P, W> &a,
                                 int outputs)
{
    unsigned across = (unsigned)((a.n + HSP_RANGE_ACROSS - 1) / HSP_RANGE_ACROSS);
    HSP_LAUNCH((hsp_range_kernel<P, W>), dim3(across, (unsigned)outputs),
               dim3(HSP_RANGE_ACROSS, HSP_RANGE_DOWN), 0, g->stream[q], a);
}
#endif
