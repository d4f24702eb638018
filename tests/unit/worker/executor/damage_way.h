/* Damages state in a message: flips a bit of a message that arrives at an executor. Called by the
 * wrapped functions of damage_world.c.
 * Purity: shell (memory that is shared with executors forked later). */
#ifndef HSP_DAMAGE_WAY_H
#define HSP_DAMAGE_WAY_H
#include <stdbool.h>
#include <stdint.h>

#include "worker/executor/epoch.h"

/* The kinds of messages with state: the copies of a version, the state at the start of an epoch,
 * the slabs of a checkpoint for its writer, the slabs of the final model for rank 0, the answer of
 * a peer that has a checkpoint. */
enum dw_way { NO_WAY, BY_COPIES, BY_MOVE, BY_CHECKPOINT, BY_FINAL, BY_RESTORE };

void dw_way_begin(void);
void dw_way_end(void);
/* Schedules a bit flip: of the messages of kind @way that device @dev receives from now on, the
 * first @after stay undamaged, and the next one gets bit @bit (modulo its number of bits)
 * flipped. */
void dw_way_plan(enum dw_way way, unsigned dev, unsigned after, uint64_t bit);
/* Returns true if the scheduled bit was flipped. */
bool dw_way_done(void);

/* Makes the receives of mesh @mesh of epoch @e look for the message to damage, from now on. Called
 * in executor @dev on the thread that uses the mesh. */
void dw_way_watch(struct hsp_ex_epoch *e, int mesh, unsigned dev);

#endif
