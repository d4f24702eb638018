/* Keeps the cuts of a job, the places where it has left its history to go on from an older
 * checkpoint, so that a checkpoint given up never counts again (proto/wire/ckpt_cut.h).
 *
 * Example: epoch 1 wrote 40, 53 and 60, and an administrator chose 40. The cut is {0, 3, 40}. Epoch
 * 3 wrote 60, and after a loss epoch 5 went on from it: {0, 3, 40}, {0, 5, 60}. The 53 of epoch 1
 * stays left out. Then an administrator chooses that 53: it counts, and of the other epochs only
 * checkpoints up to 40: {1, 1, 40}, {2, 7, 40}, {0, 7, 53}.
 *
 * Metrics count by the same cuts (hsp_cuts_allow_metrics), but for those that may leave out more
 * than was given up and say so by `from` 1: the one that several have become, and the first of such
 * a pair. Example: epoch 1 wrote up to 50, epoch 2 went on from that up to 80, epoch 3 went on from
 * 30. Then an administrator chooses the 80: {1, 2, 30}, {3, 4, 30}, {0, 4, 80}. The 40 of epoch 1
 * does not count any more, though it led there; its metrics do.
 *
 * Purity:     pure.
 * Invariants: steps ascend; a later cut replaces those whose step is not below its own, as it
 *             leaves out all that they do. Of more than HSP_MSG_CUTS the two oldest become one,
 *             which leaves out all that either does, and more: an old checkpoint that counted may
 *             not count any more. The checkpoint that the job goes on from always counts: where the
 *             one cut would leave it out, all behind the lowest step of all cuts is left out, but
 *             for its own epoch. */
#ifndef HSP_CKPT_CUTS_H
#define HSP_CKPT_CUTS_H
#include "daemon/cluster/cluster_state.h"

/* Epoch @epoch goes on from the checkpoint of @step that was written in @written_in (0: not known);
 * step 0: it begins anew. */
void hsp_ci_cuts_add(struct hsp_ckpt_cuts *h, uint64_t epoch, uint64_t step, uint64_t written_in);
/* The cuts of @j as they are when the attempt @e, if it is any, has begun. */
void hsp_ci_cuts_of(const struct hsp_job *j, const struct hsp_cl_epoch *e,
                    struct hsp_ckpt_cuts *ret);
/* Whether the checkpoint @k is of the history of @j. */
bool hsp_ci_cuts_allow(const struct hsp_job *j, const struct hsp_ckpt_kept *k);
/* Whether the metrics of @step that @epoch has told are. */
bool hsp_ci_metrics_count(const struct hsp_job *j, uint64_t epoch, uint64_t step);

#endif
