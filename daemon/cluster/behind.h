/* Notices that this store is older than the agents of the cluster, and then leaves alone whatever
 * they know better: nothing is sealed, stopped, begun or deleted.
 *
 * Only witnesses count (standing.h): what others say is passed over, or parks them. Example: a backup of
 * yesterday is put back. Node a, a member then too, says hello with epoch 9 of job mist; the backup
 * knows epochs up to 3. Mist is BEHIND, other jobs run. Of job dusk, submitted after the backup, a
 * record without a row is made: it is BEHIND as well, so that status shows it, and nothing is
 * planned on its devices. */
#ifndef HSP_BEHIND_H
#define HSP_BEHIND_H
#include "daemon/cluster/cluster_state.h"

/* Member @n keeps @k of @j: more than is on record. */
void hsp_ci_job_behind(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                       const struct hsp_m_kept *k);
/* The same of a job that is not on record at all. It is passed over when its number is beyond what a
 * store of this cluster has given by now, when HSP_MAX_FOUND such jobs are shown, or when a job with
 * a row would have to go for it. */
void hsp_ci_job_found(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                      const struct hsp_m_kept *k);
/* Node @n says that @j, which is BEHIND, is done, in its newest epoch: an offer to the administrator,
 * who may believe it and cancel @j. */
void hsp_ci_behind_finished(struct hsp_cluster *c, struct hsp_job *j,
                            const struct hsp_cluster_node *n, uint64_t epoch);
/* True when node @n, if it is the one that says @m, knows more of one of its jobs. */
bool hsp_ci_knows_more(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m);
/* Of all jobs that member @n keeps; before anything else of its HELLO is believed. */
void hsp_ci_take_evidence(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                          const struct hsp_m_hello *m);
/* Member @name has obeyed a newer coordinator of this cluster: this one does nothing from here on,
 * until the newer store is back or an administrator removes that node (admin.c). Stored. */
void hsp_ci_behind(struct hsp_cluster *c, const char *name, const char *why);

#endif
