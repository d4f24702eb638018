/* Lists the steps in the folder of a job, and deletes those of one job that it needs no more.
 *
 *   DIR/step-0000000100          a complete step
 *       step-0000000100.job-3    a complete step of job 3, which had the name of this job before
 *       step-0000000200.job-7.term-2.epoch-9.0123456789abcdef0123456789abcdef.tmp
 *                                a step that epoch 9 of job 7 of that cluster writes; never read
 *       step-0000000200.job-7.0123456789abcdef0123456789abcdef.tmp
 *                                the same of a version that names no epoch, or of an epoch with
 *                                a member of it; deleted as one of epoch 0, but not swept at the
 *                                step itself
 *       step-0000000300.left     a step that was deleted while it had folders in it, which are not
 *                                ours; a second one is step-0000000300.left-2. All files are
 *                                deleted with their step, also files of others
 *       step-100                 another's: such names are neither read nor deleted
 *
 * Purity:  shell (files). DIR is not followed where it is a link (folder.h).
 * Bounds:  1,048,576 steps in one folder, then HSP_ELIMIT.
 */
#ifndef HSP_CKPT_STEPS_H
#define HSP_CKPT_STEPS_H
#include "proto/wire/ckpt_cut.h"
#include "worker/state/ckpt.h"

/* All complete steps, newest first; free(). A directory that does not exist has none. HSP_ELIMIT,
 * HSP_EIO, HSP_EPERM, HSP_ENOMEM. */
enum hsp_status hsp_ckpt_list(const char *dir, struct hsp_ckpt_place **ret, size_t *ret_n,
                              struct hsp_err *err);

/* Deletes the complete steps of the job of @us up to us->step, but for the newest @keep (>= 1), and
 * the attempts of this job below the newest complete step. Example: keep 2, steps 40, 30, 20 and 10
 * of this job, where 30 is damaged: 40 and 20 are kept and 10 is deleted; 30 does not count, and
 * goes when two good steps are newer. The same holds for a step that one of the cuts @cut[n_cuts]
 * leaves out (proto/wire/ckpt_cut.h), since the job cannot go back to it by itself.
 *
 * Steps above us->step are of another history and stay. Steps of another or an unknown owner
 * (ckpt_owner.h) are neither counted nor deleted. After an error with one step the others are still
 * deleted; the first error is returned. */
enum hsp_status hsp_ckpt_prune(const char *dir, const struct hsp_ckpt_info *us, size_t keep,
                               const struct hsp_m_cut *cut, uint32_t n_cuts, struct hsp_err *err);

/* Deletes the attempts of this job at steps below us->step, and those of earlier epochs at
 * us->step, so that their room is free for it. Not those at us->step that name no epoch: a member
 * of an older version may be writing one. Errors as above. */
enum hsp_status hsp_ckpt_sweep(const char *dir, const struct hsp_ckpt_info *us,
                               struct hsp_err *err);

/* Deletes the attempt of the epoch of @us at us->step; no error when there is none. */
enum hsp_status hsp_ckpt_abandon(const char *dir, const struct hsp_ckpt_info *us,
                                 struct hsp_err *err);

#endif
