/* Compares the sections that a plan states with those the compiler derives, and names the first
 * difference.
 *
 * Both sides are spelled out, a line per name, sorted and compared, so that neither the order of
 * lines nor the grouping of names matters.
 *
 * Purity:    pure and deterministic (D13). */
#ifndef HSP_TOTAL_CHECK_H
#define HSP_TOTAL_CHECK_H
#include "daemon/plan/plan.h"

/* Whether @stated agrees with @total in the sections it has. HSP_EINVAL names the place and both
 * sides. */
enum hsp_status hsp_plan_agrees(const struct hsp_plan *stated, const struct hsp_plan *total,
                                struct hsp_err *err);

#endif
