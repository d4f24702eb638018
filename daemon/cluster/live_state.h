/* Says which jobs have the state that they compute with saved when a peer is lost (decision D9a),
 * how long that takes, and which older version stays meanwhile.
 *
 * Example: layout 3 of two replicas on two nodes has version 8 stable. At step 13 one node goes.
 * The other one seals version 13 and answers SEAL with 8 and 13; the job goes on from 13, and
 * PREPARE says that 8 is kept. A rank that has neither takes 13 over any other version that it has.
 */
#ifndef HSP_LIVE_STATE_H
#define HSP_LIVE_STATE_H
#include "daemon/cluster/cluster_state.h"

/* Whether each shard of @info is at home on two nodes or more. Further copies of it, on buddies or
 * replica holders, do not matter: sealing at a loss writes over no version that is stable. */
bool hsp_ci_replicated(const struct hsp_plan_info *info);
/* The time that @node needs beyond the usual one to answer SEAL of @j, to copy and hash its state,
 * which is a part of the memory that the plan says; 0 where the epoch saves none. */
uint32_t hsp_ci_seal_more_ms(const struct hsp_job *j, uint32_t node);
/* Attempt @e, which begins with a version of the layout that it goes on in, keeps the greatest
 * older one that is whole there. False: there is none, or the layouts differ. */
bool hsp_ci_keep_older(struct hsp_cluster *c, const struct hsp_job *j, const struct hsp_cl_epoch *e,
                       uint64_t *ret_version);

#endif
