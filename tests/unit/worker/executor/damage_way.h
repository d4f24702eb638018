/* Damages state on its way: flips a bit of a message as it arrives at an executor. Called by the
 * wraps of damage_world.c.
 * Purity: shell (memory that is shared with executors forked later). */
#ifndef HSP_DAMAGE_WAY_H
#define HSP_DAMAGE_WAY_H
#include <stdbool.h>
#include <stdint.h>

#include "worker/executor/epoch.h"

/* Where state travels: copies of a version, the state at the start of an epoch, a checkpoint to its writer, the final
 * model to rank 0, the answer of a peer that has a checkpoint. */
enum dw_way { NO_WAY, BY_COPIES, BY_MOVE, BY_CHECKPOINT, BY_FINAL, BY_RESTORE };

void dw_way_begin(void);
void dw_way_end(void);
/* From now on: bit @bit (modulo its bits) of message @after, counted from 0, that comes to device @dev that way. */
void dw_way_plan(enum dw_way way, unsigned dev, unsigned after, uint64_t bit);
bool dw_way_done(void); /* it was flipped */

/* In executor @dev, on the thread that uses mesh @mesh of @e: looks at what it brings from now on. */
void dw_way_watch(struct hsp_ex_epoch *e, int mesh, unsigned dev);

#endif
