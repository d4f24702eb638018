/* Wraps each instruction of tensor cores and of asynchronous copies (sm_80 and later) in one
 * function, so that kernels also run on the host.
 *
 * Role:   attention on bf16. On the device the function is the instruction. On the host, under the
 *         emulation of tests/lib/fakecuda, it is a twin that moves the same numbers between the
 *         same lanes. Only this file knows which part of a fragment a lane holds, so the tests of
 *         the kernels cover the layout, too.
 * Layout: (PTX ISA, "Matrix fragments for mma.m16n8k16") with g = lane / 4, t = lane % 4. A
 *         register holds two bf16; the element of the lower column (A) or row (B) is in its lower
 *         half:
 *           A, 16 x 16: a[0] row g, columns 2t, 2t+1; a[1] row g + 8;
 *                       a[2], a[3] the same rows, 8 columns further on
 *           B, 16 x 8:  b[0] rows 2t, 2t+1, column g; b[1] rows 2t + 8, 2t + 9
 *           C, 16 x 8:  c[0], c[1] row g, columns 2t, 2t+1; c[2], c[3] row g + 8
 * Every lane of the warp calls each function; no lane may have ended. */
#ifndef HSP_TENSORCORE_CUH
#define HSP_TENSORCORE_CUH
#include "worker/backend/cuda/launch.h"

#ifdef __CUDACC__

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define HSP_TENSOR_ASM(...) __trap() /* compiled for such GPUs, but never started on them */
#else
#define HSP_TENSOR_ASM(...) asm volatile(__VA_ARGS__)
#endif

/* A place in shared memory that holds bf16, in 32 bits, half of a pointer. */
struct hsp_tile {
    uint32_t at;
};
static __device__ __forceinline__ struct hsp_tile hsp_tile_of(const void *shared)
{
    return {(uint32_t)__cvta_generic_to_shared(shared)};
}
/* Returns the place @elements further on. */
static __device__ __forceinline__ struct hsp_tile operator+(struct hsp_tile t, int elements)
{
    return {t.at + 2U * (uint32_t)elements};
}

/* c += a b */
static __device__ __forceinline__ void hsp_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1)
{
    HSP_TENSOR_ASM("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                   "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                   : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four 8 x 8 matrices of bf16 from shared memory. Lane l gives the address of row l % 8 of
 * matrix l / 8 (16 bytes, aligned to 16), and gets in r[i] the elements of row g, columns 2t, 2t+1,
 * of matrix i. */
static __device__ __forceinline__ void hsp_ldmatrix(uint32_t (&r)[4], struct hsp_tile row)
{
    HSP_TENSOR_ASM("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(row.at)
                   : "memory");
}

/* Loads four 8 x 8 matrices as hsp_ldmatrix does, but transposed: a lane gets rows 2t, 2t+1, column
 * g. */
static __device__ __forceinline__ void hsp_ldmatrix_trans(uint32_t (&r)[4], struct hsp_tile row)
{
    HSP_TENSOR_ASM("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(row.at)
                   : "memory");
}

/* Starts a copy of 16 bytes to shared memory, or, if @live is false, writes zeros there; both
 * places are aligned to 16. */
static __device__ __forceinline__ void hsp_copy16(struct hsp_tile to, const void *global, bool live)
{
    [[maybe_unused]] int bytes = live ? 16 : 0; /* unused before sm_80 */
    HSP_TENSOR_ASM("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to.at), "l"(global),
                   "r"(bytes)
                   : "memory");
}

/* Makes one group of the copies that this thread has started since its last group. */
static __device__ __forceinline__ void hsp_copy_commit(void)
{
    HSP_TENSOR_ASM("cp.async.commit_group;\n" ::: "memory");
}

/* Waits until the copies of this thread have arrived, except those of its last @N groups. Other
 * threads see the data after a barrier. */
template <int N> static __device__ __forceinline__ void hsp_copy_wait(void)
{
    HSP_TENSOR_ASM("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/* Returns @x. The compiler computes values that depend on the result only after this place, so they
 * take no registers before. */
static __device__ __forceinline__ int hsp_here(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* Returns 2^x with a relative error of 2^-22; small results are 0. */
static __device__ __forceinline__ float hsp_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
    return y;
}

/* Rounds two fp32 to bf16, and returns them with @lo in the lower half. */
static __device__ __forceinline__ uint32_t hsp_pack_bf16(float lo, float hi)
{
    uint32_t r = 0;
    HSP_TENSOR_ASM("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

#else
#include <tensortwin.h>
#endif
#endif
