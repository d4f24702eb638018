/* Supplies the parts of CUDA C++ beyond C++ to kernels on the host (emulate.h): the qualifiers, the
 * indices, vector types, warp functions, atomics and mathematical functions that the kernels of
 * worker/backend/cuda use.
 *
 * Role:    included by cuda_runtime.h; nothing in it for C.
 * Numbers: the fast functions (__expf, ...) are as wrong here as the device's may be, roughly.
 */
#ifndef HSP_FAKEKERNEL_H
#define HSP_FAKEKERNEL_H
#ifdef __cplusplus
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "tests/lib/fakecuda/emulate.h"
#include "tests/lib/fakecuda/fakecuda.h"
#include "tests/lib/fakecuda/memshadow.h"

#define __global__
#define __device__
#define __host__
#define __shared__      static /* blocks run one after the other */
#define __constant__    static
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __align__(n)    __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx hsp_fake_thread_index
#define blockIdx  hsp_fake_block_index
#define blockDim  hsp_fake_block_extent
#define gridDim   hsp_fake_grid_extent
#define warpSize  HSP_FAKE_WARP

/* ---- vectors ---- */

static inline void hsp_fake_aligned(const void *p, size_t n)
{
    if ((uintptr_t)p % n != 0) {
        hsp_fake_fault("misaligned: %zu bytes at %p", n, p);
    }
}

#define HSP_FAKE_VEC2(T, name)               \
    struct __align__(2 * sizeof(T)) name     \
    {                                        \
        T x, y;                              \
    };                                       \
    static inline name make_##name(T x, T y) \
    {                                        \
        return name{x, y};                   \
    }
#define HSP_FAKE_VEC4(T, name, align)                  \
    struct __align__(align) name                       \
    {                                                  \
        T x, y, z, w;                                  \
    };                                                 \
    static inline name make_##name(T x, T y, T z, T w) \
    {                                                  \
        return name{x, y, z, w};                       \
    }
HSP_FAKE_VEC2(float, float2)
HSP_FAKE_VEC2(double, double2)
HSP_FAKE_VEC2(int, int2)
HSP_FAKE_VEC2(unsigned, uint2)
HSP_FAKE_VEC4(float, float4, 16)
HSP_FAKE_VEC4(int, int4, 16)
HSP_FAKE_VEC4(unsigned, uint4, 16)
HSP_FAKE_VEC4(unsigned char, uchar4, 4)

/* ---- order ---- */

#define __syncthreads() hsp_fake_barrier()
static inline void __syncwarp(unsigned mask = 0xffffffffU)
{
    hsp_fake_warp_exchange("__syncwarp", mask, nullptr, 0, nullptr);
}
static inline void __threadfence()
{
}
static inline void __threadfence_block()
{
}

/* ---- warps ---- */

