/* @@SENTENCE@@ health: purpose to be written.
 *
 * Purity: pure data.
 */
#ifndef HSP_HEALTH_H
#define HSP_HEALTH_H
#include "daemon/cluster/cluster_state.h"

/* Why its health is what it is; "" when FINE. */
const char *hsp_device_why(const struct hsp_node_device *d);
/* It is there and may get work: the node stays, and the device is well. */
bool hsp_cluster_offers(const struct hsp_cluster_node *n, uint32_t device);
const char *hsp_health_name(enum hsp_health h);       /* "fine", "warned", "cordoned", "lost" */
const char *hsp_path_kind_name(enum hsp_path_kind k); /* "nvlink", "nvswitch", ... */
/* What HELLO says of device @p->index, and of paths. */
void hsp_ci_take_note(struct hsp_cluster *c, struct hsp_cluster_node *n,
                      const struct hsp_m_device *p);
void hsp_ci_take_paths(struct hsp_cluster *c, struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m);
void hsp_ci_notes_free(struct hsp_cluster_node *n); /* and paths */
void hsp_ci_health(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_health *m);
/* Fast domains of a node: devices of which each reaches each other one over NVLink, or, of those without any, by a path
 * that was measured. ret_domain[i]: 0 none, else a number that all of the domain share; ret_rate[i]: the least bytes per
 * second between two of them, ret_latency_us[i]: the most; 0 not known. */
void hsp_node_domains(const struct hsp_cluster_node *n, uint32_t ret_domain[HSP_NODE_DEVICES],
                      double ret_rate[HSP_NODE_DEVICES], double ret_latency_us[HSP_NODE_DEVICES]);
/* Work is to leave @d, which is still there: "drain of", "planned leave of", "cordon of"; NULL: it may stay. */
const char *hsp_ci_to_leave(const struct hsp_cluster *c, hsp_device_id d);
/* "drain of n1/0"; a cordon with its reason. Only where hsp_ci_to_leave is not NULL. */
const char *hsp_ci_leave_cause(struct hsp_cluster *c, hsp_device_id d);
/* "; n1/0 is lost: why; and 2 more", of devices of nodes that are here and get no work for their health; or "". */
const char *hsp_ci_unwell(struct hsp_cluster *c);
/* Nothing is left on a device that gets no work: told, once. */
void hsp_ci_tell_drained(struct hsp_cluster *c, struct hsp_cluster_node *n);

#endif
