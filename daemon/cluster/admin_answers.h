/* Tells administrators the consequences of a command. Each text is a remark behind "JOB is
 * cancelled" and the like, "" where there is nothing to say; it lives in the arena of the step.
 *
 * Example: `cancel mist` of a job that runs and has checkpoints of steps 20 and 40 answers "mist is
 * cancelled; its executors stop, then its devices are free; its checkpoints of steps 20, 40 stay,
 * and resume can begin with them". */
#ifndef HSP_ADMIN_ANSWERS_H
#define HSP_ADMIN_ANSWERS_H
#include "daemon/cluster/cluster_state.h"

/* @j has been cancelled. @known: it was on record before, and not only on its nodes. */
const char *hsp_ci_say_cancelled(struct hsp_cluster *c, const struct hsp_job *j, bool known);
/* @j is resumed. @kept: with the state that its nodes keep; @named: with a checkpoint that was
 * asked for, NULL: not so; the cuts that it had until then. */
const char *hsp_ci_say_resumed(struct hsp_cluster *c, const struct hsp_job *j, bool kept,
                               const struct hsp_ckpt_cuts *named);
/* @j has new bounds: when they count, and the devices that it waits for where the bounds ask for
 * more than there are. */
const char *hsp_ci_say_scaled(struct hsp_cluster *c, const struct hsp_job *j);
/* @j is about to be forgotten: which job it was, and the state that goes with it. */
const char *hsp_ci_say_forgotten(struct hsp_cluster *c, const struct hsp_job *j);
/* @n may keep copies. */
const char *hsp_ci_say_allowed(struct hsp_cluster *c, const struct hsp_cluster_node *n);
/* @n may keep none from now on; asked before that counts. */
const char *hsp_ci_say_denied(struct hsp_cluster *c, const struct hsp_cluster_node *n);
/* @n is drained, or not any more. */
const char *hsp_ci_say_drained(struct hsp_cluster *c, const struct hsp_cluster_node *n);

#endif
