/* @@SENTENCE@@ membership: purpose to be written.
 *
 * Purity: pure data.
 */
#ifndef HSP_MEMBERSHIP_H
#define HSP_MEMBERSHIP_H
#include "daemon/cluster/cluster_state.h"

const char *hsp_node_state_name(enum hsp_node_state s);
struct hsp_cluster_node *hsp_ci_node(const struct hsp_cluster *c, hsp_device_id d);
struct hsp_node_device *hsp_ci_device(const struct hsp_cluster *c, hsp_device_id d);
const char *hsp_ci_device_name(struct hsp_cluster *c, hsp_device_id d);
bool hsp_ci_node_gone(const struct hsp_cluster_node *n); /* dead, left or not known to live */
void hsp_ci_hello(struct hsp_cluster *c, uint32_t conn, const struct hsp_m_hello *m);
void hsp_ci_conn_closed(struct hsp_cluster *c, uint32_t conn);
void hsp_ci_node_dead(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why);
/* New times; agents that are here are told by another WELCOME. */
void hsp_ci_reconfigure(struct hsp_cluster *c, const struct hsp_cluster_config *cfg);
void hsp_ci_nodes_tick(struct hsp_cluster *c);
void hsp_ci_forgive_stall(struct hsp_cluster *c); /* before an event is looked at */
void hsp_ci_nodes_advance(struct hsp_cluster *c); /* releases, stops, bye, drained */
void hsp_ci_executor_dead(struct hsp_cluster *c, struct hsp_cluster_node *n,
                          const struct hsp_m_dead *m);
void hsp_ci_executor_up(struct hsp_cluster *c, struct hsp_cluster_node *n,
                        const struct hsp_m_up *m);
/* The device cannot go on with what it did. */
void hsp_ci_device_lost(struct hsp_cluster *c, hsp_device_id d, const char *cause);

#endif
