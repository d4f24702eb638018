/* Stands in for CUDA's header of the same name: bfloat16 as the kernels of worker/backend/cuda use
 * it. C++ only. */
#ifndef HSP_CUDA_BF16_H
#define HSP_CUDA_BF16_H
#ifdef __cplusplus
#include "cuda_runtime.h"

struct __align__(2) __nv_bfloat16
{
    unsigned short bits;
};
struct __align__(4) __nv_bfloat162
{
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 v)
{
    return __uint_as_float((unsigned)v.bits << 16);
}
/* To the nearest, ties to even; a NaN is the one the device makes. */
static inline __nv_bfloat16 __float2bfloat16_rn(float v)
{
    unsigned u = __float_as_uint(v);
    if (v != v) {
        return __nv_bfloat16{0x7fff};
    }
    return __nv_bfloat16{(unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
static inline __nv_bfloat16 __float2bfloat16(float v)
{
    return __float2bfloat16_rn(v);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return __nv_bfloat162{__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v)
{
    return make_float2(__bfloat162float(v.x), __bfloat162float(v.y));
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v)
{
    return v.bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v)
{
    return __nv_bfloat16{v};
}
#endif
#endif
