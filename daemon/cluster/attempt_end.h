/* Ends an attempt: it becomes the epoch that runs, or it is dropped and the job goes back to the
 * state it came from. */
#ifndef HSP_ATTEMPT_END_H
#define HSP_ATTEMPT_END_H
#include "daemon/cluster/cluster_state.h"

/* All peers have started, or the first vote passed: the attempt becomes the current epoch. */
void hsp_ci_promote(struct hsp_cluster *c, struct hsp_job *j);
/* Drops the attempt and counts a failure. Only before GO. */
void hsp_ci_attempt_fail(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* Drops the attempt because a node was refused: the cause is gone, so it counts as no failure. Only
 * before GO. */
void hsp_ci_attempt_refused(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* Drops an attempt that is no longer needed: nothing failed. Only before GO. The caller stores the
 * job. */
void hsp_ci_attempt_drop(struct hsp_cluster *c, struct hsp_job *j, const char *why);
/* Gives up the leases of devices that neither the epochs of @j nor its held pieces need. */
void hsp_ci_free_leases(struct hsp_cluster *c, struct hsp_job *j);

#endif
