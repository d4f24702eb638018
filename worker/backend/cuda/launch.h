/* Launches kernels, by macros that nvcc compiles for a GPU, and the C++ compiler of the host for
 * tests that run kernels on the CPU.
 *
 * HSP_LAUNCH(kernel, grid, block, smem, stream, args...) gives a kernel to a stream. A template
 * whose arguments have commas must stand in parentheses. An error of the launch is reported by the
 * next cudaGetLastError.
 *
 * HSP_ALIGNED(p, n) stands before a single access of n bytes at p. On the host it stops the test if
 * p is not aligned to n bytes, as a GPU does by itself; on a GPU it is empty.
 *
 * HSP_DYNAMIC_SHARED(type, name) declares the block's dynamic shared memory as `type *name`,
 * aligned to 128 bytes. A kernel uses it at most once. */
#ifndef HSP_LAUNCH_H
#define HSP_LAUNCH_H
#ifdef __cplusplus
#include <cuda_runtime.h>

#ifdef __CUDACC__
/* clang-format off */
#define HSP_LAUNCH(kernel, grid, block, smem, stream, ...) \
    ((kernel)<<<(grid), (block), (smem), (stream)>>>(__VA_ARGS__))
/* clang-format on */
#define HSP_DYNAMIC_SHARED(type, name)                           \
    extern __shared__ __align__(128) unsigned char hsp_shared[]; \
    type *name = (type *)hsp_shared
#define HSP_ALIGNED(p, n) ((void)0)
#else
#define HSP_LAUNCH(kernel, grid, block, smem, stream, ...) \
    hsp_fake_launch(#kernel, (kernel), (grid), (block), (smem), (stream), __VA_ARGS__)
#define HSP_DYNAMIC_SHARED(type, name) type *name = (type *)hsp_fake_dynamic_shared()
#define HSP_ALIGNED(p, n)              hsp_fake_aligned((p), (n))
#endif

#endif
#endif
