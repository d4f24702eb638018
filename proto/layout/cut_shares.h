/* Divides a number of units in proportion to weights, so that all sides derive the same cut
 * positions from the same shares.
 *
 * The largest remainder decides, ties go to the lower index. Example: 10 units by the weights 1, 1,
 * 1 give the positions 0, 4, 7, 10.
 *
 * Purity: pure. */
#ifndef HSP_CUT_SHARES_H
#define HSP_CUT_SHARES_H
#include <stdint.h>

/* Splits @total units in proportion to the @n weights @w. @ret[0..n] are the cut positions: ret[0]
 * = 0, ret[n] = total. */
void hsp_cut_shares(int64_t total, uint32_t n, const int64_t *w, int64_t *ret);
/* Splits @extent elements likewise at multiples of @grain >= 1. The last unit may be short. */
void hsp_cut_grains(int64_t extent, int64_t grain, uint32_t n, const int64_t *w, int64_t *ret);

#endif
