/* Chooses uneven shares: the number of sequences of each device, and its part of a tensor.
 *
 * Role:        used by the planner for pipelines (whole sequences, exact) and for tensor groups
 *              (fractions over several segments with memory caps, by linear program).
 * Purity:      pure; hsp_shares_segments calls daemon/lp (deterministic).
 * Units:       microseconds. */
#ifndef HSP_SHARES_H
#define HSP_SHARES_H

#include <stdint.h>

#include "daemon/lp/lp.h"
#include "proto/base/arena.h"

/* Time of one receiver with n sequences: fixed + ceil(n / micro) * micro_us + n * seq_us. */
struct hsp_share_dev {
    double fixed_us, micro_us, seq_us;
    uint32_t micro;    /* sequences in a micro-batch, >= 1 */
    uint32_t min, max; /* bounds of its share */
};

double hsp_share_us(const struct hsp_share_dev *d, uint32_t n);

/* Splits @total sequences so that the slowest receiver is as fast as possible; ret[n].
 *
 * Exact: the time of a receiver never falls with its share, so handing out one sequence after the
 * other to the device that would finish it first is optimal; the start is the continuous optimum
 * rounded down, which such a hand-out passes through. Ties go to the lower index.
 * HSP_EINFEASIBLE: the bounds do not allow @total (says which sum). */
enum hsp_status hsp_shares_minmax(uint32_t n, const struct hsp_share_dev *dev, uint32_t total,
                                  uint32_t *ret, double *ret_us, struct hsp_err *err);

/* One vector of fractions w (sum 1) used by several segments, each as slow as its slowest member:
 * minimise sum over k of max over j of (fixed[k][j] + slope[k][j] * w[j]),
 * subject to mem[j] * w[j] <= cap[j]. */
struct hsp_segments {
    uint32_t n, n_segments;
    const double *slope, *fixed; /* n_segments rows of n */
    const double *mem, *cap;     /* n; bytes */
};

/* ret_w[n] by linear program. HSP_EINFEASIBLE: the caps leave no room. */
enum hsp_status hsp_shares_segments(const struct hsp_segments *s,
                                    const struct hsp_lp_limits *limits, double *ret_w,
                                    double *ret_us, struct hsp_err *err);

#endif
