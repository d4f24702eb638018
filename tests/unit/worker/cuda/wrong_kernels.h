/* Runs a kernel of wrong_kernels.cu. Returns NULL, or the fault that the emulation found. */
#ifndef HSP_WRONG_KERNELS_H
#define HSP_WRONG_KERNELS_H
#ifdef __cplusplus
extern "C" {
#endif

enum right_kernel {
    RIGHT_REVERSE, /* 3 blocks of 64, the last with 22 elements; arguments: floats, floats */
    RIGHT_WARP,    /* int: the number of functions that are wrong */
    RIGHT_ATOMICS, /* int, int, unsigned, int */
    RIGHT_INDICES, /* unsigned[12 * 30] */
    RIGHT_ENDS,    /* int[40] */
    RIGHT_BF16     /* float[16], unsigned short[16], float[16] */
};
enum wrong_kernel {
    WRONG_BARRIER,
    WRONG_WARP,
    WRONG_MASK,
    WRONG_ENDED,
    WRONG_STACK,
    WRONG_SHARED,
    WRONG_WARP_ORDER,
    WRONG_ALL_WRITE,
    WRONG_BLOCKS,
    WRONG_BLOCK_READS,
    WRONG_ALIGNED,
    WRONG_GRID,
    WRONG_SMEM
};
const char *run_right(enum right_kernel k, void *a, void *b, void *c, void *d);
const char *run_wrong(enum wrong_kernel k, void *a);

#ifdef __cplusplus
}
#endif
#endif
