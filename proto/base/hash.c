#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

/* Inlined so that no library of ours drags in another one. */
#define XXH_INLINE_ALL
#ifdef HSP_DEBUG
#define XXH_NO_INLINE_HINTS 1 /* -Og cannot inline functions marked always_inline */
#endif
#include <xxhash.h>

struct hsp_hasher {
    XXH3_state_t *state;
};

uint64_t hsp_hash64(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, len, seed);
}

uint64_t hsp_hash_str(const char *s)
{
    return hsp_hash64(s, strlen(s), 0);
}

static struct hsp_digest from_xxh(XXH128_hash_t h)
{
    return (struct hsp_digest){.hi = h.high64, .lo = h.low64};
}

struct hsp_digest hsp_hash128(const void *data, size_t len)
{
    return from_xxh(XXH3_128bits(data, len));
}

bool hsp_digest_equal(struct hsp_digest a, struct hsp_digest b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

bool hsp_digest_is_zero(struct hsp_digest d)
{
    return d.hi == 0 && d.lo == 0;
}

void hsp_digest_hex(struct hsp_digest d, char ret_hex[HSP_DIGEST_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < 16; i++) {
        ret_hex[i] = digits[(d.hi >> (60 - 4 * i)) & 15];
        ret_hex[16 + i] = digits[(d.lo >> (60 - 4 * i)) & 15];
    }
    ret_hex[32] = '\0';
}

bool hsp_digest_parse(const char *s, struct hsp_digest *ret)
{
    uint64_t half[2] = {0, 0};
    for (unsigned i = 0; i < 32; i++) {
        char c = s[i]; /* a NUL is no digit, so nothing behind the end is read */
        uint64_t v;
        if (c >= '0' && c <= '9') {
            v = (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            v = (uint64_t)(c - 'a') + 10;
        } else {
            return false;
        }
        half[i / 16] = half[i / 16] << 4 | v;
    }
    if (s[32] != '\0') {
        return false;
    }
    *ret = (struct hsp_digest){.hi = half[0], .lo = half[1]};
    return true;
}

struct hsp_hasher *hsp_hasher_new(void)
{
    struct hsp_hasher *h = malloc(sizeof(*h));
    if (h == NULL) {
        return NULL;
    }
    h->state = XXH3_createState();
    if (h->state == NULL || XXH3_128bits_reset(h->state) != XXH_OK) {
        return hsp_hasher_free(h);
    }
    return h;
}

struct hsp_hasher *hsp_hasher_free(struct hsp_hasher *h)
{
    if (h != NULL) {
        (void)XXH3_freeState(h->state); /* cannot fail */
        free(h);
    }
    return NULL;
}

void hsp_hasher_update(struct hsp_hasher *h, const void *data, size_t len)
{
    if (len > 0) {
        (void)XXH3_128bits_update(h->state, data, len); /* fails only for a NULL input */
    }
}

struct hsp_digest hsp_hasher_digest(const struct hsp_hasher *h)
{
    return from_xxh(XXH3_128bits_digest(h->state));
}

uint64_t hsp_mix64(uint64_t x)
{
    /* Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014). */
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}
