/* Streams and stages of a compiled plan, found again in what its ranks send each other (HSPMD 4.4a).
 *
 * Role:   the cross-check of streams that were stated, or found from annotations (infer_streams.h).
 * Purity: pure.
 *
 * Looked at are the Reshards of Forward and Backward but those of parameters and their gradients, which are
 * traffic with homes. Ranks of one collective are of one stage. Who receives of another stage in
 * Forward is the next stage of the sender's stream, in Backward the one before; with chunks the first stage
 * is next to the last. Ranks that no Reshard joins but one op runs on are copies of each other, or
 * have parts of a batch: of one stage as well, as the plan says. */
#ifndef HSP_PIPELINE_CHECK_H
#define HSP_PIPELINE_CHECK_H
#include "daemon/spmd/lower/stage_ir.h"

/* HSP_EINVAL: the layouts @c make other streams or stages than its plan has; names the Reshard and
 * the ranks, or the stage that nothing enters. HSP_ENOMEM. */
enum hsp_status hsp_pipelines_check(const struct hsp_compiler *c, struct hsp_err *err);

#endif
