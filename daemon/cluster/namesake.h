/* Remembers a second agent under the name of a node that is here, so that status and an event tell
 * of it.
 *
 * Example: two hosts are set up from one image, both with node: alpha. The second one is refused
 * each time it calls. The event node.namesake and the REASON of alpha name the address of the
 * second one.
 *
 * In memory only. One event for each node in ten minutes. */
#ifndef HSP_NAMESAKE_H
#define HSP_NAMESAKE_H
#include "daemon/cluster/cluster_state.h"

/* The agent at @peer, another one than that of @n, which is connected, was refused the name of
 * @n. */
void hsp_ci_namesake(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *peer);
/* The address of the second agent, as long as it calls; NULL: there is none. @now_ms: of the core's
 * clock. */
const char *hsp_cluster_namesake(const struct hsp_cluster_node *n, hsp_msec now_ms);

#endif
