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
 * Some nodes matter for this: those that have run the job, as its row says (`ran`, which stays over
 * cancel and resume), with those that have leases or layouts of it, or that vouch for it. What another
 * node says that it has counts where it is what is on record, where nobody knows who has run the job
 * (`ran_unknown`: the row is older than form 15 or is another store's, papers), or, on a shared path,
 * where none that matters sees the folder. Otherwise it is told, and --from can name it. What another
 * node cannot do holds nobody up. On a shared path one node that sees the folder is enough.
 *
 * Each member marks the job's folder before the first step (worker/state/ckpt_sign.h). So a folder
 * with that mark and no checkpoint has none; one without it is not the job's, or is not mounted.
 *
 *   all that matter have looked      the newest step of the history is taken
 *   one could not look, could not    asked again for state_wait. Then the newest one that is seen
 *   read a step, has no mark, or is  is taken, and ckpt.not_seen names who could not look. None is
 *   too old to be asked (14)         seen: the job waits, it does not begin at step 0
 *   one is not connected             the same, without the wait: it was waited for before
 *   nobody knows who matters, and    where none is seen, asked again for state_wait; then the job
 *   some have no mark                begins at step 0, and ckpt.not_seen says why
 *
 * An administrator ends such a wait: node remove for a node that is gone for good, resume --from 0.
 *
 * A job that has not begun, as far as its row says, is looked for too when that row was read: the
 * store may be one of before. Nobody is waited for, until a node shows a mark or a checkpoint of the
 * job, or where hspmdd --restore said that the store is older: then all nodes of the store matter that
 * are not connected. Example: the store of Monday has mist as pending; on Tuesday a and b ran it, with
 * checkpoints on a. Monday's store is back, a is away, b shows the mark: a is waited for.
 *
 * One that is found, on disk and not on record, is what some agent says: it is on record when an epoch has
 * begun with it (ckpt_which.h). Where members refuse it for state_wait the job goes on as if it was not there
 * (ckpt.not_used), and others that are found later are not tried that long. Where there is nothing else, a job that
 * has begun waits for an administrator's word: what was refused may be all there is of it, on a disk that fails for a
 * while, or on a node whose devices others have. One on record is gone back from in
 * the same time (ckpt.fallback), to the next older one on record or on disk; without one the job fails.
 * Example: 60 is on record, its node is away, and another node says that it has 60, with another content. The 60
 * on record is waited for; then the other is tried, which nobody can open: the first one is waited for again,
 * and taken when its node comes.
 *
 * What is on record counts as seen where a node that matters is too old to be asked: a member that
 * then finds nothing refuses its PREPARE.
 *
 * A checkpoint is of the job's history unless a cut leaves it out (ckpt_cuts.h): one that an earlier
 * epoch has written behind the step from which the job went on since. Example: epoch 1 wrote 40, 53,
 * 80; an administrator resumed from 40, as epoch 3, which wrote 60. The 60 of epoch 3 counts, the 53
 * and the 80 of epoch 1 never do again, also when the 60 is lost, or when the job has gone on from it.
 *
 * Invariant: what is known of the disk is forgotten with each loss and each begin, and as a node that may have a
 * checkpoint comes back before an attempt is begun. */
#ifndef HSP_CKPT_LOOK_H
#define HSP_CKPT_LOOK_H
#include "daemon/cluster/cluster_state.h"

/* False: @j has never begun, or not since step 0 was chosen, or committed nothing, nor was it adopted: it has no
 * checkpoint. */
bool hsp_ci_ckpt_may_have(const struct hsp_job *j);
/* Whether it is known what is on disk, or @j has never written anything. Else asks for it. */
bool hsp_ci_ckpt_looked(struct hsp_cluster *c, struct hsp_job *j);
/* The nodes have answered. */
void hsp_ci_ckpts(struct hsp_cluster *c, const struct hsp_ckpts_event *ev);
/* Sets the origin of @j, which is to begin there, to the newest checkpoint that can be had; without
 * any, to version 0. False: it is waited for, or @j has failed. */
bool hsp_ci_ckpt_ready(struct hsp_cluster *c, struct hsp_job *j);
/* No member of the attempt could begin with its checkpoint, as member @n says. */
void hsp_ci_ckpt_refused(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                         const struct hsp_m_refused *m);
/* RESUME @a from a step: sets the origin to that checkpoint, which need not be of the history; step 0:
 * to a new begin, for which no checkpoint counts. NULL: done; else why not, with those that there are. */
const char *hsp_ci_ckpt_resume(struct hsp_cluster *c, struct hsp_job *j,
                               const struct hsp_admin_event *a);

#endif
