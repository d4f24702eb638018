/* Drafts the moves that need no group: a copy within a rank and a send between two ranks.
 *
 * Role:      called by resolve.c for values and by resolve_reduction.c for sums.
 * Purity:    pure and deterministic. */
#ifndef HSP_COPY_SEND_H
#define HSP_COPY_SEND_H
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

struct hsp_holder;
struct hsp_move_task;
struct hsp_resolver;

/* Returns the microseconds per byte of the link between two ranks. Returns 0 if all links are
 * alike, or within a rank. */
double hsp_resolver_us(const struct hsp_resolver *r, uint32_t from, uint32_t to);
/* Returns the input that @h sends (hsp_moves.pick). If several inputs of the rank hold the cell, it
 * is the input with the addend of @h; if one does, it is HSP_MOVE_SUM: all that hold the cell. */
uint8_t hsp_holder_pick(const struct hsp_holder *h);
/* Drafts a copy of cell @t within @rank. HSP_ENOMEM. */
enum hsp_status hsp_resolver_copy(struct hsp_resolver *r, const struct hsp_move_task *t,
                                  uint32_t rank, uint8_t pick, struct hsp_err *err);
/* Drafts a send of cell @t, and counts its elements as load of @from. @of_sums: of the result of an
 * earlier move. HSP_ENOMEM. */
enum hsp_status hsp_resolver_send(struct hsp_resolver *r, const struct hsp_move_task *t,
                                  bool of_sums, uint8_t pick, uint32_t from, uint32_t to,
                                  struct hsp_err *err);

#endif
