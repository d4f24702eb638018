/* The kernels of one instruction set: included by gemm.c with ISA, TARGET, VEC_BYTES, TILE_ROWS. */
#define GEMM_REAL float
#define GEMM_NAME GEMM_CAT(f32, ISA)
#include "worker/backend/cpu/gemm.inc"
#undef GEMM_REAL
#undef GEMM_NAME
#define GEMM_REAL double
#define GEMM_NAME GEMM_CAT(f64, ISA)
#include "worker/backend/cpu/gemm.inc"
#undef GEMM_REAL
#undef GEMM_NAME
