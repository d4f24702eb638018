/* Performs the commands of administrators, so that each request gets exactly one REPLY.
 *
 * A check of nodes replies when its last order is over (node_check.h); every other command replies
 * in the step that reads it. */
#ifndef HSP_ADMIN_H
#define HSP_ADMIN_H
#include "daemon/cluster/cluster_state.h"

/* Performs command @a: submit, cancel, scale, drain, undrain, allow, deny, remove, checkpoint,
 * resume, suspend, check. */
void hsp_ci_admin(struct hsp_cluster *c, const struct hsp_admin_event *a);

#endif
