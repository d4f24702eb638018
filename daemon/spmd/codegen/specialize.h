/* Makes one rank's program from a stage's code: template (template_builder.h) and binding, without
 * memory and schedules.
 *
 * Tensors are numbered by first use in program order, symbols by first use in tensors and origins.
 * Two extents have one symbol if they are the same global extent under the same cut, whatever the
 * shares are. So stages of equal structure have equal templates.
 *
 * Example: shares [2, 1] and [3, 1] of one weight give the same template; the bindings have 43 and
 * 48 rows of 64.
 *
 * Purity: pure. */
#ifndef HSP_SPECIALIZE_H
#define HSP_SPECIALIZE_H
#include "daemon/spmd/lower/stage_ir.h"

/* Ranks with equal templates share their arrays. (*ret_meets)[piece] is 1 + the number of the
 * piece's rendezvous (zero3_rendezvous.h), or 0; the array is in the arena. */
enum hsp_status hsp_specialize(struct hsp_compiler *c, uint32_t rank, struct hsp_program *ret,
                               const uint32_t **ret_meets, struct hsp_err *err);

#endif
