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
 * New elements are zeroed. False, with nothing changed, when need > max or without memory. */
bool hsp_grow(void *items, size_t *cap, size_t need, size_t elem, size_t max);

/* The error of a call that gave false: HSP_ELIMIT "more than MAX @what" when need > max, else
 * HSP_ENOMEM "out of memory for NEED @what". @what: a plural. */
enum hsp_status hsp_grow_error(size_t need, size_t max, const char *what, struct hsp_err *err);

#endif
