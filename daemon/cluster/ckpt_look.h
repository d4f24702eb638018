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
 * once. Where nodes see none at all, and one of them could not look, nothing is known: the job
 * waits, however long that takes, and neither fails nor begins at step 0.
 *
 * A checkpoint is of the job's history when its epoch is not older than the one that last began at
 * the origin, or its step is not behind the origin. Example: epoch 1 wrote 40, 60, 80; an
 * administrator resumed from 40, as epoch 3, which wrote 60. The 60 of epoch 3 counts, the 80 of
 * epoch 1 does not.
 *
 * An agent of a protocol before HSP_PROTO_CKPTS cannot be asked: while one is a member, nobody is,
 * and the record counts as the disk. A member that then finds nothing refuses its PREPARE. Where
 * nothing is on record either, the job waits.
 *
 * Invariant: what is known of the disk is forgotten with each loss and each begin. */
#ifndef HSP_CKPT_LOOK_H
#define HSP_CKPT_LOOK_H
#include "daemon/cluster/cluster_state.h"

/* False: @j has never begun, nor was it adopted, so it has no checkpoint. */
bool hsp_ci_ckpt_may_have(const struct hsp_job *j);
/* A connected node whose agent cannot be asked; NULL: there is none. */
const struct hsp_cluster_node *hsp_ci_ckpt_mute(const struct hsp_cluster *c);
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
