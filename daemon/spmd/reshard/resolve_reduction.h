/* Decides the moves of a cell with several addends: the ranks that add, the rank that holds the
 * sum, the ranks that get the sum from it.
 *
 * Example: ranks 0 and 1 hold an addend each. Both need the sum: an all-reduce. Only rank 0 needs
 * it: a reduce-scatter whose whole result is on rank 0. Only rank 2 needs it: the same, and rank 0
 * sends.
 *
 * Role:      called by resolve.c.
 * Purity:    pure and deterministic; ties go to the lower rank. */
#ifndef HSP_RESOLVE_REDUCTION_H
#define HSP_RESOLVE_REDUCTION_H
#include "daemon/spmd/reshard/resolve_impl.h"

/* Drafts the moves of @t, a cell with several addends. Fails as hsp_resolve. */
enum hsp_status hsp_resolver_sum(struct hsp_resolver *r, const struct hsp_move_task *t,
                                 struct hsp_err *err);

#endif
