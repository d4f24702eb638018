/* Finds streams and stages again in the Reshards of a compiled plan, and compares them with the
 * plan's (HSPMD 4.4a).
 *
 * Looked at are the Reshards of Forward and Backward, without those of parameters and their
 * gradients, which are traffic with homes. Ranks of one collective are of one stage. In Forward a
 * rank that receives from another stage is of the next stage of the sender's stream, in Backward of
 * the one before; with chunks the first stage is next to the last. Ranks that no Reshard joins but
 * one op runs on are copies of each other, or have parts of a batch: these are of one stage as
 * well, as the plan says.
 *
 * Role:   the cross-check of streams, stated or found from annotations (infer_streams.h).
 * Purity: pure. */
#ifndef HSP_PIPELINE_CHECK_H
#define HSP_PIPELINE_CHECK_H
#include "daemon/spmd/lower/stage_ir.h"

/* HSP_EINVAL: the layouts @c make other streams or stages than its plan has; names the Reshard and
 * the ranks, or the stage that nothing enters. HSP_ENOMEM. */
enum hsp_status hsp_pipelines_check(const struct hsp_compiler *c, struct hsp_err *err);

#endif
