/* @@SENTENCE@@ node_check: purpose to be written. */
#ifndef HSP_NODE_CHECK_H
#define HSP_NODE_CHECK_H
#include "daemon/cluster/cluster_state.h"

/* Orders that are over, those that can begin, the end. */
void hsp_ci_check_advance(struct hsp_cluster *c);
hsp_msec hsp_ci_check_due(const struct hsp_cluster *c);
void hsp_ci_check_fini(struct hsp_cluster *c);
/* Replies at once when nothing can be asked, else when all has been. */
void hsp_ci_check_begin(struct hsp_cluster *c, const struct hsp_admin_event *a);
void hsp_ci_check_stop(struct hsp_cluster *c, uint64_t request);
void hsp_ci_checked(struct hsp_cluster *c, struct hsp_cluster_node *n,
                    const struct hsp_m_checked *m);

#endif
