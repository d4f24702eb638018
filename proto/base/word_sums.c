#include "proto/base/word_sums.h"

#include "proto/base/simd.h"

/* Vector k of n was summed n - k times, so its number is n less that. Bytes of a word ascend with
 * its weight, so that the first word of a lane is its lower half. */
void hsp_sum_lanes_end(const struct hsp_sum_lanes *l, int64_t first, struct hsp_word_sums *to)
{
    const uint64_t n = (uint64_t)l->n;
    for (uint64_t j = 0; j < HSP_SUM_WORDS / 2; j++) {
        uint64_t upper = l->upper[j], lower = l->both[j] - (upper << 32);
        uint64_t upper_later = l->upper_later[j];
        uint64_t lower_later = l->both_later[j] - (upper_later << 32);
        uint64_t at = (uint64_t)first + 2 * j;
        to->sum += lower + upper;
        to->places += HSP_SUM_WORDS * (n * (lower + upper) - lower_later - upper_later) +
                      at * lower + (at + 1) * upper;
    }
}

HSP_CLONES void hsp_word_sums_add(struct hsp_word_sums *to, const void *x, int64_t n, int64_t first)
{
    struct hsp_sum_lanes l = {.n = 0};
    hsp_sum_lanes_add(&l, x, n / HSP_SUM_WORDS);
    hsp_sum_lanes_end(&l, first, to);
    for (int64_t i = n - n % HSP_SUM_WORDS; i < n; i++) {
        uint32_t w;
        memcpy(&w, (const uint8_t *)x + 4 * i, sizeof w);
        to->sum += w;
        to->places += (uint64_t)(first + i) * w;
    }
}
