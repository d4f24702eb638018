/* Decides whether a checkpoint is of the history that runs: its cuts leave out all others.
 *
 * A job that goes on from an older checkpoint gives up all later ones. Example: epoch 1 wrote 40,
 * 53 and 60; the job went on from 40 in epoch 3, which wrote 60. The cut is {0, 3, 40}: the 53 and
 * the 60 of epoch 1 are left out, also if they are on disk; 40 and the 60 of epoch 3 are not.
 *
 * Role:   hspmdd makes the cuts (daemon/cluster/ckpt_cuts.h) and chooses by them; executors get
 *         them with PREPARE, and count by them which checkpoints to keep.
 * Purity: pure. */
#ifndef HSP_CKPT_CUT_H
#define HSP_CKPT_CUT_H
#include <stdbool.h>
#include <stdint.h>

#define HSP_MSG_CUTS 16u /* of a job; hspmdd makes one of the two oldest where there are more */

/* `from` of a cut that may leave out more than was given up. No epoch is below it, as with 0. */
#define HSP_CUT_MORE 1u

/* Leaves out the checkpoints of epochs `from` to `epoch` - 1 behind `step`. */
struct hsp_m_cut {
    uint64_t from, epoch, step;
};

/* Whether the checkpoint of @step that @epoch has written counts. @epoch 0, not known, is never
 * left out. */
static inline bool hsp_cuts_allow(const struct hsp_m_cut *cut, uint32_t n, uint64_t epoch,
                                  uint64_t step)
{
    bool allow = true;
    for (uint32_t i = 0; i < n && epoch != 0; i++) {
        allow = allow && (epoch < cut[i].from || epoch >= cut[i].epoch || step <= cut[i].step);
    }
    return allow;
}

/* Whether the metrics of @step that @epoch has told count: loss and the like of version @step,
 * before it was trained. A cut that leaves out too much is passed over here: behind it the history
 * that runs has told each step again. A new begin, at step 0, leaves no step of before. */
static inline bool hsp_cuts_allow_metrics(const struct hsp_m_cut *cut, uint32_t n, uint64_t epoch,
                                          uint64_t step)
{
    bool allow = true;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t at = cut[i].step == 0 ? step + 1 : step;
        allow = allow && (cut[i].from == HSP_CUT_MORE || hsp_cuts_allow(&cut[i], 1, epoch, at));
    }
    return allow;
}

#endif