template <class T>
static inline T hsp_fake_from_lane(const char *what, unsigned mask, T v, int from, int width)
{
    T all[HSP_FAKE_WARP];
    hsp_fake_warp_exchange(what, mask, &v, sizeof(v), all);
    (void)width;
    return all[from & (HSP_FAKE_WARP - 1)];
}
static inline int hsp_fake_lane()
{
    return hsp_fake_thread() % HSP_FAKE_WARP;
}
template <class T>
static inline T __shfl_sync(unsigned mask, T v, int src, int width = HSP_FAKE_WARP)
{
    int base = hsp_fake_lane() & ~(width - 1);
    return hsp_fake_from_lane("__shfl_sync", mask, v, base + (src & (width - 1)), width);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = HSP_FAKE_WARP)
{
    int lane = hsp_fake_lane(), from = lane ^ with;
    bool in = from / width <= lane / width;
    return hsp_fake_from_lane("__shfl_xor_sync", mask, v, in ? from : lane, width);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = HSP_FAKE_WARP)
{
    int lane = hsp_fake_lane(), from = lane + (int)by;
    bool in = from / width == lane / width;
    return hsp_fake_from_lane("__shfl_down_sync", mask, v, in ? from : lane, width);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = HSP_FAKE_WARP)
{
    int lane = hsp_fake_lane(), from = lane - (int)by;
    bool in = from >= lane / width * width;
    return hsp_fake_from_lane("__shfl_up_sync", mask, v, in ? from : lane, width);
}
static inline unsigned __ballot_sync(unsigned mask, int yes)
{
    uint8_t mine = yes != 0, all[HSP_FAKE_WARP];
    hsp_fake_warp_exchange("__ballot_sync", mask, &mine, 1, all);
    unsigned r = 0;
    for (int i = 0; i < HSP_FAKE_WARP; i++) {
        r |= (unsigned)all[i] << i; /* 0 outside the mask */
    }
    return r;
}
static inline int __any_sync(unsigned mask, int yes)
{
    return __ballot_sync(mask, yes) != 0;
}
static inline int __all_sync(unsigned mask, int yes)
{
    return __ballot_sync(mask, yes) == mask;
}
static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
static inline int __ffs(int v)
{
    return __builtin_ffs(v);
}
static inline int __clz(int v)
{
    return v == 0 ? 32 : __builtin_clz((unsigned)v);
}

/* ---- memory ---- */

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline void __stcs(T *p, T v)
{
    *p = v;
}
static inline size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)p;
}

/* Told as one access that is atomic: not inlined into code that tells each of its own. */
#define HSP_FAKE_ATOMIC_FN(name, result)                                                         \
    template <class T> __attribute__((noinline, no_sanitize("thread"))) static T name(T *p, T v) \
    {                                                                                            \
        hsp_fake_shadow_access(p, sizeof(*p), HSP_FAKE_ATOMIC);                                  \
        T old = *p;                                                                              \
        *p = (result);                                                                           \
        return old;                                                                              \
    }
HSP_FAKE_ATOMIC_FN(atomicAdd, (T)(old + v))
HSP_FAKE_ATOMIC_FN(atomicMax, old > v ? old : v)
HSP_FAKE_ATOMIC_FN(atomicMin, old < v ? old : v)
HSP_FAKE_ATOMIC_FN(atomicOr, (T)(old | v))
HSP_FAKE_ATOMIC_FN(atomicExch, v)
template <class T>
__attribute__((noinline, no_sanitize("thread"))) static T atomicCAS(T *p, T expected, T v)
{
    hsp_fake_shadow_access(p, sizeof(*p), HSP_FAKE_ATOMIC);
    T old = *p;
    *p = old == expected ? v : old;
    return old;
}

/* ---- numbers ---- */

#define HSP_FAKE_MINMAX(T)        \
    static inline T min(T a, T b) \
    {                             \
        return b < a ? b : a;     \
    }                             \
    static inline T max(T a, T b) \
    {                             \
        return a < b ? b : a;     \
    }
