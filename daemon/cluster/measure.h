/* @@SENTENCE@@ measure: purpose to be written. */
#ifndef HSP_MEASURE_H
#define HSP_MEASURE_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_measure_hello(struct hsp_cluster *c, struct hsp_cluster_node *n, bool anew);
void hsp_ci_measure_advance(struct hsp_cluster *c); /* whose turn it is */
hsp_msec hsp_ci_measure_due(const struct hsp_cluster *c);
void hsp_ci_uplink(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_uplink *m);
/* It is the turn of the node of this connection to measure its link. */
bool hsp_cluster_measures(const struct hsp_cluster *c, uint32_t conn);
/* Where the executors of this node listen: "HOST:PORT", and ",unix:NAME.HOST.NUMBER" behind it where
 * those of one host need no network (worker/comm). NULL: none has said it. */
const char *hsp_cluster_listener(const struct hsp_cluster_node *n);
/* Both are on one host, as far as their executors say where they listen: between them there is no
 * network. */
bool hsp_cluster_one_host(const struct hsp_cluster_node *a, const struct hsp_cluster_node *b);

#endif
