/* @@SENTENCE@@ admin: purpose to be written. */
#ifndef HSP_ADMIN_H
#define HSP_ADMIN_H
#include "daemon/cluster/cluster_state.h"

void hsp_ci_admin(struct hsp_cluster *c, const struct hsp_admin_event *a);

#endif
