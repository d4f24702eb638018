/* @@SENTENCE@@ epoch_messages: purpose to be written. */
#ifndef HSP_EPOCH_MESSAGES_H
#define HSP_EPOCH_MESSAGES_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_job_msg(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m);
void hsp_ci_reconcile(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                      const struct hsp_m_hello *m);
void hsp_ci_promote(struct hsp_cluster *c, struct hsp_job *j);

#endif
