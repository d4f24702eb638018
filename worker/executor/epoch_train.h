/* Trains: runs the steps of an epoch, votes after each step, and hands over to the next epoch or
 * writes the outputs.
 *
 * Threads: the run thread of a member; hooks of the engine on its communication thread.
 */
#ifndef HSP_EPOCH_TRAIN_H
#define HSP_EPOCH_TRAIN_H
#include "worker/executor/epoch.h"

/* Trains from @version to the last step, or until all members are armed for the next epoch. HSP_OK:
 * all steps are done and the outputs are written, or the epoch has handed over. */
enum hsp_status hsp_epoch_train(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);
/* Hands over to @epoch, for which all members are armed: seals @version and lets @epoch begin with
 * @version. @n_noop: no-op steps in a row so far. *ret_left false: @epoch was dropped meanwhile.
 * @epoch does not begin if the replication thread has failed (its error is returned) or this epoch
 * has ended (HSP_ECANCELED). HSP_ECANCELED also if @epoch is dropped after this epoch has given its
 * memory back: a recovery goes on then. */
enum hsp_status hsp_epoch_hand_over(struct hsp_ex_epoch *e, uint64_t epoch, uint64_t version,
                                    uint32_t n_noop, bool *ret_left, struct hsp_err *err);

#endif
