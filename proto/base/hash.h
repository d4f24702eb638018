/* Hashes contents (XXH3), and mixes integers.
 *
 * Purity: pure. The values are part of formats (digests in plans, segments, checkpoints): they
 *         never change.
 */
#ifndef HSP_HASH_H
#define HSP_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hsp_digest {
    uint64_t hi;
    uint64_t lo;
};

enum { HSP_DIGEST_HEX = 33 }; /* 32 digits and a NUL */

uint64_t hsp_hash64(const void *data, size_t len, uint64_t seed);
uint64_t hsp_hash_str(const char *s); /* hsp_hash64 of the text, seed 0 */
struct hsp_digest hsp_hash128(const void *data, size_t len);

bool hsp_digest_equal(struct hsp_digest a, struct hsp_digest b);
/* True for the digest 0, which often says "none". */
bool hsp_digest_is_zero(struct hsp_digest d);

/* 32 lower-case hex digits, high half first. */
void hsp_digest_hex(struct hsp_digest d, char ret_hex[HSP_DIGEST_HEX]);

/* Reads exactly 32 lower-case hex digits; false otherwise. */
bool hsp_digest_parse(const char *s, struct hsp_digest *ret);

/* A digest of data that arrives in pieces; equal to hsp_hash128 of the whole. */
struct hsp_hasher;                                        /* opaque, heap */
struct hsp_hasher *hsp_hasher_new(void);                  /* NULL without memory */
struct hsp_hasher *hsp_hasher_free(struct hsp_hasher *h); /* NULL allowed; returns NULL */
void hsp_hasher_update(struct hsp_hasher *h, const void *data, size_t len);
struct hsp_digest hsp_hasher_digest(const struct hsp_hasher *h);

/* The finaliser of splitmix64: a bijection that spreads every input bit. */
uint64_t hsp_mix64(uint64_t x);

#endif
