/* Launches kernels, by macros written once for nvcc and for tests that run kernels on the host.
 *
 * HSP_LAUNCH(kernel, grid, block, smem, stream, args...) gives a kernel to a stream; a template
 * with commas stands in parentheses. Errors wait in cudaGetLastError.
 * HSP_ALIGNED(p, n) stands before an access of n bytes at once: the host sees to it that p is
 * aligned to them, as a GPU does by itself.
 * HSP_DYNAMIC_SHARED(type, name) declares the block's dynamic shared memory as `type *name`,
 * aligned to 128 bytes; at most one in a kernel. */
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
