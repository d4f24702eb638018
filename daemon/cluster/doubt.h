/* Holds jobs that may have ended, or gone on elsewhere, since this store was written.
 *
 * A backup knows a job as unfinished. By the time the backup is restored the job may be done or
 * cancelled, and its agents have deleted its state. If hspmdd began the job again, it would train
 * from an old checkpoint and overwrite newer ones. So a job waits until its agents vouch for it, or
 * an administrator resumes or cancels it.
 *
 * Example: the backup says that mist runs on a and b; then mist ends. After `hspmdd --restore` both
 * agents come back and keep nothing of mist: mist is paused, status says why. Had both agents kept
 * their parts, mist would go on by itself. Had a alone kept a part while b is here without, mist
 * would wait: a may have been away when the job ended.
 *
 * The job may also run on nodes that are no members of it by this store: a and b were drained, mist
 * went on on c and d. Node c proves that it is a node of this store and keeps a newer epoch of
 * mist: it is parked (parked.h), and mist is held until c joins or an administrator cancels mist.
 *
 * The doubt is stored with the job, so it outlives a restart of hspmdd and the connection of c. */
#ifndef HSP_DOUBT_H
#define HSP_DOUBT_H
#include "daemon/cluster/cluster_state.h"
#include "proto/wire/msg.h"

/* Called when an older store has been restored: every job that has not ended by that store is put
 * in doubt, and the nodes that have run these jobs are noted as not known (ckpt_look.h). Both facts
 * are stored. */
void hsp_ci_doubt_all(struct hsp_cluster *c);
/* Called when the agent of @conn was parked: puts in doubt the jobs of which it provably keeps
 * newer state than the store records. */
void hsp_ci_doubt_parked(struct hsp_cluster *c, uint32_t conn);
/* An administrator does not believe the state on node @name: no job is held because of it any more.
 */
void hsp_ci_doubt_disbelieve(struct hsp_cluster *c, const char *name);
/* Notes whether node @at, which joins, vouches for @j. @k is the state of @j that it keeps, NULL:
 * none. */
void hsp_ci_doubt_hello(struct hsp_cluster *c, struct hsp_job *j, uint32_t at,
                        const struct hsp_m_kept *k);
/* Returns true while @j is held; the reason of @j and an event say so. Ends the doubt when the
 * agents of @j vouch for it. Call it only when each node has come back or is dead. */
bool hsp_ci_held_in_doubt(struct hsp_cluster *c, struct hsp_job *j);
/* An administrator says that @j has not ended, so the doubt ends. Returns false, and keeps the
 * doubt, if a connected node shows that @j has run on beyond this store; the reason of @j names it.
 */
bool hsp_ci_doubt_end(struct hsp_cluster *c, struct hsp_job *j);

#endif
