/* Wakes and stops the threads of an epoch. No call waits for a thread, so the control thread and
 * any thread of the epoch may call.
 *
 * Threads: any; each call takes the lock of the epoch.
 */
#ifndef HSP_EPOCH_CONTROL_H
#define HSP_EPOCH_CONTROL_H
#include "worker/executor/epoch.h"

/* Enters @phase and wakes the threads that wait for a change. */
void hsp_epoch_set_phase(struct hsp_ex_epoch *e, enum hsp_epoch_phase phase);
/* Makes @event_fd readable, which wakes its reader: the eventfd of the control thread, or the
 * cancel_fd of an epoch. */
void hsp_epoch_poke(int event_fd);
/* Lets the epoch begin with @version. Called after START, or when the running epoch hands over. */
void hsp_epoch_go(struct hsp_ex_epoch *e, uint64_t version);
/* Stores that mesh @which has lost a peer; only the first loss is stored. A loss in the move mesh
 * is ignored once all state has arrived, because a source may close its connections then. */
void hsp_epoch_note_loss(struct hsp_ex_epoch *e, enum hsp_epoch_mesh which,
                         const struct hsp_mesh_loss *loss, const char *why);
/* Returns true if a peer was lost, with the loss in *ret. The function asks the meshes: an
 * operation may fail before the I/O thread of its mesh has reported the loss. */
bool hsp_epoch_loss(struct hsp_ex_epoch *e, struct hsp_mesh_loss *ret);
/* Returns the wait for one call to a file system: the time limit, and an early end when the epoch
 * is over. */
struct hsp_disk_wait hsp_epoch_disk_wait(struct hsp_ex_epoch *e);
/* Makes all running operations of the epoch fail, as a broken connection does. Does not wait for
 * their end. */
void hsp_epoch_abort(struct hsp_ex_epoch *e);

#endif
