/* Drives a job with damaged state to its end, as hspmdd does: after each break it seals the epoch
 * and goes on from the newest complete version, or from a checkpoint if there is none. Each device
 * has its own folder for checkpoints. */
#ifndef HSP_DAMAGE_DRIVE_H
#define HSP_DAMAGE_DRIVE_H
#include "tests/unit/worker/executor/damage_world.h"

/* Describes how a job has ended, and its recoveries. */
struct dd_end {
    bool finished;         /* false: there was no state from which to go on */
    uint32_t n_from_state; /* number of recoveries from segments, from a checkpoint */
    uint32_t n_from_ckpt;
    uint64_t from; /* version from which the last recovery went on */
};

/* Returns the folder of checkpoints of device @dev. */
void dd_folder(const struct dw_scenario *s, int dev, char ret[4300]);
/* Begins epoch 11 of a fresh job in @layout. */
void dd_begin(struct dw_scenario *s, enum dw_layout layout);
/* Receives messages until @step steps are committed and @n_ckpt checkpoints are complete, or until
 * the epoch breaks. */
void dd_until(struct dw_scenario *s, uint64_t step, uint32_t n_ckpt);
/* Prepares a switch to epoch 12, in layout @to on all three devices; dw_arm arms the switch. */
void dd_switch(struct dw_scenario *s, enum dw_layout to);
/* Plays the job to its end, also if the epoch is broken already. */
struct dd_end dd_finish(struct dw_scenario *s);
/* Finds the newest complete version of the newest layout that has one. Returns false if no layout
 * has a complete version. */
bool dd_choose(struct dw_scenario *s, enum dw_layout *ret_layout, uint64_t *ret_version);
/* Asserts that the losses of all steps and the final model are those of one undisturbed device. */
void dd_assert_undisturbed(struct dw_scenario *s);

#endif
