/* Chooses the cards and devices that each chunk goes through (bsr.h, rules 2 and 3), so that no row
 * goes between ranks that cannot reach each other.
 *
 * Purity:      pure and deterministic; ties go to the lower rank. */
#ifndef HSP_BSR_ROUTES_H
#define HSP_BSR_ROUTES_H
#include "daemon/migrate/bsr_impl.h"

/* Drafts the rows of all chunks. HSP_ELIMIT, HSP_ENOMEM. */
enum hsp_status hsp_bsr_route(struct hsp_bsr_work *w, struct hsp_err *err);

#endif
