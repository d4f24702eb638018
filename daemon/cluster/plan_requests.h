/* Asks the planner for layouts of a job, and drops questions and layouts that are no longer
 * needed. */
#ifndef HSP_PLAN_REQUESTS_H
#define HSP_PLAN_REQUESTS_H
#include "daemon/cluster/cluster_state.h"

/* Asks for a plan of @j on devices @dev, ascending. An older question is cancelled.
 *
 * @urgent   after a loss: a feasible plan at once. */
void hsp_ci_start_plan(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                       uint32_t n, bool urgent);
/* True when there was no plan with these devices, and the reason of @j still says why: the same
 * question again is no news. */
bool hsp_ci_waits_for_plan(const struct hsp_job *j, const hsp_device_id *dev, uint32_t n);
/* True when @d was in the last question, or was declined before it while the job ran: that is no
 * reason to ask again. */
bool hsp_ci_was_asked(const struct hsp_job *j, hsp_device_id d);
/* Forgets that devices of @node were asked about, or declined: the node has changed. A question
 * about them is cancelled. */
void hsp_ci_unask_node(struct hsp_cluster *c, struct hsp_job *j, uint32_t node);
/* @n says how many bytes its state folder has free. Where that is much more than before, running
 * jobs for whose plan the room may have mattered are planned anew. */
void hsp_ci_folder_free(struct hsp_cluster *c, struct hsp_cluster_node *n, uint64_t bytes);
/* Cancels the question of @j and forgets an answer that was not used. */
void hsp_ci_cancel_plan(struct hsp_cluster *c, struct hsp_job *j);
/* Forgets layout @plan of @j, here and on disk. */
void hsp_ci_drop_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan);

#endif
