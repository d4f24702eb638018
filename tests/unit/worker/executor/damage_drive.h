/* Brings a story of damage to its end, whatever breaks: seals, goes on from the newest version that
 * is whole, else from a checkpoint, as hspmdd would. Each device has a folder of checkpoints of its
 * own. */
#ifndef HSP_DAMAGE_DRIVE_H
#define HSP_DAMAGE_DRIVE_H
#include "tests/unit/worker/executor/damage_world.h"

/* How it ended, and what it took. */
struct dd_end {
    bool finished;         /* false: nothing was left to go on from */
    uint32_t n_from_state; /* times that it went on from segments, and from a checkpoint */
    uint32_t n_from_ckpt;
    uint64_t from; /* the version, the last time */
};

void dd_folder(const struct dw_scenario *s, int dev, char ret[4300]); /* of checkpoints */
/* Epoch 11, fresh, in @layout. */
void dd_begin(struct dw_scenario *s, enum dw_layout layout);
/* Hears all until @step steps are committed and @n_ckpt checkpoints are complete, or until something breaks. */
void dd_until(struct dw_scenario *s, uint64_t step, uint32_t n_ckpt);
/* Prepares epoch 12, to go on in layout @to with all three devices; dw_arm lets it. */
void dd_switch(struct dw_scenario *s, enum dw_layout to);
/* To the end. Something may be broken already. */
struct dd_end dd_finish(struct dw_scenario *s);
/* The newest version that is whole, of the newest layout of which there is one. False: none. */
bool dd_choose(struct dw_scenario *s, enum dw_layout *ret_layout, uint64_t *ret_version);
/* The losses of all steps and the final model are those of one undisturbed device. */
void dd_assert_undisturbed(struct dw_scenario *s);

#endif
