/* Finds the files that a pattern stands for.
 *
 * Role:      data.path, for dataset.h. Not glob(3): without memory that one leaves folders out, so
 *            files would be taken for absent, or frees memory twice (glibc 2.36).
 * Purity:    shell (reads folders).
 * Ownership: names belong to the caller: hsp_names_free.
 * Bounds:    @max names; paths of PATH_MAX.
 */
#ifndef HSP_PATTERN_H
#define HSP_PATTERN_H
#include <stdbool.h>
#include <stddef.h>
#include "proto/base/err.h"

struct hsp_names {
    char **name;
    size_t n, cap;
};

/* Returns true if @path is a pattern, not a name. */
bool hsp_is_pattern(const char *path);

/* Files of @pattern, as glob(7) says: * and ? and [...] within the parts of a path, a leading dot
 * only by itself, \ before a literal character; sorted as strcmp does. None: HSP_OK. Files that
 * this user may not read are left out. HSP_ELIMIT: more than @max, or a path too long; HSP_EIO,
 * HSP_ENOMEM; @ret is empty then. */
enum hsp_status hsp_pattern_files(const char *pattern, size_t max, struct hsp_names *ret,
                                  struct hsp_err *err);
void hsp_names_free(struct hsp_names *n);

#endif
