/* Sets the element type of the .inc files to fp32, with its constants and functions. */
#ifndef HSP_REAL_F32_H
#define HSP_REAL_F32_H
#define REAL           float
#define REAL_BITS      uint32_t
#define REAL_SBITS     int32_t
#define REAL_MANT      23
#define REAL_BIAS      127
#define REAL_ROUND     12582912.0F /* 1.5 * 2^23: adding it rounds to an integer */
#define REAL_EXP_MIN   -87.0F
#define REAL_EXP_MAX   88.0F
#define REAL_LN2_HI    0.693145752F
#define REAL_LN2_LO    1.42860677e-6F
#define REAL_EXP_TERMS 7
#define REAL_PHI_TERMS 11
#define REAL_SQRT      sqrtf
#define FN(name)       name##_f32
#define GEMM           cblas_sgemm
#define OWN_GEMM       f32
#endif
