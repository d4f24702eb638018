/* Defines kernels for emulate_test.c: right kernels, and one for each fault that the emulation
 * finds. */
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "tests/unit/worker/cuda/wrong_kernels.h"
#include "worker/backend/cuda/launch.h"

/* ---- right ---- */

__global__ void reverse_blocks(const float *x, float *y, int n)
{
    HSP_DYNAMIC_SHARED(float, row);
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    row[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) {
        y[i] = row[blockDim.x - 1 - threadIdx.x];
    }
}

/* Compares every warp function with its definition. */
__global__ void warp_functions(int *ret)
{
    int lane = (int)threadIdx.x, bad = 0;
    bad += __shfl_sync(0xffffffffU, lane * 3, 7) != 21;
    bad += __shfl_sync(0xffffffffU, lane, 1, 8) != lane / 8 * 8 + 1;
    bad += __shfl_xor_sync(0xffffffffU, lane, 5) != (lane ^ 5);
    bad += __shfl_down_sync(0xffffffffU, lane, 4) != (lane + 4 < 32 ? lane + 4 : lane);
    bad += __shfl_up_sync(0xffffffffU, lane, 4) != (lane >= 4 ? lane - 4 : lane);
    bad += __shfl_xor_sync(0xffffffffU, (double)lane, 1, 2) != (double)(lane ^ 1);
    bad += __ballot_sync(0xffffffffU, lane % 3 == 0) != 0x49249249U;
    bad += !__any_sync(0xffffffffU, lane == 31) || __any_sync(0xffffffffU, 0);
    bad += !__all_sync(0xffffffffU, 1) || __all_sync(0xffffffffU, lane != 9);
    if (lane < 5) { /* two groups of lanes exchange values at the same time */
        bad += __ballot_sync(0x1fU, 1) != 0x1fU;
        bad += __shfl_sync(0x1fU, lane, 4) != 4;
    } else {
        bad += __ballot_sync(~0x1fU, lane & 1) != 0xaaaaaaa0U;
    }
    __syncwarp();
    atomicAdd(ret, bad);
}

__global__ void atomics(int *sum, int *most, unsigned *bits, int *slot)
{
    atomicAdd(sum, 2);
    atomicMax(most, (int)threadIdx.x);
    atomicOr(bits, 1U << threadIdx.x % 32);
    if (atomicCAS(slot, 0, 1) == 0) {
        atomicExch(slot, 77);
    }
}

