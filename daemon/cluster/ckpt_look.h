/* Finds out which checkpoints of a job are on disk before the job begins with one, and chooses that
 * one (ckpt_choice.md).
 *
 * The record may be older than the disk (a store that was lost or put back, papers) or newer (a
 * disk that went). So the shell asks nodes (FIND_CKPTS) and answers with CKPTS. Some nodes
 * *matter*: those that have run the job, as its row says (`ran`, which stays over cancel and
 * resume), with those that have leases or layouts of it, or that vouch for it. All nodes matter
 * where it is not known which nodes have run the job (`ran_unknown`: the row is older than form 15,
 * or is of another store, or stood in papers). A checkpoint that another node names counts where it
 * is the one on record, or, on a shared path, where no node that matters sees the folder. Otherwise
 * an event names it, --from can take it, and new epochs are above its epoch. A failure of another
 * node does not hold the job up.
 *
 *   all that matter have looked      the newest step of the history is taken
 *   one could not look, could not    asked again for state_wait. Then the newest one that is seen
 *   read a step, has run the job     is taken, and ckpt.not_seen names those nodes. None is seen:
 *   and has not its file, or is      the job waits, it does not begin at step 0
 *   too old to be asked (14)
 *   one is not connected             the same, without the wait: it was waited for with the state
 *                                    of the job, or all that it may have is on record. With the
 *                                    wait where neither is so: the row is of before
 *                                    (`ran_unknown`), and the job was at rest
 *   one that may have run it has     where none is seen, asked again for state_wait; then the job
 *   not its file                     begins at step 0, and ckpt.not_seen says why
 *
 * The job waits for a checkpoint that is on record and on no node here, without an attempt, for
 * state_wait. Example: 20, 40 and 60 are on record, nodes see 20, 40 and 50. 60 is waited for; then
 * the job goes on from 50. With checkpoint.shared nobody else can have 60, so the job goes on from
 * 50 at once.
 *
 * Nodes look also for a job that has not begun by its row, if the row was read: the store may be
 * one of before. The job waits for nobody until a node shows a mark or a checkpoint of it, or where
 * hspmdd --restore said that the store is older. Example: the store of Monday has mist as pending;
 * on Tuesday a and b ran it, with checkpoints on a. Monday's store is back, a is away, b shows the
 * mark: a is waited for.
 *
 * Members may refuse a checkpoint for state_wait. The first refusal is told (ckpt.refused). Each
 * attempt reads the checkpoint again, so they become rare: after 0, 2, 4, 8, 16, 32 and 60 s where
 * state_wait is 60 s, and 2 s after a node has said hello for the first time since the first
 * refusal: the node may have it. Example: the agent of b restarts every 5 s, and one attempt more
 * is made for it.
 *
 * If the refused one was found on disk, the job goes on as if it was not there (ckpt.not_used), and
 * others that are found later are not tried that long. If there is no other, a job that has begun
 * waits: the refused one may be all there is of it, on a disk that fails for a while, or on a node
 * whose devices other jobs have. Refused checkpoints are tried once more after state_wait, and
 * again each time that the wait has doubled. So a false claim holds up no job: another checkpoint
 * that comes meanwhile is taken.
 *
 * If the refused one is on record, the job goes back in the same time (ckpt.fallback) to the next
 * older one on record or on disk; without one the job fails. Example: 60 is on record, its node is
 * away, and another node says that it has 60, with another content. The job waits for the 60 on
 * record. Then the job tries the other, which nobody can open. In the end the job waits for the
 * first one again, and takes it when its node comes. A checkpoint on record counts as seen where a
 * node that matters is too old to be asked: a member that then finds nothing refuses its PREPARE.
 *
 * Invariant: knowledge of the disk is forgotten with each loss and each begin, and when a node that
 * may have a checkpoint comes back before an attempt is begun. Then a look under way is begun anew,
 * for 30 s. Example: the disk of a hangs, so that a look takes 10 s, and the agent of b restarts
 * every 5 s. The look that is under way after 30 s is finished without b, and prolongs no wait. */
#ifndef HSP_CKPT_LOOK_H
#define HSP_CKPT_LOOK_H
#include "daemon/cluster/cluster_state.h"

/* False: @j has never begun, or not since step 0 was chosen, or committed nothing, nor was it
 * adopted: it has no checkpoint. */
bool hsp_ci_ckpt_may_have(const struct hsp_job *j);
/* Whether the checkpoints on disk are known, or @j has never written any. Else asks for them. */
bool hsp_ci_ckpt_looked(struct hsp_cluster *c, struct hsp_job *j);
/* A node that may have a checkpoint of @j says hello, before an attempt is begun. */
void hsp_ci_ckpt_hello(const struct hsp_cluster *c, struct hsp_job *j);
/* The node of mark @k says hello while members refuse the checkpoint with which @j is to begin. */
void hsp_ci_ckpt_hurry(const struct hsp_cluster *c, struct hsp_job *j, struct hsp_job_mark *k);
/* The nodes have answered. */
void hsp_ci_ckpts(struct hsp_cluster *c, const struct hsp_ckpts_event *ev);
/* Sets the origin of @j, which is to begin there, to the newest checkpoint that can be had; without
 * any, to version 0. False: it is waited for, or @j has failed. */
bool hsp_ci_ckpt_ready(struct hsp_cluster *c, struct hsp_job *j);
/* No member of the attempt could begin with its checkpoint, as member @n says. */
void hsp_ci_ckpt_refused(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                         const struct hsp_m_refused *m);
/* RESUME @a from a step: sets the origin to that checkpoint, which need not be of the history;
 * step 0: to a new begin, for which no checkpoint counts. NULL: done; else why not, with those
 * that there are. */
const char *hsp_ci_ckpt_resume(struct hsp_cluster *c, struct hsp_job *j,
                               const struct hsp_admin_event *a);

#endif
