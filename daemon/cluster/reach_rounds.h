/* Lets nodes call each other's executors, to find the pairs that do not reach each other.
 *
 * Example: executors of n1 and n2 fall silent to each other; n3 is told by n2. A round begins: n1,
 * n2 and n3 each get a REACH with the listeners of the other two. n3 answers at once that both were
 * reached, n1 and n2 after 750 ms that they did not reach each other. The round ends with one
 * broken pair. Meanwhile nodes seal; the job plans when both are over.
 *
 * A round begins also when a loss is told without the name of a peer (epoch_messages.c): then, as a
 * rule, all answer at once.
 *
 * A round measures all pairs of its nodes, not the suspected ones alone: a report of a loss does
 * not say which other nodes are cut off, and the next attempt must not find it out.
 *
 * Bounds: HSP_REACH_ROUNDS at a time, HSP_REACH_NODES nodes each, those of suspected pairs first.
 *         Losses without a name begin none when half of the places are taken. A
 *         round that cannot be begun leaves its pairs unmeasured. */
#ifndef HSP_REACH_ROUNDS_H
#define HSP_REACH_ROUNDS_H
#include "daemon/cluster/cluster_state.h"

/* Begins a round of the nodes that @j may use, if it is due (wants_round) and none is open for it.
 */
void hsp_ci_round_of_job(struct hsp_cluster *c, struct hsp_job *j);
/* True when both nodes call each other in the round that is open for @j. */
bool hsp_ci_round_covers(const struct hsp_cluster *c, const struct hsp_job *j, uint32_t a,
                         uint32_t b);
/* REACHED of @n. */
void hsp_ci_reached(struct hsp_cluster *c, struct hsp_cluster_node *n,
                    const struct hsp_m_reached *m);
/* Ends rounds that are over, and begins one for broken pairs that are to be measured again. */
void hsp_ci_rounds_advance(struct hsp_cluster *c);
hsp_msec hsp_ci_rounds_due(const struct hsp_cluster *c);
void hsp_ci_rounds_fini(struct hsp_cluster *c);

#endif
