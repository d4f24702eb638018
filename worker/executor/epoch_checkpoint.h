/* Writes the state of an epoch as a checkpoint while the job trains.
 *
 * Purity:  shell (files, and messages of the state mesh).
 * Threads: hsp_epoch_checkpoint runs on the replication thread.
 */
#ifndef HSP_EPOCH_CHECKPOINT_H
#define HSP_EPOCH_CHECKPOINT_H
#include "worker/executor/epoch.h"

/* Writes the checkpoint of @version; called by all members. *ret_disk: the result of writing the
 * files, at rank 0 the result of all members; @err says why a disk failed.
 * Returns HSP_OK if the training goes on. Then *ret_disk may be the error of a disk, HSP_ETIMEDOUT
 * (a disk did not answer within HSP_DISK_MS) or HSP_ECANCELED (the epoch ended while a member was
 * writing). After any other status the epoch must end, because the other members wait for messages
 * that do not come: HSP_EDIGEST if this rank's part of @version is damaged, so that the next
 * version, computed from it, may be damaged, too; errors of links. */
enum hsp_status hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                     struct hsp_err *err);
/* Finds the place in the training data at which @version continues, for the manifest of a
 * checkpoint. Returns HSP_EINVAL as hsp_dataset_corpus does. */
enum hsp_status hsp_epoch_cursor(const struct hsp_ex_epoch *e, uint64_t version,
                                 struct hsp_data_cursor *ret, struct hsp_err *err);

#endif
