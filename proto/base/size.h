/* Checks arithmetic on sizes and counts: false means overflow, and *ret is then untouched.
 * Purity: pure. */
#ifndef HSP_SIZE_H
#define HSP_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HSP_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline bool hsp_mul_size(size_t a, size_t b, size_t *ret)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *ret = r;
    return true;
}

static inline bool hsp_add_size(size_t a, size_t b, size_t *ret)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *ret = r;
    return true;
}

static inline bool hsp_mul_i64(int64_t a, int64_t b, int64_t *ret)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *ret = r;
    return true;
}

static inline bool hsp_add_i64(int64_t a, int64_t b, int64_t *ret)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *ret = r;
    return true;
}

static inline int64_t hsp_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t hsp_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
