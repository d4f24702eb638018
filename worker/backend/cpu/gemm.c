#include "worker/backend/cpu/gemm.h"

#include <string.h>

#include "proto/base/size.h"
#include "worker/backend/cpu/cpu.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define GEMM_CAT_(a, b) a##_##b
#define GEMM_CAT(a, b)  GEMM_CAT_(a, b)

/* AVX-512 has 32 registers of 64 bytes; 24 of them hold the sums of a tile, 12 rows of 2
 * vectors. */
#define ISA              avx512
#define TARGET           __attribute__((target("avx512f,fma")))
#define VEC_BYTES        64
#define TILE_ROWS        12
#define FMA_F32(a, b, c) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define FMA_F64(a, b, c) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#include "worker/backend/cpu/gemm_tile.inc"
#undef ISA
#undef TARGET
#undef VEC_BYTES
#undef TILE_ROWS
#undef FMA_F32
#undef FMA_F64

/* AVX2 has 16 registers of 32 bytes; 12 of them hold the sums of a tile, 6 rows of 2 vectors. */
#define ISA              avx2
#define TARGET           __attribute__((target("avx2,fma")))
#define VEC_BYTES        32
#define TILE_ROWS        6
#define FMA_F32(a, b, c) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define FMA_F64(a, b, c) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#include "worker/backend/cpu/gemm_tile.inc"
#undef ISA
#undef TARGET
#undef VEC_BYTES
#undef TILE_ROWS
#undef FMA_F32
#undef FMA_F64

const struct hsp_gemm_kernel *hsp_gemm_kernel_at(unsigned i)
{
    static const struct hsp_gemm_kernel avx512 = {"avx512", gemm_f32_avx512, gemm_f64_avx512};
    static const struct hsp_gemm_kernel avx2 = {"avx2", gemm_f32_avx2, gemm_f64_avx2};
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return NULL;
    }
    if (!__builtin_cpu_supports("avx512f")) {
        i++;
    }
    return i == 0 ? &avx512 : i == 1 ? &avx2 : NULL;
}

#else

const struct hsp_gemm_kernel *hsp_gemm_kernel_at(unsigned i)
{
    (void)i;
    return NULL;
}

#endif
