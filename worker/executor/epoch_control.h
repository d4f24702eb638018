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
/* Makes @event_fd readable: the eventfd of the control thread, or the cancel_fd of an epoch. */
void hsp_epoch_poke(int event_fd);
/* Lets the epoch begin with @version: after START, or at the hand-over of the running epoch. */
void hsp_epoch_go(struct hsp_ex_epoch *e, uint64_t version);
/* Notes that a peer broke, as mesh @which has found; only the first loss is kept. Losses in the
 * move mesh do not count once the state is here: a source may leave then. */
void hsp_epoch_note_loss(struct hsp_ex_epoch *e, enum hsp_epoch_mesh which,
                         const struct hsp_mesh_loss *loss, const char *why);
/* Returns true if a peer was lost, with the loss in *ret. The function asks the meshes, since their
 * operations may fail before their own threads report the loss. */
bool hsp_epoch_loss(struct hsp_ex_epoch *e, struct hsp_mesh_loss *ret);
/* Returns the time limit of a file system for one call. */
struct hsp_disk_wait hsp_epoch_disk_wait(struct hsp_ex_epoch *e);
/* Stops the operations of the epoch, as a broken connection does; does not wait for their end. */
void hsp_epoch_abort(struct hsp_ex_epoch *e);

#endif
