/* Tries pipelines: deals groups of devices to one or more lines and finds the stages of each line.
 *
 * Example: 5 groups in 2 lines are dealt 0, 3, 4 and 1, 2, fastest first; the exact program of
 * pipeline.h then gives each line its stages.
 *
 * Purity: pure. Everything lives in the planning run's arena. */
#ifndef HSP_LINES_H
#define HSP_LINES_H
#include "daemon/planner/candidates.h"

/* Offers all pipelines over @n groups of @degree. HSP_ENOMEM, HSP_ECANCELED. */
enum hsp_status hsp_try_lines(struct hsp_search *s, const struct hsp_tp_group *x, uint32_t n,
                              uint32_t degree);

#endif
