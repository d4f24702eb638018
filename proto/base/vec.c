#include "proto/base/vec.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/size.h"

enum { VEC_MIN = 8 }; /* first allocation, in elements */

bool hsp_grow(void *items, size_t *cap, size_t need, size_t elem, size_t max)
{
    if (need <= *cap) {
        return true;
    }
    if (need > max) {
        return false;
    }
    size_t n = *cap < VEC_MIN ? VEC_MIN : *cap;
    while (n < need) {
        n = n > max / 2 ? max : n * 2;
    }
    n = n > max ? max : n;
    size_t bytes;
    if (!hsp_mul_size(n, elem, &bytes)) {
        return false;
    }
    void *p; /* The pointer is read and written as bytes, since the caller's variable is a T *, not
              * a void *. */
    memcpy(&p, items, sizeof(p));
    p = realloc(p, bytes);
    if (p == NULL) {
        return false;
    }
    memset((char *)p + *cap * elem, 0, bytes - *cap * elem);
    memcpy(items, &p, sizeof(p));
    *cap = n;
    return true;
}

enum hsp_status hsp_grow_error(size_t need, size_t max, const char *what, struct hsp_err *err)
{
    return need > max ? hsp_err_set(err, HSP_ELIMIT, 0, "more than %zu %s", max, what)
                      : hsp_err_nomem(err, "%zu %s", need, what);
}
