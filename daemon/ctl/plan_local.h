/* Makes a job for a plan file without one, so that the plan can be compiled and verified.
 *
 * Purity: pure. */
#ifndef HSP_PLAN_LOCAL_H
#define HSP_PLAN_LOCAL_H
#include "daemon/ctl/job_load.h"

/* A gpt with the plan's layers and global batch, and heads enough for its tensor shares (at most
 * 64: a smaller share stays empty); fp64, so that differences stand out. hsp_loaded_fini.
 * HSP_EPARSE: not such a plan, or one that speaks of parameters (homes, rules, uses, reshards),
 * whose model must be known. */
enum hsp_status hsp_job_for_plan(struct hsp_arena *arena, const struct hsp_plan_text *plan,
                                 struct hsp_loaded *ret, struct hsp_err *err);

#endif
