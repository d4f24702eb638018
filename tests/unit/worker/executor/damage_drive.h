/* Drives a damaged job to its end after each break, as hspmdd does: seals, goes on from the newest
 * whole version, else from a checkpoint. Each device has a folder of checkpoints of its own. */
#ifndef HSP_DAMAGE_DRIVE_H
#define HSP_DAMAGE_DRIVE_H
#include "tests/unit/worker/executor/damage_world.h"

/* The end of a job, and its recoveries. */
struct dd_end {
    bool finished;         /* false: no state to go on from was left */
    uint32_t n_from_state; /* recoveries from segments, and from a checkpoint */
    uint32_t n_from_ckpt;
    uint64_t from; /* version of the last recovery */
};

/* Returns the folder of checkpoints of device @dev. */
void dd_folder(const struct dw_scenario *s, int dev, char ret[4300]);
/* Begins epoch 11, fresh, in @layout. */
void dd_begin(struct dw_scenario *s, enum dw_layout layout);
/* Receives messages until @step steps are committed and @n_ckpt checkpoints are complete, or until
 * the epoch breaks. */
void dd_until(struct dw_scenario *s, uint64_t step, uint32_t n_ckpt);
/* Prepares epoch 12, to go on in layout @to with all three devices; dw_arm arms it. */
void dd_switch(struct dw_scenario *s, enum dw_layout to);
/* Goes on to the end of the job, also if the epoch is broken already. */
struct dd_end dd_finish(struct dw_scenario *s);
/* Finds the newest whole version, of the newest layout that has one. Returns false if there is
 * none. */
bool dd_choose(struct dw_scenario *s, enum dw_layout *ret_layout, uint64_t *ret_version);
/* Asserts that the losses of all steps and the final model are those of one undisturbed device. */
void dd_assert_undisturbed(struct dw_scenario *s);

#endif
