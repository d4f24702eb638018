/* Judges devices by the health that their agents report, and explains it to people.
 *
 *   WARN      a line for people
 *   CORDON    the device gets no more work; its work moves away, as from a node that drains
 *   LOST      the work on it is lost; its executor comes back without the device and serves the
 *             state that it had sealed
 *
 * Health is not stored: each HELLO says it again, and a new agent looks anew.
 *
 * From a cordon on a device is not offered, and its job is planned anew without it, by the
 * switch that a drain of its node would make. Where that cannot be, the job goes on there and
 * says why. A lost device is a loss at once, whether or not the end of its executor is heard. */
#ifndef HSP_HEALTH_H
#define HSP_HEALTH_H
#include "daemon/cluster/cluster_state.h"

/* Takes in the note of device @p->index that HELLO carries beyond its figures: model, health,
 * cause. */
void hsp_ci_take_note(struct hsp_cluster *c, struct hsp_cluster_node *n,
                      const struct hsp_m_device *p);
/* Takes in DEVICE_HEALTH. */
void hsp_ci_health(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_health *m);
/* The cause of the health of @d; "" when FINE. */
const char *hsp_device_why(const struct hsp_node_device *d);
/* "drain of n1/0", or "cordon of n1/0: " and the cause. Only where hsp_ci_to_leave is not NULL. */
const char *hsp_ci_leave_cause(struct hsp_cluster *c, hsp_device_id d);
/* "; n1/0 is lost: why; and 2 more", of the devices of connected nodes that get no work for their
 * health; or "". */
const char *hsp_ci_unhealthy(struct hsp_cluster *c);
/* Tells, once, that nothing is left on a device that gets no work. */
void hsp_ci_tell_drained(struct hsp_cluster *c, struct hsp_cluster_node *n);

#endif
