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

double hsp_resolver_us(const struct hsp_resolver *r, uint32_t from, uint32_t to); /* per byte */
uint8_t hsp_holder_pick(const struct hsp_holder *h);
enum hsp_status hsp_resolver_copy(struct hsp_resolver *r, const struct hsp_move_task *t,
                                  uint32_t rank, uint8_t pick, struct hsp_err *err);
enum hsp_status hsp_resolver_send(struct hsp_resolver *r, const struct hsp_move_task *t,
                                  bool of_sums, uint8_t pick, uint32_t from, uint32_t to,
                                  struct hsp_err *err);

#endif
