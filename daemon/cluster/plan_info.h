/* Checks, copies and frees the part of a plan that the core needs (struct hsp_plan_info). */
#ifndef HSP_PLAN_INFO_H
#define HSP_PLAN_INFO_H
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"

/* The part of @p that is malformed; NULL: well formed. */
const char *hsp_ci_info_fault(const struct hsp_plan_info *p);
/* Makes an owned copy. False: no memory, and *ret owns nothing. */
bool hsp_ci_info_copy(const struct hsp_plan_info *from, struct hsp_plan_info *ret);
void hsp_ci_info_fini(struct hsp_plan_info *p);
/* Frees all that layout @p owns. */
void hsp_ci_plan_fini(struct hsp_job_plan *p);
/* The device of holder @rank: a member or a replica holder. HSP_NO_DEVICE: a replica holder that
 * was not to be had. */
hsp_device_id hsp_ci_holder(const struct hsp_plan_info *p, uint32_t rank);

#endif
