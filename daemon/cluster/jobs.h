/* Takes each job to its next step, as far as the facts allow (decisions D8, D9).
 *
 * The diagram of the states stands in cluster_state.h. */
#ifndef HSP_JOBS_H
#define HSP_JOBS_H
#include "daemon/cluster/cluster_state.h"

/* Does all that the facts allow, for every job and node that is marked (index.h). */
void hsp_ci_advance(struct hsp_cluster *c);
/* The files of a job cannot be read, so nobody can plan it: a job that is to run has failed, a
 * job at rest stays as it is. */
void hsp_ci_job_unreadable(struct hsp_cluster *c, const struct hsp_unreadable_event *ev);

#endif
