/* Begins an attempt: numbers the next epoch and fixes its members, replica holders and sources.
 *
 * Sources are fixed here because all PREPAREs of an epoch must describe the same transfers.
 * Example: a job goes from devices {0, 1, 2} to {0, 1, 3} by a switch. Peers are 0, 1, 3 (ranks)
 * and 2, a source that serves its part of the state and is released when the new epoch is
 * settled. */
#ifndef HSP_ATTEMPT_BEGIN_H
#define HSP_ATTEMPT_BEGIN_H
#include "daemon/cluster/cluster_state.h"

/* Begins an epoch with layout @plan of @j, leases its devices and stores the job.
 *
 * @from_plan, @step   layout and version that the state comes from; @step is 0 for a switch, whose
 *                     first step is learnt from STARTED. */
void hsp_ci_attempt_begin(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                          enum hsp_epoch_mode mode, uint64_t from_plan, uint64_t step);

#endif
