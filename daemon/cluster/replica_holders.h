/* Chooses replica holders: devices of other nodes that keep every sealed version of a job whose
 * members stand on fewer nodes than its copies (decisions D9, D10).
 *
 * Example: a job with copies = 2 runs on one node; planning finds room for one replica holder, and
 * the core takes the one of the node with the fewest kept bytes. Changing replica holders creates a
 * new layout number (plan_results.h), so that a stale copy can never be mistaken for a current one.
 * A job neither waits for a replica holder nor fails because of one.
 *
 * A replica holder gets the whole state and the key of the epoch, so only nodes that an
 * administrator has allowed (`node allow NAME --holder`) are asked. Denied, a node loses its copies
 * by a planned switch, as by a drain.
 *
 * Planning leaves room for the missing copies (n_spare; each replica holder holds the whole state).
 * Replica holders are on other nodes, undrained and with room. A replica holder that was away never
 * counts for a history it has not seen, since the layout number differs. Replica holders take no
 * lease from another job, die with no executor, and learn the end of an epoch as sources of the
 * next one, for they have no vote. */
#ifndef HSP_REPLICA_HOLDERS_H
#define HSP_REPLICA_HOLDERS_H
#include "daemon/cluster/cluster_state.h"

/* A node that may keep a copy, with the facts by which replica holders are chosen. */
struct hsp_replica_holder_node {
    uint32_t node;
    hsp_device_id device;
    bool mine;     /* the job keeps there already */
    bool up;       /* at once */
    uint64_t kept; /* bytes it keeps for all jobs */
    uint64_t room; /* bytes it has left, UINT64_MAX not known */
};

/* Chooses at most @p->n_spare replica holders for @j with layout @p. Returns their number. */
uint32_t hsp_ci_choose_replica_holders(struct hsp_cluster *c, const struct hsp_job *j,
                                       const struct hsp_plan_info *p,
                                       hsp_device_id ret[HSP_MAX_REPLICA_HOLDERS]);
/* Chooses the replica holders of a layout that has not been used yet. */
void hsp_ci_set_replica_holders(struct hsp_cluster *c, const struct hsp_job *j,
                                struct hsp_plan_info *p);
/* True when the running layout should have other replica holders; j->cause then says why. */
bool hsp_ci_wants_replica_holders(struct hsp_cluster *c, struct hsp_job *j);
/* Whether all ranks, and the replica holders that @j is to have, have room for its layout in their
 * state folders: the one that runs stays until the switch is settled. False: *ret_why names the
 * lack of room, and room is looked at again after a pause, in which *ret_why is NULL. The bytes of
 * a rank are not known after a start of hspmdd. */
bool hsp_ci_replica_holders_fit(struct hsp_cluster *c, struct hsp_job *j, const char **ret_why);
/* True when device @d of the attempt is one of its replica holders; its node is then not asked
 * again for a while. */
bool hsp_ci_refuse_replica_holder(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d,
                                  const char *why);
/* Forgets the refusals of replica holders when their pause is over. */
void hsp_ci_replica_holders_advance(struct hsp_cluster *c, struct hsp_job *j);
/* Orders candidates for a replica holder of @bytes: nodes that keep for the job already, then nodes
 * that can begin at once, then the fewest kept bytes, then the number of the node. Nodes without
 * room stand behind all. Returns how many of the first may be taken, at most @want. */
uint32_t hsp_replica_holders_order(struct hsp_replica_holder_node *list, uint32_t n, uint32_t want,
                                   uint64_t bytes);

#endif