__global__ void indices(unsigned *ret)
{
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    ret[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

/* Lets threads end at different times; those that are left meet at a barrier. */
__global__ void early_ends(int *ret)
{
    __shared__ int s;
    if (threadIdx.x >= 40) {
        return;
    }
    if (threadIdx.x == 0) {
        s = 5;
    }
    __syncthreads();
    ret[threadIdx.x] = s;
}

__global__ void conversions(const float *x, unsigned short *y, float *z)
{
    y[threadIdx.x] = __bfloat16_as_ushort(__float2bfloat16_rn(x[threadIdx.x]));
    z[threadIdx.x] = __bfloat162float(__ushort_as_bfloat16(y[threadIdx.x]));
}

/* ---- wrong ---- */

__global__ void some_skip_barrier(int *ret)
{
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
    } else {
        __syncwarp(0xaaaaaaaaU);
        __ballot_sync(0xffffffffU, 1);
    }
    *ret = 1;
}

__global__ void warps_disagree()
{
    if (threadIdx.x < 16) {
        __syncwarp();
    } else {
        __ballot_sync(0xffffffffU, 1);
    }
}

__global__ void not_in_mask()
{
    __syncwarp(threadIdx.x == 3 ? 0xf7U : 0xffffffffU);
}

__global__ void lane_has_ended()
{
    if (threadIdx.x != 9) {
        __syncwarp();
    }
}

__device__ __noinline__ int deep(int n)
{
    volatile char room[4096];
    for (int i = 0; i < 4096; i++) {
        room[i] = (char)n;
    }
    return n == 0 ? 0 : deep(n - 1) + room[0];
}
__global__ void stack_overflows(int *ret)
{
    int n = deep(40);
    __syncthreads();
    *ret = n;
}

__global__ void shared_without_barrier(int *ret)
{
    __shared__ int s[64];
    s[threadIdx.x] = (int)threadIdx.x;
    ret[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void shared_with_warp_order(int *ret)
{
    __shared__ int s[64];
    s[threadIdx.x] = (int)threadIdx.x;
    __syncwarp();
    ret[threadIdx.x] = s[threadIdx.x ^ 1]; /* the value is of its own warp, so this is right */
    s[threadIdx.x] = 0;                    /* the other thread may not have read it yet */
}

__global__ void shared_all_write(int *ret)
{
    __shared__ int s;
    s = 3;
    __syncthreads();
    ret[threadIdx.x] = s;
}

__global__ void blocks_meet(int *ret)
{
    ret[0] = (int)blockIdx.x;
}

__global__ void block_reads_other(int *ret)
{
    if (threadIdx.x == 0) {
        ret[blockIdx.x] = ret[(blockIdx.x + 1) % gridDim.x];
    }
}

__global__ void reads_askew(const int *p)
{
    HSP_ALIGNED(p + 1, 16);
}

#define RUN(kernel, grid, block, smem, ...) \
    hsp_fake_run_now(#kernel, kernel, dim3(grid), dim3(block), smem, __VA_ARGS__)

const char *run_right(enum right_kernel k, void *a, void *b, void *c, void *d)
{
    switch (k) {
    case RIGHT_REVERSE:
        return RUN(reverse_blocks, 3, 64, 64 * 4, (const float *)a, (float *)b, 150);
    case RIGHT_WARP: return RUN(warp_functions, 1, 32, 0, (int *)a);
    case RIGHT_ATOMICS: return RUN(atomics, 7, 96, 0, (int *)a, (int *)b, (unsigned *)c, (int *)d);
    case RIGHT_INDICES:
        return hsp_fake_run_now("indices", indices, dim3(2, 3, 2), dim3(5, 2, 3), 0, (unsigned *)a);
    case RIGHT_ENDS: return RUN(early_ends, 1, 100, 0, (int *)a);
    case RIGHT_BF16:
        return RUN(conversions, 1, 16, 0, (const float *)a, (unsigned short *)b, (float *)c);
    }
    return "no such kernel";
}

const char *run_wrong(enum wrong_kernel k, void *a)
{
    int *p = (int *)a;
    switch (k) {
    case WRONG_BARRIER: return RUN(some_skip_barrier, 1, 64, 0, p);
    case WRONG_WARP: return hsp_fake_run_now("warps_disagree", warps_disagree, 1, 32, 0);
    case WRONG_MASK: return hsp_fake_run_now("not_in_mask", not_in_mask, 1, 32, 0);
    case WRONG_ENDED: return hsp_fake_run_now("lane_has_ended", lane_has_ended, 1, 32, 0);
    case WRONG_STACK: return RUN(stack_overflows, 1, 2, 0, p);
    case WRONG_SHARED: return RUN(shared_without_barrier, 1, 64, 0, p);
    case WRONG_WARP_ORDER: return RUN(shared_with_warp_order, 1, 64, 0, p);
    case WRONG_ALL_WRITE: return RUN(shared_all_write, 1, 64, 0, p);
    case WRONG_BLOCKS: return RUN(blocks_meet, 2, 1, 0, p);
    case WRONG_BLOCK_READS: return RUN(block_reads_other, 4, 32, 0, p);
    case WRONG_ALIGNED: return RUN(reads_askew, 1, 1, 0, (const int *)p);
    case WRONG_GRID: return RUN(blocks_meet, 1, 1025, 0, p);
    case WRONG_SMEM: return RUN(blocks_meet, 1, 32, HSP_FAKE_MAX_SHARED + 1, p);
    }
    return NULL;
}
