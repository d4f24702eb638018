/* @@SENTENCE@@ rings: purpose to be written.
 *
 * Purity: pure. Everything lives in the planning run's arena.
 */
#ifndef HSP_RINGS_H
#define HSP_RINGS_H
#include "daemon/planner/candidates.h"

/* Streams of 2, 4, 8, ... of the @n single devices that cut each sequence (rings.c). */
enum hsp_status hsp_try_rings(struct hsp_search *s, const struct hsp_super *x, uint32_t n);

#endif
