/* Remembers facts learnt by failed attempts of a job for a while, so that plans avoid their cause.
 *
 * Example: n1/0 cannot get the memory of epoch 4. The fact goes to the planner with each question,
 * so that n1/0 gets less of the model. The fact counts for ten minutes: another program may have
 * ended by then. If n1/0 fails again after that, the next fact counts for twenty minutes, and so on
 * up to
 * 80.
 *
 * A fact is learnt once. One that repeats counts for longer and says how often it came, as the
 * planner takes more away each time: it takes all after a few.
 * A job that runs asks the planner again when a fact has ended.
 *
 * In memory only. Facts of a node go when it says hello with a new incarnation, is undrained
 * (try_anew.h), or is forgotten.
 *
 * Bounds: HSP_CLUSTER_FACTS of a job; the oldest gives way. */
#ifndef HSP_LEARNT_H
#define HSP_LEARNT_H
#include "daemon/cluster/cluster_state.h"

/* Takes in @f, which counts until @until_ms; 0: as long as facts last. @why: one line, for
 * people. */
void hsp_ci_learn(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_plan_fact *f,
                  hsp_msec until_ms, const char *why);
/* Forgets the facts that name @node; of the kinds of data alone, or all. True: there were any. */
bool hsp_ci_unlearn_node(struct hsp_job *j, uint32_t node, bool data_only);
void hsp_ci_unlearn_all(struct hsp_job *j);
/* Ends facts whose time is over. */
void hsp_ci_learnt_advance(struct hsp_cluster *c, struct hsp_job *j);
/* When the next fact ends. */
hsp_msec hsp_ci_learnt_due(const struct hsp_job *j);

#endif
