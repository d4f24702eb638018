/* Gives all devices that begin an epoch the notes of steps that they lack (step_log.h), so that the
 * notes move with the state. So the rank that ends the job knows each step, also steps that were
 * made on devices that have left.
 *
 *   rank 0 has steps 0 to 40, 1 has 0 to 42 (it passed the last votes), 2 is new:
 *     1 -> 0, 2 -> 0     steps of each: 0..42; none
 *     0 -> 1, 0 -> 2     steps that rank 0 requests: 41..42; none
 *     1 -> 0, 2 -> 0     lines of these steps: two; none
 *     0 -> 1, then 2     lines that they lack: none; 0..42
 *
 * If the epoch before has broken, rank 0 then reports the newest HSP_EPOCH_SAID steps to hspmdd,
 * which may lack the last of them.
 *
 * If a step was made again, the line of the newest epoch is the valid one. Lines of steps that
 * PREPARE names as given up are not shared (proto/wire/ckpt_cut.h). Lists and lines are sent in
 * messages of 16 KiB. At most 64 messages are under way to a peer, and rank 0 serves one peer at a
 * time.
 *
 * Purity:  shell (the file of the device; messages of the move mesh, else of the state mesh).
 */
#ifndef HSP_STEP_SHARE_H
#define HSP_STEP_SHARE_H
#include "worker/executor/epoch.h"

/* Shares the notes; called by all peers of an epoch that begins from earlier state. Does nothing if
 * PREPARE does not ask for shared notes, because a peer runs an older program. Returns errors of
 * the mesh, and HSP_ENOMEM at rank 0 if there is no memory for a few bytes about each peer. Damage
 * in the file of this device, and notes that do not fit into its memory, are only logged, because
 * other devices have noted these steps. */
enum hsp_status hsp_notes_share(struct hsp_ex_epoch *e, struct hsp_err *err);

#endif
