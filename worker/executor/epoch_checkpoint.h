/* Writes the state of an epoch as a checkpoint while the job trains.
 *
 * Purity:  shell (files, and messages of the state mesh).
 * Threads: hsp_epoch_checkpoint runs on the keeper thread.
 */
#ifndef HSP_EPOCH_CHECKPOINT_H
#define HSP_EPOCH_CHECKPOINT_H
#include "worker/executor/epoch.h"

/* Writes the checkpoint of @version together with all members. *ret_disk: how the writing fared, at
 * rank 0 that of all members; @err says why a disk failed. The result is about the links: when a
 * member does not do its part the others wait in vain, and the epoch is over. */
enum hsp_status hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                     struct hsp_err *err);
/* The place of @version in the data, as a manifest states it. HSP_EINVAL as hsp_dataset_corpus. */
enum hsp_status hsp_epoch_cursor(const struct hsp_ex_epoch *e, uint64_t version,
                                 struct hsp_data_cursor *ret, struct hsp_err *err);

#endif
