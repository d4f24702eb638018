/* Forgets nodes that have gone, and says why a node cannot be forgotten.
 *
 * Example: n7 was taken away a week ago. Its row is erased, its name is free, and its number goes
 * to the next node that is new. Nothing may name the number then, for a device everywhere here is
 * node * HSP_NODE_DEVICES + index. So a node is forgotten only when no lease, no layout that is
 * kept, no epoch, no attempt and no check under way names it. Mere memories of it (marks, facts,
 * answers of the planner, sources of an epoch that has settled) go in the same step. Nodes that may
 * tell of past epochs are named by number and incarnation; incarnations are never used again, so
 * those need not change (past_epochs.h).
 *
 * A node is forgotten by `node remove`, or when it has been gone for forget_s seconds of the clock
 * on the wall. Nodes that carry the word of an administrator (drain, allow) are only removed, and
 * so are those that have run a job which has not ended: its checkpoints may be there alone.
 *
 * A job whose state was waited for in vain, and which waits for nodes that may have a checkpoint,
 * does not keep a node from being removed: its layouts go with the node. But it does where other
 * nodes that are away may make its state whole: the state that they bring would be deleted as they
 * come back. Example: n1 and n2 each have all of mist, both are away, and n1 burns. n1 stays until
 * n2 is back with the state, or mist is cancelled. */
#ifndef HSP_FORGET_H
#define HSP_FORGET_H
#include "daemon/cluster/cluster_state.h"

/* Why @n cannot be forgotten now, for people; NULL: it can. */
const char *hsp_ci_forget_fault(struct hsp_cluster *c, const struct hsp_cluster_node *n);
/* Forgets @n, which can be forgotten. */
void hsp_ci_forget(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why);
/* A node has gone, or has lost the word that kept it: it is looked at later. */
void hsp_ci_forget_later(struct hsp_cluster *c);
/* Forgets the nodes that have been gone for long enough. True: there were some, and jobs that
 * nobody else keeps may go with them (behind.h). */
bool hsp_ci_forget_tick(struct hsp_cluster *c);

#endif
