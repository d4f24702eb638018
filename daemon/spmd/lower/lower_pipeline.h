/* Lowers forward and backward of one pipeline: each node on its stage, Reshards where layouts
 * differ.
 *
 * A tensor used on another stage than its own is completed there and sent into the layout in which
 * tensors rest on the other stage (activation_rest.h); no Reshard here leaves the pipeline
 * (decision D1). Eval is Forward once more, with tensors and channels of its own.
 *
 * Role:      called by lower_plan.c for each pipeline, after Pre.
 * Purity:    pure. */
#ifndef HSP_LOWER_PIPELINE_H
#define HSP_LOWER_PIPELINE_H
#include "daemon/spmd/lower/stage_ir.h"

/* Forward and backward nodes of one pipeline; then the statistics and Eval. */
enum hsp_status hsp_lower_pipeline(struct hsp_compiler *c, uint32_t pipeline, struct hsp_err *err);

#endif
