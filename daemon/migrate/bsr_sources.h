/* Chooses for each chunk, and for each network domain that lacks the chunk, the network domain that
 * sends it there (bsr.h, rule 1). A network domain is a set of hosts that the network does not
 * part.
 *
 * The bytes that enter a domain pass its network cards whichever domain sends them, so only the
 * bytes that leave domains can be balanced. Cells that only one domain can send are assigned first.
 * The other cells follow, the largest first, each to the domain with the least to send for its
 * cards (list scheduling for machines of unequal speed). Then each of these cells is assigned once
 * more, with the loads of all others known.
 *
 * Purity:      pure and deterministic. */
#ifndef HSP_BSR_SOURCES_H
#define HSP_BSR_SOURCES_H
#include "daemon/migrate/bsr_impl.h"

/* Fills the hops of all cells of @w. HSP_ENOMEM. */
enum hsp_status hsp_bsr_hops(struct hsp_bsr_work *w, struct hsp_err *err);

#endif
