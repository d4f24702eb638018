/* Finds the functions of a loaded library, as a table of pointers.
 *
 * Purity: shell (dlsym).
 */
#ifndef HSP_DL_SYMBOLS_H
#define HSP_DL_SYMBOLS_H
#include <stdbool.h>
#include <stddef.h>

#include "proto/base/err.h"

struct hsp_dlsym {
    const char *name;
    size_t at;     /* of the pointer in the table */
    bool optional; /* NULL where the library lacks it */
};

/* Fills @table from the library @name, whose handle from dlopen is @handle. HSP_EUNSUPPORTED: the
 * library lacks a symbol that is not optional; @table holds a part then. */
enum hsp_status hsp_dlsyms_find(void *handle, const char *name, const struct hsp_dlsym *symbols,
                                size_t n, void *table, struct hsp_err *err);

#endif
