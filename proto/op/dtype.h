/* Element types of tensors.
 *
 * Role:    shared by graph, programs, backends and files.
 * Purity:  pure. */
#ifndef HSP_DTYPE_H
#define HSP_DTYPE_H
#include <stddef.h> /* size_t */
#include <stdint.h> /* uint8_t */

#define HSP_MAX_RANK 4 /* no op of the catalogue needs more; boxes are arrays of this size */

enum hsp_dtype { HSP_F32, HSP_F64, HSP_I32 };

/* Bytes of one element. */
static inline size_t hsp_dtype_size(enum hsp_dtype t)
{
    return t == HSP_F64 ? 8 : 4;
}

/* "fp32", "fp64", "i32". */
const char *hsp_dtype_name(enum hsp_dtype t);

#endif
