/* Computes matrix products by our own kernels.
 *
 * Role:        computes C = alpha op(A) op(B) + beta C on one thread; the pool cuts C into ranges.
 * Threads:     any number of calls may run at once, each with its own scratch.
 * Determinism: an element of C is summed over k in ascending order, in blocks of HSP_GEMM_KC, by
 *              fused multiply-adds. The order does not depend on m, n or the position in C, so any
 *              cut of C by rows or columns gives the same bits. All our kernels have fused
 *              multiply-adds; on a processor without them hsp_gemm_kernel_at returns NULL.
 * Blocks:      Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008. */
#ifndef HSP_GEMM_H
#define HSP_GEMM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSP_GEMM_KC 256 /* terms of a sum that are added before C is stored */
#define HSP_GEMM_MC 96  /* rows of A that are packed together; a multiple of all tiles */
#define HSP_GEMM_NC 512 /* columns of B that are packed together */
/* a range of C that begins and ends at multiples of a tile wastes no work */
#define HSP_GEMM_TILE_ROWS     12
#define HSP_GEMM_TILE_COLS     32
#define HSP_GEMM_SCRATCH_BYTES ((size_t)(HSP_GEMM_MC + HSP_GEMM_NC) * (HSP_GEMM_KC + 16) * 8)

/* Describes one product; all matrices are row-major. op(A) is m x k: A itself, or, if ta is set,
 * the transpose of the stored A. op(B) is k x n likewise. */
struct hsp_gemm {
    bool ta, tb;
    int64_t m, n, k;
    const void *a, *b;
    int64_t lda, ldb, ldc;
    void *c;
    double alpha;  /* rounded to the element type */
    bool add;      /* true: beta is 1; false: beta is 0, and C need not be initialised */
    void *scratch; /* HSP_GEMM_SCRATCH_BYTES, aligned to 64 */
};

struct hsp_gemm_kernel {
    const char *name;
    void (*f32)(const struct hsp_gemm *g);
    void (*f64)(const struct hsp_gemm *g);
};

/* Returns kernel number @i of those that run on this processor; number 0 is the fastest. Returns
 * NULL beyond the last. */
const struct hsp_gemm_kernel *hsp_gemm_kernel_at(unsigned i);

#endif
