/* Notices that this store is older than the agents of the cluster. Jobs of which an agent knows
 * more are then left alone: no device is sealed, stopped or begun, and no state is deleted.
 *
 * Only evidence counts (hsp_ci_testifies); other agents that keep more are parked. Example: a
 * backup of yesterday is put back. Node a, a member then too, says hello with epoch 9 of job
 * mist; the backup knows epochs up to 3. Mist is BEHIND, other jobs run. Of job dusk, submitted
 * after the backup, a record without a row is made: it is BEHIND as well, so that status shows
 * it, and nothing is planned on its devices.
 *
 * A job that is not adopted is such a record too: a member keeps it, and it is of a cluster of
 * which other jobs were adopted. Such a job says nothing about this store, so each HELLO of a
 * member counts. Example: job mist was adopted; nodes a and b, which it names, keep a failed job
 * div of the same cluster as well. Both join and run mist. div is shown with their names, and stays
 * as it is. A device that runs such a job is left to it; one that only keeps its state works. A
 * node that mist does not name and that keeps div is foreign: nobody has said that it belongs
 * here. */
#ifndef HSP_BEHIND_H
#define HSP_BEHIND_H
#include "daemon/cluster/cluster_state.h"

/* Member @n keeps @k of @j, which is more than is on record: @j is BEHIND. */
void hsp_ci_job_behind(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                       const struct hsp_m_kept *k);
/* Member @n keeps @k of a job that is not on record, or not adopted: a job BEHIND is shown. The job
 * is passed over when no store of this cluster can have given its number, when HSP_MAX_FOUND such
 * jobs are shown, or when a job with a row would have to be forgotten for it. */
void hsp_ci_job_found(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                      const struct hsp_m_kept *k);
/* Node @n says that @j, which is BEHIND, is done, in its newest epoch: an offer to the
 * administrator, to believe it and cancel @j. */
void hsp_ci_behind_finished(struct hsp_cluster *c, struct hsp_job *j,
                            const struct hsp_cluster_node *n, uint64_t epoch);
/* True when HELLO @m, if it is of node @n, is evidence of more than is on record. */
bool hsp_ci_knows_more(const struct hsp_cluster *c, const struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m);
/* Takes in the evidence of HELLO @m of member @n, before the rest of the HELLO is believed. */
void hsp_ci_take_evidence(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                          const struct hsp_m_hello *m);
/* Notes whether node @at, which says hello, keeps state of @j, if @j is BEHIND. @k is the state
 * that it keeps under that number, NULL: none. */
void hsp_ci_behind_hello(struct hsp_cluster *c, struct hsp_job *j, uint32_t at,
                         const struct hsp_m_kept *k);
/* Forgets jobs that are not on record and that no node keeps any more. */
void hsp_ci_behind_tidy(struct hsp_cluster *c);
/* Member @name has obeyed a newer coordinator of this cluster, of @generation. This coordinator
 * does nothing until the newer store is back, or until an administrator removes @name
 * (admin.c). Stored. */
void hsp_ci_behind(struct hsp_cluster *c, const char *name, uint64_t generation, const char *why);

#endif
