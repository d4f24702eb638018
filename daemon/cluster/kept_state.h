/* Keeps the state of a job that has failed, until an administrator gives it up.
 *
 * Example: job mist fails at version 120 after 30 attempts. Its nodes are sealed: their executors
 * stop, versions that they had sealed stay, and their devices are free for other jobs. `resume`
 * asks the nodes for the pieces that they hold, as after a loss, and goes on from version 120 when
 * it is whole. `cancel` and `forget` have the state deleted.
 *
 * A node that was away deletes the state of a job that was given up when it says hello. */
#ifndef HSP_KEPT_STATE_H
#define HSP_KEPT_STATE_H
#include "daemon/cluster/cluster_state.h"

/* Has the nodes of the leases of @j sealed; each lets its devices go when it has answered. */
void hsp_ci_seal_leases(struct hsp_cluster *c, struct hsp_job *j);
/* Sends SEAL to the marked nodes of @j. True: some have not answered yet. */
bool hsp_ci_seal_marked(struct hsp_cluster *c, struct hsp_job *j);
/* Nodes that have not answered SEAL of @j in time are dead. For ticks alone: an answer may be
 * unread before. */
void hsp_ci_seal_late(struct hsp_cluster *c, struct hsp_job *j);
/* Node @n of the failed job @j has answered SEAL. */
void hsp_ci_replica_holder_sealed(struct hsp_cluster *c, struct hsp_job *j,
                                  struct hsp_cluster_node *n);
/* The failed job @j goes on from the pieces that its nodes hold: SEALING. */
void hsp_ci_resume_kept(struct hsp_cluster *c, struct hsp_job *j);
/* Stores @j, already in the state that it is to have then, has the kept pieces deleted, and forgets
 * its layouts. Devices that are leased to it answer STOP; others are told once. */
void hsp_ci_give_up_state(struct hsp_cluster *c, struct hsp_job *j);

#endif
