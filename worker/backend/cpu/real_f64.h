/* Sets the element type of the .inc files to fp64, with its constants and functions. */
#ifndef HSP_REAL_F64_H
#define HSP_REAL_F64_H
#define REAL           double
#define REAL_BITS      uint64_t
#define REAL_SBITS     int64_t
#define REAL_MANT      52
#define REAL_BIAS      1023
#define REAL_ROUND     6755399441055744.0 /* 1.5 * 2^52: adding it rounds to an integer */
#define REAL_EXP_MIN   -708.0
#define REAL_EXP_MAX   709.0
#define REAL_LN2_HI    6.93147180369123816490e-01
#define REAL_LN2_LO    1.90821492927058770002e-10
#define REAL_EXP_TERMS 13
#define REAL_PHI_TERMS 23
#define REAL_SQRT      sqrt
#define FN(name)       name##_f64
#define GEMM           cblas_dgemm
#define OWN_GEMM       f64
#endif