HSP_FAKE_MINMAX(int)
HSP_FAKE_MINMAX(unsigned)
HSP_FAKE_MINMAX(long)
HSP_FAKE_MINMAX(unsigned long)
static inline float min(float a, float b)
{
    return fminf(a, b);
}
static inline float max(float a, float b)
{
    return fmaxf(a, b);
}
static inline double min(double a, double b)
{
    return fmin(a, b);
}
static inline double max(double a, double b)
{
    return fmax(a, b);
}
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
static inline float hsp_fake_expf(float x)
{
    return exp2f(x * 1.44269504f);
}
static inline float hsp_fake_exp2f(float x)
{
    return exp2f(x);
}
static inline float hsp_fake_logf(float x)
{
    return log2f(x) * 0.693147182f;
}
/* the C library has some of these names for itself */
#define __expf  hsp_fake_expf
#define __exp2f hsp_fake_exp2f
#define __logf  hsp_fake_logf
static inline float __fdividef(float a, float b)
{
    return a * (1.0f / b);
}
static inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float normcdff(float x)
{
    return (float)(0.5 * erfc(-(double)x * 0.70710678118654752440));
}
static inline double normcdf(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}
static inline uint32_t __umulhi(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}
template <class To, class From> static inline To hsp_fake_bits(From v)
{
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To r;
    memcpy(&r, &v, sizeof(r));
    return r;
}
static inline unsigned __float_as_uint(float v)
{
    return hsp_fake_bits<unsigned>(v);
}
static inline int __float_as_int(float v)
{
    return hsp_fake_bits<int>(v);
}
static inline float __uint_as_float(unsigned v)
{
    return hsp_fake_bits<float>(v);
}
static inline float __int_as_float(int v)
{
    return hsp_fake_bits<float>(v);
}
static inline long long __double_as_longlong(double v)
{
    return hsp_fake_bits<long long>(v);
}
static inline double __longlong_as_double(long long v)
{
    return hsp_fake_bits<double>(v);
}
/* of pi x */
static inline void sincospi(double x, double *s, double *c)
{
    *s = sin(x * 3.14159265358979323846);
    *c = cos(x * 3.14159265358979323846);
}
static inline void sincospif(float x, float *s, float *c)
{
    *s = (float)sin(x * 3.14159265358979323846);
    *c = (float)cos(x * 3.14159265358979323846);
}

/* ---- launches ---- */

/* The arguments of a launch, one behind the other. */
template <class... P> struct hsp_fake_pack {
};
template <class H, class... T> struct hsp_fake_pack<H, T...> {
    H head;
    hsp_fake_pack<T...> tail;
    hsp_fake_pack(const H &h, const T &...t) : head(h), tail(t...)
    {
    }
};
template <class F, class... V>
static inline void hsp_fake_apply(F f, const hsp_fake_pack<> &, const V &...v)
{
    f(v...);
}
template <class F, class H, class... T, class... V>
static inline void hsp_fake_apply(F f, const hsp_fake_pack<H, T...> &p, const V &...v)
{
    hsp_fake_apply(f, p.tail, v..., p.head);
}

template <class... P> struct hsp_fake_launch_args {
    struct hsp_fake_kernel k; /* first: for hsp_fake_run_launch */
    void (*f)(P...);
    hsp_fake_pack<P...> pack;
};
template <class... P> static void hsp_fake_run_thread(void *args)
{
    const auto *a = (const hsp_fake_launch_args<P...> *)args;
    hsp_fake_apply(a->f, a->pack);
}
template <class... P>
static hsp_fake_launch_args<P...> hsp_fake_args(const char *name, void (*f)(P...), dim3 grid,
                                                dim3 block, size_t smem, const P &...p)
{
    return {{name,
             {grid.x, grid.y, grid.z},
             {block.x, block.y, block.z},
             smem,
             hsp_fake_run_thread<P...>},
            f,
            hsp_fake_pack<P...>(p...)};
}
/* HSP_LAUNCH of worker/backend/cuda/launch.h. */
template <class... P, class... A>
static void hsp_fake_launch(const char *name, void (*f)(P...), dim3 grid, dim3 block, size_t smem,
                            cudaStream_t stream, const A &...a)
{
    auto args = hsp_fake_args<P...>(name, f, grid, block, smem, P(a)...);
    struct hsp_fake_work w = {};
    w.name = name;
    w.func = (const void *)f;
    w.run = hsp_fake_run_launch;
    w.args = &args;
    w.bytes = sizeof(args);
    w.grid = grid;
    w.block = block;
    w.smem = smem;
    (void)hsp_fake_submit(stream, &w); /* kept for cudaGetLastError */
}
/* Without a stream: see hsp_fake_run_kernel. */
template <class... P, class... A>
static const char *hsp_fake_run_now(const char *name, void (*f)(P...), dim3 grid, dim3 block,
                                    size_t smem, const A &...a)
{
    auto args = hsp_fake_args<P...>(name, f, grid, block, smem, P(a)...);
    return hsp_fake_run_kernel(&args.k, &args);
}
#endif
#endif
