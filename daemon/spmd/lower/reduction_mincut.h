/* Computes the minimum cut of place_reductions.h: the ops before which sums are completed.
 *
 * A maximum flow by shortest augmenting paths (Edmonds and Karp, 1972). Sums of different blocks of
 * a model do not touch, so paths are short.
 *
 * Purity:    pure. */
#ifndef HSP_REDUCTION_MINCUT_H
#define HSP_REDUCTION_MINCUT_H
#include "daemon/spmd/lower/place_reductions.h"

/* @ret_first[op]: the op's sums are completed before it. Costs are >= 0 and add up to far less than
 * 2^62. HSP_ENOMEM. */
enum hsp_status hsp_sums_cut(const struct hsp_sums *x, bool *ret_first, struct hsp_err *err);

#endif
