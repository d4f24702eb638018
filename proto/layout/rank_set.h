/* Handles sets of ranks as bit masks: union, intersection, inclusion, size. Purity: pure. */
#ifndef HSP_RANK_SET_H
#define HSP_RANK_SET_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/layout/annot.h" /* HSP_MAX_RANKS */

#define HSP_SET_WORDS (HSP_MAX_RANKS / 64)

struct hsp_rank_set {
    uint64_t w[HSP_SET_WORDS];
};

static inline void hsp_set_add(struct hsp_rank_set *s, uint32_t rank)
{
    s->w[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline bool hsp_set_has(const struct hsp_rank_set *s, uint32_t rank)
{
    return (s->w[rank / 64] >> rank % 64 & 1) != 0;
}

static inline struct hsp_rank_set hsp_set_and(const struct hsp_rank_set *a,
                                              const struct hsp_rank_set *b)
{
    struct hsp_rank_set s;
    for (size_t i = 0; i < HSP_SET_WORDS; i++) {
        s.w[i] = a->w[i] & b->w[i];
    }
    return s;
}

static inline void hsp_set_join(struct hsp_rank_set *a, const struct hsp_rank_set *b)
{
    for (size_t i = 0; i < HSP_SET_WORDS; i++) {
        a->w[i] |= b->w[i];
    }
}

static inline bool hsp_set_equal(const struct hsp_rank_set *a, const struct hsp_rank_set *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static inline bool hsp_set_inside(const struct hsp_rank_set *in, const struct hsp_rank_set *out)
{
    struct hsp_rank_set s = hsp_set_and(in, out);
    return hsp_set_equal(&s, in);
}

static inline uint32_t hsp_set_count(const struct hsp_rank_set *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < HSP_SET_WORDS; i++) {
        for (uint64_t w = s->w[i]; w != 0; w &= w - 1) {
            n++;
        }
    }
    return n;
}

#endif
