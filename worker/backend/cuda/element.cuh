/* Loads and stores elements of tensors in kernels, several at a time, and runs element-wise
 * kernels.
 *
 * T is the type of a tensor in memory (bf16, fp32, fp64), hsp_wide<T> the type in which it is
 * computed (fp32, fp32, fp64). A kernel handles N elements at a time: hsp_vec<T> elements, 16
 * bytes, if all operands are aligned to 16 bytes, else one. Such a kernel is a struct "op" with
 * pointers and
 *     template <int N> __device__ void run(int64_t i) const;   elements i .. i + N - 1 */
#ifndef HSP_ELEMENT_CUH
#define HSP_ELEMENT_CUH
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#include "worker/backend/cuda/cuda.h"
#include "worker/backend/cuda/launch.h"

typedef __nv_bfloat16 hsp_bf16;

template <class T> struct hsp_wide_of {
    typedef T type;
};
template <> struct hsp_wide_of<hsp_bf16> {
    typedef float type;
};
template <class T> using hsp_wide = typename hsp_wide_of<T>::type;

template <class T> constexpr int hsp_vec = 16 / (int)sizeof(T);

static __device__ __forceinline__ float hsp_widen(float v)
{
    return v;
}
static __device__ __forceinline__ double hsp_widen(double v)
{
    return v;
}
static __device__ __forceinline__ float hsp_widen(hsp_bf16 v)
{
    return __bfloat162float(v);
}
static __device__ __forceinline__ void hsp_narrow(float v, float *ret)
{
    *ret = v;
}
static __device__ __forceinline__ void hsp_narrow(double v, double *ret)
{
    *ret = v;
}
static __device__ __forceinline__ void hsp_narrow(float v, hsp_bf16 *ret)
{
    *ret = __float2bfloat16_rn(v);
}

/* ---- N elements ---- */

static __device__ __forceinline__ void hsp_unpack(unsigned u, float *r)
{
    r[0] = __uint_as_float(u << 16);
    r[1] = __uint_as_float(u & 0xffff0000U);
}
static __device__ __forceinline__ unsigned hsp_pack_step(float a, float b)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
    return (unsigned)__bfloat16_as_ushort(v.y) << 16 | __bfloat16_as_ushort(v.x);
}

template <int N> static __device__ __forceinline__ void hsp_load(const float *p, float (&r)[N])
{
    if constexpr (N % 4 == 0) {
        HSP_ALIGNED(p, 16);
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            float4 v = *(const float4 *)(p + i);
            r[i] = v.x;
            r[i + 1] = v.y;
            r[i + 2] = v.z;
            r[i + 3] = v.w;
        }
    } else {
        static_assert(N == 1, "4 fp32, or one");
        r[0] = *p;
    }
}
template <int N> static __device__ __forceinline__ void hsp_load(const double *p, double (&r)[N])
{
    if constexpr (N % 2 == 0) {
        HSP_ALIGNED(p, 16);
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            double2 v = *(const double2 *)(p + i);
            r[i] = v.x;
            r[i + 1] = v.y;
        }
    } else {
        static_assert(N == 1, "2 fp64, or one");
        r[0] = *p;
    }
}
template <int N> static __device__ __forceinline__ void hsp_load(const hsp_bf16 *p, float (&r)[N])
{
    if constexpr (N % 8 == 0) {
        HSP_ALIGNED(p, 16);
#pragma unroll
        for (int i = 0; i < N; i += 8) {
            uint4 v = *(const uint4 *)(p + i);
            hsp_unpack(v.x, r + i);
            hsp_unpack(v.y, r + i + 2);
            hsp_unpack(v.z, r + i + 4);
            hsp_unpack(v.w, r + i + 6);
        }
    } else if constexpr (N == 4) {
        HSP_ALIGNED(p, 8);
        uint2 v = *(const uint2 *)p;
        hsp_unpack(v.x, r);
        hsp_unpack(v.y, r + 2);
    } else {
        static_assert(N == 1, "8 bf16, 4 or one");
        r[0] = __bfloat162float(*p);
    }
}
template <int N> static __device__ __forceinline__ void hsp_store(float *p, const float (&r)[N])
{
    if constexpr (N % 4 == 0) {
        HSP_ALIGNED(p, 16);
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            *(float4 *)(p + i) = make_float4(r[i], r[i + 1], r[i + 2], r[i + 3]);
        }
    } else {
        static_assert(N == 1, "4 fp32, or one");
        *p = r[0];
    }
}
template <int N> static __device__ __forceinline__ void hsp_store(double *p, const double (&r)[N])
{
    if constexpr (N % 2 == 0) {
        HSP_ALIGNED(p, 16);
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            *(double2 *)(p + i) = make_double2(r[i], r[i + 1]);
        }
    } else {
        static_assert(N == 1, "2 fp64, or one");
        *p = r[0];
    }
}
template <int N> static __device__ __forceinline__ void hsp_store(hsp_bf16 *p, const float (&r)[N])
{
    if constexpr (N % 8 == 0) {
        HSP_ALIGNED(p, 16);
#pragma unroll
        for (int i = 0; i < N; i += 8) {
            *(uint4 *)(p + i) =
                make_uint4(hsp_pack_step(r[i], r[i + 1]), hsp_pack_step(r[i + 2], r[i + 3]),
                           hsp_pack_step(r[i + 4], r[i + 5]), hsp_pack_step(r[i + 6], r[i + 7]));
        }
    } else if constexpr (N == 4) {
        HSP_ALIGNED(p, 8);
        *(uint2 *)p = make_uint2(hsp_pack_step(r[0], r[1]), hsp_pack_step(r[2], r[3]));
    } else {
        static_assert(N == 1, "8 bf16, 4 or one");
        *p = __float2bfloat16_rn(r[0]);
    }
}
/* Loads from a narrower type. */
template <int N> static __device__ __forceinline__ void hsp_load(const float *p, double (&r)[N])
{
    float v[N];
    hsp_load<N>(p, v);
#pragma unroll
    for (int i = 0; i < N; i++) {
        r[i] = (double)v[i];
    }
}
template <int N> static __device__ __forceinline__ void hsp_load(const hsp_bf16 *p, double (&r)[N])
{
    float v[N];
    hsp_load<N>(p, v);
#pragma unroll
    for (int i = 0; i < N; i++) {
        r[i] = (double)v[i];
    }
}

