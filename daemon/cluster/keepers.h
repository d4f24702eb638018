/* @@SENTENCE@@ keepers: purpose to be written. */
#ifndef HSP_KEEPERS_H
#define HSP_KEEPERS_H
#include "daemon/cluster/cluster_impl.h"

/* Mesh ranks of @e that take part in every step: members and keepers. */
uint32_t hsp_ci_lasting(const struct hsp_cl_epoch *e);
/* The device of a holder in the layout, HSP_NO_DEVICE: a keeper that was not to be had. */
hsp_device_id hsp_ci_holder(const struct hsp_plan_info *p, uint32_t rank);
/* The best @want of @n nodes for a keeper of @bytes: those that keep for the job already, then those
 * that can begin at once, then the fewest kept bytes, then the number of the node. @list is put into
 * that order, those without room behind; returns how many of the first may be taken. */
uint32_t hsp_keepers_order(struct hsp_keeper_node *list, uint32_t n, uint32_t want, uint64_t bytes);
/* Chooses the keepers of a layout that has not been used yet. */
void hsp_ci_set_keepers(struct hsp_cluster *c, const struct hsp_job *j, struct hsp_plan_info *p);
/* Layout @plan with the keepers there are now: its own number when they are the same, else the number
 * of a copy of it. 0: no memory. */
uint64_t hsp_ci_with_keepers(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan);
/* Should the running layout have other keepers? Names the cause. */
bool hsp_ci_wants_keepers(struct hsp_cluster *c, struct hsp_job *j);
/* Device @d of the attempt is one of its keepers: it is not asked again for a while. */
bool hsp_ci_refuse_keeper(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d,
                          const char *why);
void hsp_ci_keepers_advance(struct hsp_cluster *c, struct hsp_job *j);

#endif
