/* Finds devices that are slower than planned, so that the job is planned anew (decision D8).
 *
 * Each vote record carries the compute time of its rank. Shares are compared, not seconds: an
 * error of the cost model that is common to all devices cancels out. Example: a rank with 30 %
 * of the compute time by plan takes 45 % in 20 steps; the ratio 1.5 is above slow_ratio 1.3. The
 * observed speed is averaged over the whole window and is relative to the speeds of the running
 * plan, so a plan that is kept does not count the same slowness twice. */
#ifndef HSP_SLOW_H
#define HSP_SLOW_H
#include "daemon/cluster/cluster_state.h"

/* Begins a window for the epoch that runs now. */
void hsp_ci_watch_begin(struct hsp_cluster *c, struct hsp_job *j);
/* Counts the times of step @s. */
void hsp_ci_watch_step(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_m_step *s);
/* After a restart: the speeds that the plan was made with are the known speeds of its devices. */
void hsp_ci_watch_restore(struct hsp_cluster *c, const struct hsp_job *j);

#endif
