/* Takes a dead node or a lost device away from all jobs.
 *
 * A job that runs there loses (SEALING); an attempt that was only to run there fails; leases and
 * held pieces of a dead node are forgotten. */
#ifndef HSP_NODE_LOSS_H
#define HSP_NODE_LOSS_H
#include "daemon/cluster/cluster_state.h"

/* @n is dead, or has left when its state is LEFT: closes its connection and stores it. */
void hsp_ci_node_dead(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why);
/* Device @d cannot go on with its work: every job that uses it has a loss or a failed attempt. */
void hsp_ci_device_lost(struct hsp_cluster *c, hsp_device_id d, const char *cause);

#endif
