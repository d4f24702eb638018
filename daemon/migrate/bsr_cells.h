/* Finds the domains of the network and the cells of the index space, the input of all later steps
 * of the batched send-receive (bsr.h).
 *
 * Example: rank 0 has [0:8], ranks 1 and 2 want [0:4] and [0:8]: cells [0:4] for 1 and 2, [4:8] for
 * 2.
 *
 * Purity:      pure and deterministic. */
#ifndef HSP_BSR_CELLS_H
#define HSP_BSR_CELLS_H
#include "daemon/migrate/bsr.h"
#include "daemon/migrate/bsr_impl.h"

/* The class of the link between two ranks. */
enum hsp_link_class hsp_bsr_link(const struct hsp_bsr_net *net, uint32_t from, uint32_t to);
/* True when no row may go between two ranks. */
bool hsp_bsr_apart(const struct hsp_bsr_net *net, uint32_t x, uint32_t y);
/* Finds network domains and cells of all parameters; g, net and opts of @w are set. Errors as
 * hsp_bsr_plan.
 */
enum hsp_status hsp_bsr_work_init(struct hsp_bsr_work *w, const struct hsp_cover *have,
                                  const struct hsp_cover *want, struct hsp_err *err);
void hsp_bsr_work_fini(struct hsp_bsr_work *w);

#endif
