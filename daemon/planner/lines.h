/* @@SENTENCE@@ lines: purpose to be written.
 *
 * Purity: pure. Everything lives in the planning run's arena.
 */
#ifndef HSP_LINES_H
#define HSP_LINES_H
#include "daemon/planner/candidates.h"

/* All pipelines over @n groups of @degree (lines.c). */
enum hsp_status hsp_try_lines(struct hsp_search *s, const struct hsp_super *x, uint32_t n,
                              uint32_t degree);

#endif
