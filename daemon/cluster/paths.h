/* Keeps the paths between the devices of a node, as its agent tells them, and finds its fast
 * domains. */
#ifndef HSP_PATHS_H
#define HSP_PATHS_H
#include "daemon/cluster/cluster_state.h"

const char *hsp_path_kind_name(enum hsp_path_kind k); /* "nvlink", "nvswitch", ... */
/* Takes in the paths of HELLO; paths with impossible figures are left out. */
void hsp_ci_take_paths(struct hsp_cluster *c, struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m);
/* Finds fast domains: sets of devices that all reach each other over NVLink, or, for devices
 * without NVLink, by a path that was measured. Example: NVLink between 0-1 and 2-3 gives the
 * domains {0, 1} and {2, 3}.
 *
 * @ret_domain       0: none, else a number that all devices of the domain share.
 * @ret_rate         least bytes per second between two devices of the domain; 0: not known.
 * @ret_latency_us   greatest latency between two devices of the domain; 0: not known. */
void hsp_node_domains(const struct hsp_cluster_node *n, uint32_t ret_domain[HSP_NODE_DEVICES],
                      double ret_rate[HSP_NODE_DEVICES], double ret_latency_us[HSP_NODE_DEVICES]);

#endif
