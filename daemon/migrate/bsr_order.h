/* Orders the rows of the batched send-receive, so that executing them in order cannot deadlock
 * (bsr.h, rule 4).
 *
 * Each card and each device sends one chunk after the other and receives one after the other. A
 * chunk can start when its sender has it and both ends are free. Of the chunks that wait at one
 * sender the first in line goes, and the earliest start of all is taken next (list scheduling,
 * Graham 1966). So chunks that are passed on move while the next ones follow, and a rank that takes
 * the rows in this order has each chunk before it passes the chunk on.
 *
 * Purity:      pure and deterministic. */
#ifndef HSP_BSR_ORDER_H
#define HSP_BSR_ORDER_H
#include "daemon/migrate/bsr_impl.h"

/* Orders the drafts of @w as a list schedule starts them: @ret[n_drafts]. HSP_ENOMEM. */
enum hsp_status hsp_bsr_order(const struct hsp_bsr_work *w, uint32_t *ret, struct hsp_err *err);

#endif
