/* Names the element types of tensors, and gives their sizes.
 *
 * Role:    shared by graph, programs, backends and files.
 * Purity:  pure. */
#ifndef HSP_DTYPE_H
#define HSP_DTYPE_H
#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h> /* uint8_t */

#define HSP_MAX_RANK 4 /* no op of the catalogue needs more; boxes are arrays of this size */

/* Numbers are those of program and state files: new types stand last. */
enum hsp_dtype { HSP_F32, HSP_F64, HSP_I32, HSP_BF16 };
#define HSP_N_DTYPES 4

/* Bytes of one element. */
static inline size_t hsp_dtype_size(enum hsp_dtype t)
{
    return t == HSP_F64 ? 8 : t == HSP_BF16 ? 2 : 4;
}

/* Whether elements are real numbers. */
static inline bool hsp_dtype_real(enum hsp_dtype t)
{
    return t != HSP_I32;
}

/* The type in which sums over, and statistics of, elements of type @t are kept. */
static inline enum hsp_dtype hsp_dtype_wide(enum hsp_dtype t)
{
    return t == HSP_BF16 ? HSP_F32 : t;
}

/* "fp32", "fp64", "i32", "bf16". */
const char *hsp_dtype_name(enum hsp_dtype t);

#endif
