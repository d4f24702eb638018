/* Derives the pipelines and stages from the Reshards of a compiled plan, and compares them with
 * those that the plan states (HSPMD paper, section 4.4a).
 *
 * The check reads the Reshards of Forward and Backward except those of parameters and their
 * gradients, which exchange data with homes. Ranks of one collective are in one stage. In Forward a
 * rank that receives from another stage is in the next stage of the sender's pipeline, and in
 * Backward in the stage before; with chunks the first stage follows the last. Some ranks run the
 * same ops but no Reshard joins them: they are copies of each other, or have parts of a batch. The
 * check takes from the plan that they are in one stage.
 *
 * Role:   the cross-check of pipelines, stated or found from annotations (infer_pipelines.h).
 * Purity: pure. */
#ifndef HSP_PIPELINE_CHECK_H
#define HSP_PIPELINE_CHECK_H
#include "daemon/spmd/lower/stage_ir.h"

/* HSP_EINVAL: the Reshards of @c give other pipelines or stages than its plan states; the message
 * names the Reshard and the ranks, or the stage that no Reshard enters. HSP_ENOMEM. */
enum hsp_status hsp_pipelines_check(const struct hsp_compiler *c, struct hsp_err *err);

#endif