/* ---- numbers: as exact as T can show ---- */

template <class T> static __device__ __forceinline__ hsp_wide<T> hsp_exp(hsp_wide<T> x)
{
    if constexpr (sizeof(T) == 2) {
        return __expf(x);
    } else if constexpr (sizeof(T) == 4) {
        return expf(x);
    } else {
        return exp(x);
    }
}
/* Returns 1 / (1 + e^-x). */
template <class T> static __device__ __forceinline__ hsp_wide<T> hsp_sigmoid(hsp_wide<T> x)
{
    if constexpr (sizeof(T) == 2) {
        /* because __fdividef(1, inf) is wrong */
        return __fdividef(1.0f, 1.0f + __expf(-fmaxf(x, -80.0f)));
    } else {
        return 1 / (1 + hsp_exp<T>(-x));
    }
}
/* Returns the normal distribution function of x. */
template <class T> static __device__ __forceinline__ hsp_wide<T> hsp_phi(hsp_wide<T> x)
{
    if constexpr (sizeof(T) == 2) {
        return 0.5f + 0.5f * erff(x * 0.70710678f);
    } else if constexpr (sizeof(T) == 4) {
        return normcdff(x);
    } else {
        return normcdf(x);
    }
}

/* Returns the derivative of GELU: (x Phi(x))' = Phi(x) + x e^(-x^2/2) / sqrt(2 pi). */
template <class T> static __device__ __forceinline__ hsp_wide<T> hsp_gelu_slope(hsp_wide<T> x)
{
    typedef hsp_wide<T> W;
    W e = hsp_exp<T>((W)-0.5 * x * x);
    return hsp_phi<T>(x) + (e == 0 ? (W)0 : x * e * (W)0.39894228040143267794); /* avoids inf * 0 */
}

/* ---- maps ---- */

#define HSP_MAP_THREADS 256

template <int N, class Op>
__global__ void __launch_bounds__(HSP_MAP_THREADS) hsp_map_kernel(Op op, int64_t n)
{
    int64_t first = (int64_t)blockIdx.x * HSP_MAP_THREADS + threadIdx.x;
    int64_t step = (int64_t)gridDim.x * HSP_MAP_THREADS;
    for (int64_t i = first; i < n / N; i += step) {
        op.template run<N>(i * N);
    }
    if (N > 1 && first < n % N) {
        op.template run<1>(n / N * N + first);
    }
}

