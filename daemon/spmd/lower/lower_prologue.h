/* Lowers Pre of all stages: state tensors, and parameters from their homes to their uses.
 *
 * Purity:    pure.
 * Ownership: as in stage_ir.h; the caller finishes covers. */
#ifndef HSP_LOWER_PROLOGUE_H
#define HSP_LOWER_PROLOGUE_H
#include "daemon/spmd/lower/stage_ir.h"

/* The part of @uses that lies in @slot, each element once for each rank. */
enum hsp_status hsp_slot_uses(const struct hsp_compiler *c, uint32_t param, uint32_t slot,
                              const struct hsp_cover *uses, struct hsp_cover *ret,
                              struct hsp_err *err);
/* State tensors, uses and Pre of all stages; before lowering. */
enum hsp_status hsp_param_pre(struct hsp_compiler *c, struct hsp_err *err);

#endif
