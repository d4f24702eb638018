/* Runs the steps of an epoch with a vote before each update, and then hands over to the next epoch
 * or writes the outputs. Terms: epoch.h.
 *
 * Threads: the run thread of a member; hooks of the engine on its communication thread.
 */
#ifndef HSP_EPOCH_TRAIN_H
#define HSP_EPOCH_TRAIN_H
#include "worker/executor/epoch.h"

/* Trains from @version to the last step, or until all members are armed for the next epoch. Returns
 * HSP_OK if all steps are done and the outputs are written, or if the epoch has handed over. */
enum hsp_status hsp_epoch_train(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);
/* Hands over to @epoch, for which all members are armed: seals @version and lets @epoch begin with
 * @version. @n_noop: no-op steps in a row so far. *ret_left: false if @epoch was dropped before;
 * then this epoch goes on. Returns the error of the replication thread if that thread has failed,
 * and HSP_ECANCELED if this epoch has ended; @epoch does not begin then. Returns HSP_ECANCELED also
 * if @epoch is dropped after this epoch has freed its device memory; then a recovery goes on from
 * @version. */
enum hsp_status hsp_epoch_hand_over(struct hsp_ex_epoch *e, uint64_t epoch, uint64_t version,
                                    uint32_t n_noop, bool *ret_left, struct hsp_err *err);

#endif
