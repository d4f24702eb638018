/* Prices the links between devices of a described cluster.
 *
 * Model:  devices of one fast domain have its link, others of one node the cluster's link within
 *         nodes. Devices of two nodes have its link across nodes at best; when the nodes are on two
 *         hosts and both uplinks are known, these count too: half of the way of each, as fast as
 *         the slower one. A pair of nodes whose link was measured to be slow is as slow as that.
 *         A group is as slow as its slowest pair, since everybody sends to
 *         everybody (or to the next one in a ring).
 * Purity: pure. */
#ifndef HSP_LINKS_H
#define HSP_LINKS_H

#include "daemon/spmd/reshard/resolve.h" /* struct hsp_rank_links */
#include "proto/layout/cluster_desc.h"

/* Among @n >= 1 devices. */
struct hsp_link_cost hsp_link_group(const struct hsp_cluster_desc *c, const uint32_t *device,
                                    uint32_t n);
struct hsp_link_cost hsp_link_pair(const struct hsp_cluster_desc *c, uint32_t a, uint32_t b);
/* From @device to a node of another host, whichever that is: none of its links there is faster. */
struct hsp_link_cost hsp_link_out(const struct hsp_cluster_desc *c, uint32_t device);

/* Links between the ranks of a plan: rank r is device[r]. */
struct hsp_rank_devices {
    const struct hsp_cluster_desc *cluster;
    const uint32_t *device;
};
/* @d is borrowed as long as the result is used. */
struct hsp_rank_links hsp_links_of_ranks(const struct hsp_rank_devices *d);

#endif
