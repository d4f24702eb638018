/* Sums the words of an array, and the words times their numbers: a check of state that costs next
 * to nothing beside the update that reads and writes it.
 *
 * Word i is x_i, of 32 bits, in the order of memory. `sum` is the sum of x_i, `places` that of
 * i * x_i, both mod 2^64. It is the checksum of Fletcher (1982) with weights that ascend, so that
 * the sums of parts add up in any order: of ranges of one array, by threads, blocks and vectors.
 *
 * In an array of less than 2^32 words each change of one word or of two is seen: an exchange of two
 * words, for example, or a flipped sign bit in each of two. Three words or more may change so that
 * both sums stay, for example by d, -2d and d in words that follow each other. A random change
 * stays unseen with a probability of about 2^-64.
 *
 * Purity:  pure.
 * Example: of the words 5, 0, 7 `sum` is 12 and `places` is 14; of 7, 0, 5 they are 12 and 10.
 */
#ifndef HSP_WORD_SUMS_H
#define HSP_WORD_SUMS_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct hsp_word_sums {
    uint64_t sum, places;
};

static inline bool hsp_word_sums_equal(const struct hsp_word_sums *a, const struct hsp_word_sums *b)
{
    return a->sum == b->sum && a->places == b->places;
}

/* Adds @n words at @x, which may stand anywhere; the first has number @first. */
void hsp_word_sums_add(struct hsp_word_sums *to, const void *x, int64_t n, int64_t first);

/* ---- in vectors: lanes that go on from block to block of a range, and are added up once ---- */

#define HSP_SUM_WORDS 16 /* words of a vector */

typedef uint64_t hsp_sum_vector __attribute__((vector_size(4 * HSP_SUM_WORDS)));

/* A lane has two words. Sums of sums are Fletcher's: word by word no product. The upper word is
 * summed alone, too; the sum of both then gives the lower one. */
struct hsp_sum_lanes {
    hsp_sum_vector both, upper;             /* sums */
    hsp_sum_vector both_later, upper_later; /* sums of these after each vector */
    int64_t n;                              /* vectors */
};

/* @n vectors at @x, which follow those before. */
static inline __attribute__((always_inline)) void hsp_sum_lanes_add(struct hsp_sum_lanes *l,
                                                                    const void *x, int64_t n)
{
    hsp_sum_vector both = l->both, upper = l->upper, w;
    hsp_sum_vector both_later = l->both_later, upper_later = l->upper_later;
    for (int64_t k = 0; k < n; k++) {
        memcpy(&w, (const uint8_t *)x + 4 * HSP_SUM_WORDS * k, sizeof w);
        both += w;
        upper += w >> 32;
        both_later += both;
        upper_later += upper;
    }
    l->both = both;
    l->upper = upper;
    l->both_later = both_later;
    l->upper_later = upper_later;
    l->n += n;
}

/* Adds the words of @l, of which the first has number @first. */
void hsp_sum_lanes_end(const struct hsp_sum_lanes *l, int64_t first, struct hsp_word_sums *to);

#endif
