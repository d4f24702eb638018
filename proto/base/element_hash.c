#include "proto/base/element_hash.h"

#include <stddef.h>

static uint64_t plain_32(const uint8_t *x, int64_t n, uint64_t key)
{
    return hsp_hash_run_32(x, n, key);
}

static uint64_t plain_64(const uint8_t *x, int64_t n, uint64_t key)
{
    return hsp_hash_run_64(x, n, key);
}

static const struct hsp_hash_kernel plain = {"plain", plain_32, plain_64};

#if defined(__x86_64__)

#include <immintrin.h>

#define HASH_CAT_(a, b) a##_##b
#define HASH_CAT(a, b)  HASH_CAT_(a, b)

#define ISA                 avx512
#define TARGET              __attribute__((target("avx512f")))
#define VEC                 __m512i
#define VEC_BYTES           64
#define LOAD(p)             _mm512_loadu_si512(p)
#define ADD                 _mm512_add_epi64
#define XOR                 _mm512_xor_si512
#define MUL                 _mm512_mul_epu32
#define SHUFFLE             _mm512_shuffle_epi32
#define SET_KEYS(first, by) keys_avx512(first, by)
TARGET static inline __m512i keys_avx512(uint64_t first, uint64_t by)
{
    uint64_t k[8];
    for (unsigned i = 0; i < 8; i++) {
        k[i] = first + i * by;
    }
    return _mm512_loadu_si512(k);
}
#include "proto/base/element_hash.inc"

#define ISA                 avx2
#define TARGET              __attribute__((target("avx2")))
#define VEC                 __m256i
#define VEC_BYTES           32
#define LOAD(p)             _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define ADD                 _mm256_add_epi64
#define XOR                 _mm256_xor_si256
#define MUL                 _mm256_mul_epu32
#define SHUFFLE             _mm256_shuffle_epi32
#define SET_KEYS(first, by) keys_avx2(first, by)
TARGET static inline __m256i keys_avx2(uint64_t first, uint64_t by)
{
    uint64_t k[4] = {first, first + by, first + 2 * by, first + 3 * by};
    return LOAD(k);
}
#include "proto/base/element_hash.inc"

#define ISA sse2
#define TARGET
#define VEC                 __m128i
#define VEC_BYTES           16
#define LOAD(p)             _mm_loadu_si128((const __m128i *)(const void *)(p))
#define ADD                 _mm_add_epi64
#define XOR                 _mm_xor_si128
#define MUL                 _mm_mul_epu32
#define SHUFFLE             _mm_shuffle_epi32
#define SET_KEYS(first, by) keys_sse2(first, by)
static inline __m128i keys_sse2(uint64_t first, uint64_t by)
{
    uint64_t k[2] = {first, first + by};
    return LOAD(k);
}
#include "proto/base/element_hash.inc"

const struct hsp_hash_kernel *hsp_hash_kernel_at(unsigned i)
{
    static const struct hsp_hash_kernel avx512 = {"avx512", run_32_avx512, run_64_avx512};
    static const struct hsp_hash_kernel avx2 = {"avx2", run_32_avx2, run_64_avx2};
    static const struct hsp_hash_kernel sse2 = {"sse2", run_32_sse2, run_64_sse2};
    if (!__builtin_cpu_supports("avx2")) {
        i += 2;
    } else if (!__builtin_cpu_supports("avx512f")) {
        i++;
    }
    return i == 0 ? &avx512 : i == 1 ? &avx2 : i == 2 ? &sse2 : i == 3 ? &plain : NULL;
}

#else

const struct hsp_hash_kernel *hsp_hash_kernel_at(unsigned i)
{
    return i == 0 ? &plain : NULL;
}

#endif

uint64_t hsp_hash_32(const uint8_t *x, int64_t n, uint64_t key)
{
    return hsp_hash_kernel_at(0)->run_32(x, n, key);
}

uint64_t hsp_hash_64(const uint8_t *x, int64_t n, uint64_t key)
{
    return hsp_hash_kernel_at(0)->run_64(x, n, key);
}
