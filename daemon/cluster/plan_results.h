/* Takes in the answers of the planner and turns them into numbered layouts.
 *
 * Example: the answer to ticket 9 becomes layout 4 (KEEP_PLAN); the same plan with other replica
 * holders later becomes layout 5 (COPY_PLAN). */
#ifndef HSP_PLAN_RESULTS_H
#define HSP_PLAN_RESULTS_H
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"

/* Takes in PLAN_DONE. An answer to a question that is no longer asked is ignored. */
void hsp_ci_plan_done(struct hsp_cluster *c, const struct hsp_plan_event *ev);
/* Makes the waiting answer a layout of @j, with replica holders. Returns its number; 0: no
 * memory. */
uint64_t hsp_ci_adopt_result(struct hsp_cluster *c, struct hsp_job *j);
/* Layout @plan with the present choice of replica holders: @plan when the replica holders are the
 * same, else the number of a new layout with the same ranks. 0: no memory. */
uint64_t hsp_ci_with_replica_holders(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan);

#endif
