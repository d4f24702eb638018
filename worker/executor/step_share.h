/* Gives the notes of steps (step_log.h) to all that begin an epoch, so that they go where the state
 * goes: whoever ends the job can tell of each step, also of those that were made where nobody is
 * any more.
 *
 *   rank 0 has steps 0 to 40, 1 has 0 to 42 (it passed the last votes), 2 is new:
 *     1 -> 0, 2 -> 0     what they have: 0..42; nothing
 *     0 -> 1, 0 -> 2     what rank 0 wants: 41..42; nothing
 *     1 -> 0, 2 -> 0     those two lines; none
 *     0 -> 1, then 2     what they lack: nothing; 0..42
 *
 * Where the epoch before has broken, rank 0 then reports the newest HSP_EPOCH_SAID of them to
 * hspmdd, which may not have heard of the last ones.
 *
 * Of a step that was made again the newest epoch's line counts, of those that PREPARE does not
 * leave out (proto/wire/ckpt_cut.h). Lists and lines go in messages of 16
 * KiB, of which at most 64 are on the way to a peer, and to one peer at a time.
 *
 * Purity:  shell (the file of the device, and messages of the mesh of the move, else of the state).
 */
#ifndef HSP_STEP_SHARE_H
#define HSP_STEP_SHARE_H
#include "worker/executor/epoch.h"

/* For all peers of an epoch that goes on from state; nothing where PREPARE does not ask for it, as
 * an older program is among them. Errors of the mesh; HSP_ENOMEM at rank 0, where there is no room
 * for a few bytes about each peer. What is wrong with the file of this device, or does not fit into
 * its memory, is logged: others have noted the same steps. */
enum hsp_status hsp_notes_share(struct hsp_ex_epoch *e, struct hsp_err *err);

#endif
