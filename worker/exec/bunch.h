/* Instructions that are given to a backend as one.
 *
 *   many    one op over many tensors (updates, square sums, copies of narrower type): nothing of it
 *           touches what another one writes;
 *   chain   the gradient of a norm, its sum with that of the other branch, and the sums over rows that read
 *           both; or the gradient of an activation and the sums over its rows.
 *
 * Role:   read off the program when an engine is opened, for backends that have run_many or
 *         run_chain.
 * Purity: pure.
 */
#ifndef HSP_BUNCH_H
#define HSP_BUNCH_H
#include "worker/exec/route.h"

#define HSP_MANY_CALLS  56 /* most calls at once */
#define HSP_CHAIN_CALLS 4

struct hsp_bunch {
    uint32_t
        n; /* instructions from this one on, those included that their ops have done; 0: it stands alone */
    uint8_t calls; /* of them are ops that are given */
    bool chain;
};

/* What goes together in the pieces of the compute queue of @p, a program that was checked, whose routes are @r. @many: ops, a bit each; @chains: also
 * chains. To be freed by free(); NULL without memory. */
struct hsp_bunch *hsp_bunches_new(const struct hsp_program *p, const struct hsp_route *r,
                                  uint64_t many, bool chains);

#endif
