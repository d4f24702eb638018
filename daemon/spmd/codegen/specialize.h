/* Cuts a stage's code into one rank's program: template (template_builder.h) and binding, without
 * memory and schedules.
 *
 * Tensors are numbered by first use in program order, symbols by first use in tensors and origins.
 * Two extents are one symbol when they are the same global extent under the same cut, with any
 * shares, so stages of equal structure have equal templates.
 *
 * Example: shares [2, 1] and [3, 1] of one weight give the same template; the bindings have 43 and
 * 48 rows of 64.
 *
 * Purity: pure. */
#ifndef HSP_SPECIALIZE_H
#define HSP_SPECIALIZE_H
#include "daemon/spmd/lower/stage_ir.h"

/* Ranks with equal templates share their arrays. (*ret_meets)[piece]: 1 + the meeting of the piece
 * (zero3_rendezvous.h), 0: none; in the arena. */
enum hsp_status hsp_specialize(struct hsp_compiler *c, uint32_t rank, struct hsp_program *ret,
                               const uint32_t **ret_meets, struct hsp_err *err);

#endif
