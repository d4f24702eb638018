/* One rank's program from its stage's code: template (template_builder.h) and binding, without memory and schedules.
 *
 * Tensors are numbered by first use in program order, symbols by first use in tensors and origins;
 * two extents are one symbol when they are the same global extent under the same cut, whatever the
 * shares, so templates of equal structure are equal.
 *
 * Purity: pure.
 */
#ifndef HSP_SPECIALIZE_H
#define HSP_SPECIALIZE_H
#include "daemon/spmd/lower/stage_ir.h"

/* Ranks whose templates are equal share their arrays. (*ret_meets)[piece]: 1 + the meeting it belongs to
 * (zero3_rendezvous.h), 0: none; in the arena. */
enum hsp_status hsp_specialize(struct hsp_compiler *c, uint32_t rank, struct hsp_program *ret,
                               const uint32_t **ret_meets, struct hsp_err *err);

#endif
