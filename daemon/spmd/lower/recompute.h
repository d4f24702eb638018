/* Repeats the ops of Forward whose results Backward reads, instead of keeping these results (Chen
 * et al., Training deep nets with sublinear memory cost, 2016; decision D18).
 *
 * Each layer repeats its ops at the start of its Backward, from the tensors that entered the layer.
 * Kept are inputs read from the data, tensors of other stages, and every value that another layer
 * reads, so that each layer can begin anywhere. Communication inside of the stage is repeated under
 * channels of its own, by all members in the same place. Random numbers are functions of
 * coordinates (dropout), so the second pass has the bits of the first. The graph stays as it is.
 *
 * Role:      called by lower_pipeline.c for stages with `saved: recompute`.
 * Purity:    pure. */
#ifndef HSP_RECOMPUTE_H
#define HSP_RECOMPUTE_H
#include "daemon/spmd/lower/stage_ir.h"

/* Adds the repeated ops to Backward of @s; after lowering. HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_recompute_stage(struct hsp_compiler *c, struct hsp_stagecode *s,
                                    struct hsp_err *err);

#endif
