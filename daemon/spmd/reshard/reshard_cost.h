/* Predicts the time of a Reshard from its moves and the links between ranks.
 *
 * Role:      total_plan.c prints it with `hspmdctl plan -o yaml`; no choice of the compiler depends
 *            on it.
 * Purity:    pure. */
#ifndef HSP_RESHARD_COST_H
#define HSP_RESHARD_COST_H
#include "daemon/spmd/reshard/resolve.h"

/* Microseconds from the time all ranks are ready until the last one is done; copies on a rank count
 * nothing. Collectives are priced as executed, by direct exchange: a rank sends and receives at
 * once, and its messages follow each other; moves of different ranks overlap. @elem: bytes of an
 * element. */
double hsp_moves_us(const struct hsp_moves *m, size_t elem, const struct hsp_rank_links *links);

#endif