static inline bool hsp_aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* Returns the blocks of a grid that walks over @items in steps of its own size. */
static inline unsigned hsp_grid(const struct hsp_cuda *g, int64_t items, int per_block)
{
    int64_t blocks = (items + per_block - 1) / per_block, most = (int64_t)g->n_sms * 16;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* Applies @op to @n > 0 elements, N at a time if @aligned. */
template <int N, class Op>
static inline void hsp_map(struct hsp_cuda *g, enum hsp_devq q, const Op &op, int64_t n,
                           bool aligned)
{
    if (aligned) {
        HSP_LAUNCH((hsp_map_kernel<N, Op>), hsp_grid(g, n / N + 1, HSP_MAP_THREADS),
                   HSP_MAP_THREADS, 0, g->stream[q], op, n);
    } else {
        HSP_LAUNCH((hsp_map_kernel<1, Op>), hsp_grid(g, n, HSP_MAP_THREADS), HSP_MAP_THREADS, 0,
                   g->stream[q], op, n);
    }
}

/* ---- maps over many tensors at once ---- */

/* tensors of a table at most; it is an argument of a kernel, 4 KiB at most */
#define HSP_TABLE_MOST  56
#define HSP_TABLE_CHUNK (HSP_MAP_THREADS * 32) /* elements that a block takes */

/* The tensors for which a table has room, beside 128 bytes of other arguments. */
template <class At>
constexpr int hsp_table_room =
    (4096 - 128) / (int)(sizeof(At) + sizeof(int64_t) + sizeof(unsigned)) < HSP_TABLE_MOST
        ? (4096 - 128) / (int)(sizeof(At) + sizeof(int64_t) + sizeof(unsigned))
        : HSP_TABLE_MOST;

/* A table of tensors for one launch. At is the type of the kernel's arguments for one tensor. */
template <class At> struct hsp_table {
    At at[hsp_table_room<At>];
    int64_t n[hsp_table_room<At>]; /* elements */
    /* the blocks of all tensors before each one; the last entry: all blocks */
    unsigned first[hsp_table_room<At> + 1];
    uint64_t aligned; /* a bit for each tensor */
    int tensors;
};

/* Appends a tensor, for which the kernel has @blocks blocks. */
template <class At>
static inline void hsp_table_put(hsp_table<At> *t, const At &at, int64_t n, unsigned blocks,
                                 bool aligned)
{
    int k = t->tensors++;
    t->at[k] = at;
    t->n[k] = n;
    t->aligned |= (uint64_t)aligned << k;
    t->first[k + 1] = t->first[k] + blocks;
}

static inline unsigned hsp_table_chunks(int64_t n)
{
    return (unsigned)((n + HSP_TABLE_CHUNK - 1) / HSP_TABLE_CHUNK);
}

/* Returns the tensor that this block works on. */
template <class At> static __device__ __forceinline__ int hsp_table_find(const hsp_table<At> &t)
{
    int lo = 0, hi = t.tensors; /* first[lo] <= block < first[hi] */
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;
        if (t.first[mid] <= blockIdx.x) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Applies @op to this block's chunk of tensor @k. */
template <int N, class At, class Op>
static __device__ __forceinline__ void hsp_table_walk(const hsp_table<At> &t, int k, const Op &op)
{
    int64_t lo = (int64_t)(blockIdx.x - t.first[k]) * HSP_TABLE_CHUNK;
    int64_t hi = lo + HSP_TABLE_CHUNK < t.n[k] ? lo + HSP_TABLE_CHUNK : t.n[k];
    if ((t.aligned >> k & 1) == 0) {
        for (int64_t i = lo + threadIdx.x; i < hi; i += HSP_MAP_THREADS) {
            op.template run<1>(i);
        }
        return;
    }
    for (int64_t i = lo + (int64_t)threadIdx.x * N; i + N <= hi; i += HSP_MAP_THREADS * N) {
        op.template run<N>(i);
    }
    int64_t rest = lo + (hi - lo) / N * N + threadIdx.x;
    if (rest < hi) {
        op.template run<1>(rest);
    }
}

/* ---- which type ---- */

/* Runs the code in ... with `type` bound to the element type of @dtype; runs nothing for i32. */
#define HSP_FOR_REAL(dtype, type, ...)    \
    do {                                  \
        if ((dtype) == HSP_F32) {         \
            typedef float type;           \
            __VA_ARGS__                   \
        } else if ((dtype) == HSP_BF16) { \
            typedef hsp_bf16 type;        \
            __VA_ARGS__                   \
        } else if ((dtype) == HSP_F64) {  \
            typedef double type;          \
            __VA_ARGS__                   \
        }                                 \
    } while (0)

/* Binds `type` as HSP_FOR_REAL does, for the types that sums and state have. */
#define HSP_FOR_WIDE(dtype, type, ...)   \
    do {                                 \
        if ((dtype) == HSP_F32) {        \
            typedef float type;          \
            __VA_ARGS__                  \
        } else if ((dtype) == HSP_F64) { \
            typedef double type;         \
            __VA_ARGS__                  \
        }                                \
    } while (0)

#endif
