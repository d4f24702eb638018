/* Reads and writes little-endian numbers in headers of a fixed layout (a stream of them: buf.h).
 * Purity: pure. The caller owns at least @n bytes at @p; @n is 1 to 8. */
#ifndef HSP_LE_H
#define HSP_LE_H

#include <stdint.h>

static inline void hsp_le_put(uint8_t *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> (8 * i));
    }
}

static inline uint64_t hsp_le_get(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = n; i-- > 0;) {
        v = v << 8 | p[i];
    }
    return v;
}

#endif
