/* Takes in the messages of agents about the epochs of a job: READY, STARTED, STEP, SEALED,
 * CHECKPOINTED...
 *
 * A checkpoint that was being written when the job was suspended, cancelled or failed is
 * recorded when it is complete, for the workers have deleted older ones. A suspended job resumes
 * with it. A checkpoint of an epoch before the job began again at its origin is not recorded:
 * those steps are made anew. */
#ifndef HSP_EPOCH_MESSAGES_H
#define HSP_EPOCH_MESSAGES_H
#include "daemon/cluster/cluster_state.h"

/* Takes in message @m of node @n about a job. A message about an unknown job or an epoch that was
 * never numbered is ignored. */
void hsp_ci_job_msg(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m);

#endif
