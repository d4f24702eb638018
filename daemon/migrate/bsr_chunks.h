/* Cuts cells into chunks, so that the hops of a path overlap (bsr.h, rule 4).
 *
 * Purity:      pure and deterministic. */
#ifndef HSP_BSR_CHUNKS_H
#define HSP_BSR_CHUNKS_H
#include "daemon/migrate/bsr_impl.h"

/* Cuts the cells of @w into chunks. HSP_ELIMIT, HSP_ENOMEM. */
enum hsp_status hsp_bsr_cut(struct hsp_bsr_work *w, struct hsp_err *err);

#endif
