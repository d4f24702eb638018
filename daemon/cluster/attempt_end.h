/* Ends an attempt: it becomes the epoch that runs, or it is dropped and the job goes back to the
 * state it came from.
 *
 * Example: n4 joins a job on n1 and n2, and dies between the READYs of n1 and n2.
 *
 *   READY      of n1 and n4: noted, n2 is awaited
 *   PEER_LOST  n1 has lost n4, and no GO was given: DROP(9) to n1, n2, n4; job RUNNING: epoch 8
 *              went on
 *   TICK       n4 is DEAD: no epoch has it any more
 *
 * EXECUTOR_DEAD or the death of the node may come first, and ends the attempt in the same way
 * (node_loss.h). From GO on, every PEER_LOST and every dead peer is a loss (job_state.h), also
 * while ARM is on its way: SEAL(9) seals epochs 8 and 9.
 *
 * A job whose switch failed trains on. The switch is no failure of the job, which ends by 31
 * failures without a new stable version. So switches that fail, or are refused, have a count and a
 * growing pause of their own: 0, 1, 2, 4 s, up to 64 s. The count ends when one succeeds, and with
 * a loss. For all jobs it ends with a command of an administrator, and when a node comes, or a node
 * or device is to go: then there is something new to be done, which may be urgent. */
#ifndef HSP_ATTEMPT_END_H
#define HSP_ATTEMPT_END_H
#include "daemon/cluster/cluster_state.h"

/* All peers have started, or the first vote passed: the attempt becomes the current epoch. */
void hsp_ci_promote(struct hsp_cluster *c, struct hsp_job *j);
/* Drops the attempt and counts a failure, of the job or of its switches. Only before GO. */
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
