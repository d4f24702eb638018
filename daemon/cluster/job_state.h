/* Moves a job from state to state: a loss, a failed attempt, its end, or the reason why it waits.
 *
 * The diagram stands in cluster_state.h. */
#ifndef HSP_JOB_STATE_H
#define HSP_JOB_STATE_H
#include "daemon/cluster/cluster_state.h"

/* Moves @j to state @to, which must be allowed, and tells. Does nothing when @j is in @to. */
void hsp_ci_job_move(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to);
/* Says why @j does not run; told only when the text changes. */
void hsp_ci_job_blocked(struct hsp_cluster *c, struct hsp_job *j, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends @j in @to, a terminal state or SUSPENDED: stops its devices, forgets its epochs and
 * layouts. */
void hsp_ci_job_end(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to,
                    const char *why);
/* The same in DONE: rank 0, on node @by, has written the final model. */
void hsp_ci_job_done(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *by);
/* Fails @j, of which less may be on record than its nodes have done: they keep its state. */
void hsp_ci_job_set_aside(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* Has the pieces of layout @p of @j deleted on devices that are not leased to @j: they may work for
 * another job. To be called when it is stored that @j needs the layout no more. */
void hsp_ci_tell_holders(struct hsp_cluster *c, const struct hsp_job *j,
                         const struct hsp_job_plan *p);
/* Counts an attempt without progress and sets the pause before the next; too many end the job.
 *
 * @why   for people, when the job ends here. */
void hsp_ci_job_failure(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* The switches of @j that came to nothing count no more: no pause before the next
 * (attempt_end.h). */
void hsp_ci_switches_anew(struct hsp_job *j);
/* The same for all jobs: there is something new to be done. */
void hsp_ci_all_switches_anew(struct hsp_cluster *c);
/* A member was lost: drops the attempt, seals all nodes of the job and counts a failure. */
void hsp_ci_job_loss(struct hsp_cluster *c, struct hsp_job *j, const char *cause);
/* Tells that @j goes back from version @had to @to; @had not above @to: it is not known. */
void hsp_ci_state_lost(struct hsp_cluster *c, struct hsp_job *j, uint64_t had, uint64_t to);

/* ---- devices of a job ---- */

/* A node with devices of the job that is neither connected nor dead: it soon comes back or dies.
 * NULL: none. */
const struct hsp_cluster_node *hsp_ci_silent_node(const struct hsp_cluster *c,
                                                  const struct hsp_job *j);
/* True while a device of @j has not answered STOP or RELEASE. */
bool hsp_ci_releasing(const struct hsp_cluster *c, const struct hsp_job *j);
/* The first device of the epoch that is to go, itself or with its node, ranks before replica
 * holders. HSP_NO_DEVICE: none. */
hsp_device_id hsp_ci_leaver(const struct hsp_cluster *c, const struct hsp_job *j);

/* ---- a job that is finishing ---- */

/* True when @j is finishing, its final model cannot be written, and a device of it is to go. */
bool hsp_ci_moves(const struct hsp_cluster *c, const struct hsp_job *j);
/* The move of @j cannot be done because of @why: its reason names a remedy. */
void hsp_ci_finishing_stays(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* The greatest version that @j is known to have had in its nodes. */
uint64_t hsp_ci_best_known(const struct hsp_job *j);
/* The pieces that nodes hold of @j count no more: its layouts go, and it begins at its origin. */
void hsp_ci_back_to_origin(struct hsp_cluster *c, struct hsp_job *j);
/* The same where nothing was committed beyond the origin. Where that is step 0, and this process
 * has heard all of the job since it was chosen, no node has a checkpoint of it either: none is
 * looked for, and nobody is waited for. */
void hsp_ci_begin_as_before(struct hsp_cluster *c, struct hsp_job *j);
/* The same: its state was waited for in vain, and a node of the layouts is forgotten. Its steps
 * since are lost: it begins with a checkpoint, or has failed when there is none. */
void hsp_ci_layouts_over(struct hsp_cluster *c, struct hsp_job *j);

#endif
