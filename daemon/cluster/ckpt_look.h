/* Finds out which checkpoints of a job are on disk before the job begins with one, since the record
 * may be older than the disk (a store that was lost or put back, papers) or newer (a disk that
 * went).
 *
 * The shell asks nodes (FIND_CKPTS) and answers with CKPTS. The newest one of the job's history is
 * taken, on record or not. One that is on record and on no node that is here is waited for as long
 * as other state, without an attempt; then it is passed over.
 *
 * Example: 20, 40 and 60 are on record, nodes see 20, 40 and 50. 60 is waited for; then the job
 * goes on from 50. With checkpoint.shared nobody else can have 60, so the job goes on from 50 at
 * once.
 *
 * Some nodes matter for this. Where the path is not shared, those are the job's own: with leases or
 * layouts of it, or that vouch for it. Where no layout is on record (the job was cancelled, or its
 * store is lost), any node that computes may be one. Where the path is shared, one node that sees
 * the folder is enough, beside the job's own that are connected. Whatever other nodes cannot do is
 * told, and holds nobody up.
 *
 *   all that matter have looked      the newest step of the history is taken
 *   one could not look, or could     asked again for state_wait. Then the newest one that is seen
 *   not read a step, or is too old   is taken, and ckpt.not_seen names who could not look. None is
 *   to be asked (protocol 14)        seen: the job waits, it does not begin at step 0
 *   one is not connected             the same, without the wait: it was waited for before
 *   one has no checkpoint.path       where none is seen, asked again for state_wait; then the job
 *                                    begins at step 0, and ckpt.not_seen says why. A worker makes
 *                                    the folder with the first checkpoint, so it proves nothing
 *
 * A job that has not begun, as far as its row says, is looked for too when that row was read: the
 * store may be one of before. Then nobody is waited for.
 *
 * What is on record counts as seen where a node that matters is too old to be asked: a member that
 * then finds nothing refuses its PREPARE.
 *
 * A checkpoint is of the job's history when its epoch is not older than the one that last began at
 * the origin, or its step is not behind the origin. Example: epoch 1 wrote 40, 60, 80; an
 * administrator resumed from 40, as epoch 3, which wrote 60. The 60 of epoch 3 counts, the 80 of
 * epoch 1 does not.
 *
 * Invariant: what is known of the disk is forgotten with each loss and each begin. */
#ifndef HSP_CKPT_LOOK_H
#define HSP_CKPT_LOOK_H
#include "daemon/cluster/cluster_state.h"

/* False: @j has never begun, nor was it adopted, so it has no checkpoint. */
bool hsp_ci_ckpt_may_have(const struct hsp_job *j);
/* Whether it is known what is on disk, or @j has never written anything. Else asks for it. */
bool hsp_ci_ckpt_looked(struct hsp_cluster *c, struct hsp_job *j);
/* The nodes have answered. */
void hsp_ci_ckpts(struct hsp_cluster *c, const struct hsp_ckpts_event *ev);
/* The newest step of the history of @j that is on record or on disk. False: there is none. */
bool hsp_ci_ckpt_newest(const struct hsp_job *j, uint64_t *ret);
/* Sets the origin of @j, which is to begin there, to the newest checkpoint that can be had; without
 * any, to version 0. False: it is waited for, or @j has failed. */
bool hsp_ci_ckpt_ready(struct hsp_cluster *c, struct hsp_job *j);
/* RESUME @a from a step: sets the origin to that checkpoint, which need not be of the history.
 * NULL: done; else why not, with those that there are. */
const char *hsp_ci_ckpt_resume(struct hsp_cluster *c, struct hsp_job *j,
                               const struct hsp_admin_event *a);

#endif
