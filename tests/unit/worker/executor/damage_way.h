/* Damages state on its way: flips a bit of a message that arrives at an executor. The wraps of
 * damage_world.c call it.
 * Purity: shell (memory that is shared with executors forked later). */
#ifndef HSP_DAMAGE_WAY_H
#define HSP_DAMAGE_WAY_H
#include <stdbool.h>
#include <stdint.h>

#include "worker/executor/epoch.h"

/* The ways of state: copies of a version, the state at the start of an epoch, a checkpoint to its
 * writer, the final model to rank 0, the answer of a peer that has a checkpoint. */
enum dw_way { NO_WAY, BY_COPIES, BY_MOVE, BY_CHECKPOINT, BY_FINAL, BY_RESTORE };

void dw_way_begin(void);
void dw_way_end(void);
/* Orders a flip of bit @bit (modulo the bits of the message) of message @after, counted from 0 from
 * now on, that comes to device @dev by @way. */
void dw_way_plan(enum dw_way way, unsigned dev, unsigned after, uint64_t bit);
/* Returns true if the bit was flipped. */
bool dw_way_done(void);

/* Watches the messages of mesh @mesh of @e from now on, in executor @dev, on the thread that uses
 * the mesh. */
void dw_way_watch(struct hsp_ex_epoch *e, int mesh, unsigned dev);

#endif
