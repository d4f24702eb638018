/* Wakes and stops the threads of an epoch, so that the control thread and the parts of the epoch
 * can move it on without a wait.
 *
 * Threads: any; each call takes the lock of the epoch.
 */
#ifndef HSP_EPOCH_CONTROL_H
#define HSP_EPOCH_CONTROL_H
#include "worker/executor/epoch.h"

/* Enters @phase and wakes the threads that wait for a change. */
void hsp_epoch_set_phase(struct hsp_ex_epoch *e, enum hsp_epoch_phase phase);
/* Makes an eventfd readable: that of the control thread, or the cancel_fd of an epoch. */
void hsp_epoch_poke(int event_fd);
/* START, or the hand-over of the running epoch: begin with @version. */
void hsp_epoch_go(struct hsp_ex_epoch *e, uint64_t version);
/* A peer broke, as @which mesh knows: the first loss stays. The mesh of the move has served once
 * the state is here: a source may go then. */
void hsp_epoch_note_loss(struct hsp_ex_epoch *e, enum hsp_epoch_mesh which,
                         const struct hsp_mesh_loss *loss, const char *why);
/* True when a peer was lost: *ret is its loss. Meshes are asked for it, as their operations may
 * fail before their own threads come to tell. */
bool hsp_epoch_loss(struct hsp_ex_epoch *e, struct hsp_mesh_loss *ret);
/* The time that a file system has for one call. */
struct hsp_disk_wait hsp_epoch_disk_wait(struct hsp_ex_epoch *e);
/* Says stop to the operations of the epoch, as a break does; does not wait. */
void hsp_epoch_abort(struct hsp_ex_epoch *e);

#endif
