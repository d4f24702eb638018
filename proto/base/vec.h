/* Grows arrays on the heap, by doubling, up to a mandatory maximum.
 *
 * Purity: pure (heap only).
 */
#ifndef HSP_VEC_H
#define HSP_VEC_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/err.h"

/* Makes room for at least @need elements of @elem bytes.
 *
 * @items  address of the array pointer (T **); the array comes from this function or is NULL, and
 *         is released with free().
 * @cap    its capacity in elements, updated.
 * @max    bound on the capacity in elements.
 *
 * New elements are zeroed. Returns false, and changes nothing, if need > max or without memory. */
bool hsp_grow(void *items, size_t *cap, size_t need, size_t elem, size_t max);

/* Makes the error for a call that returned false: HSP_ELIMIT "more than MAX @what" if need > max,
 * else HSP_ENOMEM "out of memory for NEED @what". @what is a plural noun. */
enum hsp_status hsp_grow_error(size_t need, size_t max, const char *what, struct hsp_err *err);

#endif
