#include "proto/base/place.h"

size_t hsp_place(const void *key, const void *list, size_t n, size_t size,
                 int (*order)(const void *key, const void *item))
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order(key, (const char *)list + mid * size) > 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}
