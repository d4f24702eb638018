/* Lists the checkpoints of a job's history, on record and on disk as nodes have said last, and
 * chooses the best.
 *
 * The content of a checkpoint on record is known, and another content of its step does not take its
 * place. A checkpoint that is found on disk alone is the word of some agent. Such a checkpoint is
 * put on record when an epoch has begun with it, which proves it, and not before. Where members
 * have refused one for as long as they may (ckpt_look.h), it is passed over until the job has begun
 * or is resumed, or there is no other for long; with HSP_CKPT_TRIES of them, all that are found
 * are. A job that has begun does not begin at step 0 for that.
 *
 * Example: 20 and 40 are on record, nodes see 40, another content of 40, and 50: 50 is taken. Its
 * members find no such checkpoint: 40 is taken, with the content on record.
 *
 * A store that was put back does not know which checkpoints were given up since, but the disk shows
 * it. Epochs rise. So an epoch with a checkpoint at a lower step than one of an earlier epoch has
 * not begun with that one, nor behind it. The one of the earlier epoch was given up, and is left
 * out, also where it is on record; the newest epoch is the job's line. Example: 100 of epoch 1 is
 * on record, nodes see it with 60, 80 and 86 of epoch 2: 86 is taken. Epochs below `begun` tell
 * nothing: the cuts are known up to there, and an administrator may have chosen another line.
 * Checkpoints that members have refused tell nothing, so a false claim is tried and passed over
 * like any other. Where the choice is the same without all this nothing is left out, so a
 * checkpoint of a low step that is not tried takes no older ones away. The cuts that this makes are
 * put on record when an epoch has begun with the choice (ckpt_marks.h).
 *
 * Where all cuts are known this leaves out nothing. A checkpoint that counts and was written before
 * `begun` is not behind the step at which that epoch began, and no epoch since has written there;
 * since then the job has one line, along which steps rise with epochs.
 *
 * Purity: pure. */
#ifndef HSP_CKPT_WHICH_H
#define HSP_CKPT_WHICH_H
#include "daemon/cluster/cluster_state.h"

/* The @i-th on record, steps ascending; NULL: there are not so many. @newest: room for it. */
const struct hsp_ckpt_kept *hsp_ci_ckpt_recorded(const struct hsp_job *j, uint32_t i,
                                                 struct hsp_ckpt_kept *newest);
/* The mark on record of @step; NULL: none. */
const struct hsp_ckpt_mark *hsp_ci_ckpt_mark_of(const struct hsp_job *j, uint64_t step);
/* Whether @k, of the same step, is the one that @mark means; NULL: none is. */
bool hsp_ci_ckpt_meant(const struct hsp_ckpt_mark *mark, const struct hsp_ckpt_kept *k);
/* @k is not on record. */
bool hsp_ci_ckpt_is_found(const struct hsp_job *j, const struct hsp_ckpt_kept *k);
/* Sets the cuts that the checkpoints on disk show for the line of @j; after each look, and when one
 * was refused. */
void hsp_ci_ckpt_line(struct hsp_job *j);
/* The newest checkpoint of step @step or above that the line of @j alone leaves out. False:
 * none. */
bool hsp_ci_ckpt_left_out(const struct hsp_job *j, uint64_t step, struct hsp_ckpt_kept *ret);
/* Whether @a is to be taken rather than @b: newer, then the one on record, then written later. */
bool hsp_ci_ckpt_better(const struct hsp_job *j, const struct hsp_ckpt_kept *a,
                        const struct hsp_ckpt_kept *b);
/* The best one of the history that is on disk and was not refused, for a job that begins anew none
 * of step 0; NULL: none. */
const struct hsp_ckpt_kept *hsp_ci_ckpt_best(const struct hsp_job *j);
bool hsp_ci_ckpt_is_on_disk(const struct hsp_job *j, const struct hsp_ckpt_kept *k);
/* The newest one on record of a step below @below that no node sees, and was not refused. False:
 * there is none. */
bool hsp_ci_ckpt_missing(const struct hsp_job *j, uint64_t below, struct hsp_ckpt_kept *ret);
/* The newest step of the history of @j that is on record or on disk. False: there is none. */
bool hsp_ci_ckpt_newest(const struct hsp_job *j, uint64_t *ret);
/* The checkpoint that @j goes on from where its origin was refused: the best on disk, or a newer
 * one on record of a step below. False: there is none. */
bool hsp_ci_ckpt_next(const struct hsp_job *j, struct hsp_ckpt_kept *ret);
/* @k is passed over from now on. */
void hsp_ci_ckpt_note_refused(struct hsp_job *j, const struct hsp_ckpt_kept *k);
/* Checkpoints that were refused so far are not passed over any more, but it stays known that some
 * were. */
void hsp_ci_ckpt_forgive(struct hsp_job *j);

#endif
