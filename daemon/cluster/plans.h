/* @@SENTENCE@@ plans: purpose to be written. */
#ifndef HSP_PLANS_H
#define HSP_PLANS_H
#include "daemon/cluster/cluster_state.h"

struct hsp_job_plan *hsp_ci_plan(const struct hsp_job *j, uint64_t plan);
void hsp_ci_info_fini(struct hsp_plan_info *p);
const char *hsp_ci_info_fault(const struct hsp_plan_info *p); /* NULL: well formed */
void hsp_ci_start_plan(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                       uint32_t n, bool urgent);
void hsp_ci_cancel_plan(struct hsp_cluster *c, struct hsp_job *j);
void hsp_ci_plan_done(struct hsp_cluster *c, const struct hsp_plan_event *ev);
uint64_t hsp_ci_adopt_result(struct hsp_cluster *c, struct hsp_job *j); /* its plan number */
/* A new number for what layout @plan is, with @keeper. 0: no memory. */
uint64_t hsp_ci_copy_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                          const hsp_device_id *keeper, uint32_t n_keepers);
void hsp_ci_drop_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan);

#endif
