/* Declares the code that the kernels of the CPU backend share for both element types.
 *
 * Kernels are written once, for any type, in .inc files; kernels_f32.c and kernels_f64.c include
 * them with REAL set (real_f32.h, real_f64.h). Every loop has a fixed order of summation that does
 * not depend on the number of threads or on the instruction set, and the files are built without
 * contraction. So all ops that do not call GEMM give the same bits on every x86-64 machine. */
#ifndef HSP_CPU_H
#define HSP_CPU_H
#include "proto/base/simd.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/gemm.h"
#include "worker/backend/cpu/work_pool.h"

/* Unrolls a loop over the terms of a series, so that the loop around it becomes vector code. */
#if defined(__clang__)
#define HSP_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HSP_UNROLL _Pragma("GCC unroll 32")
#endif

/* Tells the compiler that no iteration of the loop writes memory that another iteration reads,
 * though an output may be an input. */
#if defined(__clang__)
#define HSP_TURNS_APART
#else
#define HSP_TURNS_APART _Pragma("GCC ivdep")
#endif

#define HSP_CPU_GRAIN 16384 /* the elements of a cheap loop for which it pays to wake a thread */
/* The bytes that a thread takes at once of work beside the step (the state): some 10 to 50 us. */
#define HSP_CPU_BLOCK ((int64_t)512 << 10)
#define HSP_CPU_LANES 16 /* the partial sums of a reduction */

struct hsp_cpu {
    struct hsp_backend base; /* first: the public object */
    struct hsp_workpool *pool;
    uint8_t *scratch; /* owned, 64-aligned; scratch_bytes for each worker */
    size_t scratch_bytes;
    const struct hsp_gemm_kernel *gemm; /* NULL: OpenBLAS */
    uint8_t *pack; /* owned, 64-aligned; HSP_GEMM_SCRATCH_BYTES for each worker, with gemm */
    uint8_t *wide; /* owned, 64-aligned; bf16 operands of an op in fp32 (narrow.h) */
    size_t wide_bytes;
};

typedef enum hsp_status (*hsp_cpu_kernel)(struct hsp_cpu *cpu, const struct hsp_call *c,
                                          struct hsp_err *err);

/* Opens a CPU backend with @threads workers of our own pool (1: the calling thread only). OpenBLAS
 * is single-threaded; threads of our pool call it. */
enum hsp_status hsp_backend_cpu_open(int threads, struct hsp_backend **ret, struct hsp_err *err);

static inline void *hsp_cpu_scratch(const struct hsp_cpu *cpu, unsigned worker)
{
    return cpu->scratch + (size_t)worker * cpu->scratch_bytes;
}

static inline int64_t hsp_array_count(const struct hsp_array *a)
{
    int64_t n = 1;
    for (uint8_t d = 0; d < a->rank; d++) {
        n *= a->ext[d];
    }
    return n;
}

/* Runs @c, which passed hsp_call_check with the real type @real, by @k, the kernel of the op for
 * @real (for bf16 the kernel of fp32). Returns HSP_EUNSUPPORTED if @k is NULL, HSP_ENOMEM, or an
 * error of @k. */
enum hsp_status hsp_cpu_run_kernel(struct hsp_cpu *cpu, const struct hsp_call *c,
                                   enum hsp_dtype real, hsp_cpu_kernel k, struct hsp_err *err);

/* The kernels by op. An entry is NULL if the element type does not matter: cpu.c runs these ops. */
extern const hsp_cpu_kernel hsp_cpu_kernels_f32[HSP_N_OPS];
extern const hsp_cpu_kernel hsp_cpu_kernels_f64[HSP_N_OPS];
void hsp_cpu_accumulate_f32(struct hsp_cpu *cpu, void *dst, const void *src, int64_t n);
void hsp_cpu_accumulate_f64(struct hsp_cpu *cpu, void *dst, const void *src, int64_t n);

#endif
