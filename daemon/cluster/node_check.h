/* Checks nodes: each measures its devices again, then each pair measures the link between them.
 *
 * A node gets one order at a time, and so does a host, so that no figure is that of a machine with
 * two tests. All devices come first, then the links. The figures change no plan. A node that
 * executes a job is left alone, unless asked otherwise, also when the job begins during the check.
 * Each order ends by the answer of its agent, by the end of the connection, or by time.
 *
 * A check is in memory only. The check ends with the connection of its administrator, with this
 * process, and by the limits of its orders. */
#ifndef HSP_NODE_CHECK_H
#define HSP_NODE_CHECK_H
#include "daemon/cluster/cluster_state.h"

/* Begins the check of command @a. Replies at once when no node can be asked, else when all have
 * been. */
void hsp_ci_check_begin(struct hsp_cluster *c, const struct hsp_admin_event *a);
/* Stops the check that @request asked for. */
void hsp_ci_check_stop(struct hsp_cluster *c, uint64_t request);
/* Ends orders that are over, gives those that can begin, ends the check behind the last one. */
void hsp_ci_check_advance(struct hsp_cluster *c);
/* Takes in CHECKED. */
void hsp_ci_checked(struct hsp_cluster *c, struct hsp_cluster_node *n,
                    const struct hsp_m_checked *m);
/* Next time an order is over. */
hsp_msec hsp_ci_check_due(const struct hsp_cluster *c);
/* Frees the lists of the check. */
void hsp_ci_check_fini(struct hsp_cluster *c);

#endif
