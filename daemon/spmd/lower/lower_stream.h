/* Lowers forward and backward of one stream: each node on its stage, Reshards where layouts differ.
 *
 * A tensor used on another stage than its own is completed there and sent into the layout in which
 * tensors rest on the other stage (activation_rest.h); no Reshard here leaves the stream (decision
 * D1). Eval is Forward once more, with tensors and channels of its own.
 *
 * Role:      called by lower_plan.c for each stream, after Pre.
 * Purity:    pure. */
#ifndef HSP_LOWER_STREAM_H
#define HSP_LOWER_STREAM_H
#include "daemon/spmd/lower/stage_ir.h"

/* Forward and backward nodes of one stream; then the statistics and Eval. */
enum hsp_status hsp_lower_stream(struct hsp_compiler *c, uint32_t stream, struct hsp_err *err);

#endif
