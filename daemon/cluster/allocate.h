/* @@SENTENCE@@ allocate: purpose to be written. */
#ifndef HSP_ALLOCATE_H
#define HSP_ALLOCATE_H
#include "daemon/cluster/cluster_state.h"

/* The devices job @j may use now, ascending, in the arena of the step. Pure function of
 * jobs by priority and submit order, min and max, and devices. */
uint32_t hsp_ci_available(struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id **ret);
bool hsp_ci_contains(const hsp_device_id *list, uint32_t n, hsp_device_id d);

#endif
