/* Leaves a node out whose state folder cannot be used, for a while.
 *
 * Example: the folder of n2 is mounted read-only. n2 says so when it prepares epoch 5. The attempt
 * is dropped and does not count as a failure of the job. n2 gets no work of any job for a minute:
 * its jobs move away, or go on there where there is no other place. The state on n2 may still be
 * read. After the minute n2 is offered again; if it fails again, it is out for two minutes, and so
 * on up to sixteen. A fault of more than 32 minutes ago counts no more.
 *
 * In memory only. The fault ends early when the node says hello with a new incarnation, when it is
 * dead, when an administrator undrains it (try_anew.h), and after a loss of a job that is on it and
 * has too few other devices: the layout that the job has there needs no room, so it can go on in a
 * folder that is full. */
#ifndef HSP_NODE_FAULT_H
#define HSP_NODE_FAULT_H
#include "daemon/cluster/cluster_state.h"

/* True when @f says that nothing can be made in the folder of its node. Executors below protocol 16
 * tell a full one as want of memory. */
bool hsp_ci_is_folder_fault(const struct hsp_m_failed *f);
/* Leaves @n out. @why: one line. */
void hsp_ci_node_fault(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why);
/* Takes @n in again, if it was out. @forget: it has no fault on record any more. */
void hsp_ci_node_mended(struct hsp_cluster *c, struct hsp_cluster_node *n, bool forget);
/* Takes in again, once, the nodes of @j, which is to go on from the versions that they have
 * sealed. */
void hsp_ci_node_faults_retry(struct hsp_cluster *c, const struct hsp_job *j);
/* Takes in again the nodes whose time is over. */
void hsp_ci_node_faults_advance(struct hsp_cluster *c);
/* When the time of the next node is over. */
hsp_msec hsp_ci_node_faults_due(const struct hsp_cluster *c);
/* "; n2 is left out: ..." for each node that is out, at most a few; "" none. */
const char *hsp_ci_node_faults_why(struct hsp_cluster *c);

#endif
