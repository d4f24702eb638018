/* @@SENTENCE@@ bsr_order: purpose to be written. */
#ifndef HSP_BSR_ORDER_H
#define HSP_BSR_ORDER_H
#include "daemon/migrate/bsr_impl.h"

/* The drafts in the order in which a list schedule starts them, @ret[n_drafts]. */
enum hsp_status hsp_bsr_order(const struct hsp_bsr_work *w, uint32_t *ret, struct hsp_err *err);

#endif
