/* Writes the state of an epoch as a checkpoint while the job trains.
 *
 * Purity:  shell (files, and messages of the state mesh).
 * Threads: hsp_epoch_checkpoint runs on the keeper thread.
 */
#ifndef HSP_EPOCH_CHECKPOINT_H
#define HSP_EPOCH_CHECKPOINT_H
#include "worker/executor/epoch.h"

/* Writes the checkpoint of @version together with all members. *ret_disk: the result of the
 * writing, at rank 0 that of all members; @err says why a disk failed. HSP_OK: the training goes
 * on, also when a disk failed, or had no answer (HSP_ETIMEDOUT, after HSP_DISK_MS), or a writer has
 * heard that the epoch ends (HSP_ECANCELED). Else the epoch is over, for the other members wait in
 * vain: HSP_EDIGEST, this rank's part of @version is damaged, and so may be the next version, which
 * is made of it; errors of links. */
enum hsp_status hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                     struct hsp_err *err);
/* The place of @version in the data, as a manifest states it. HSP_EINVAL as hsp_dataset_corpus. */
enum hsp_status hsp_epoch_cursor(const struct hsp_ex_epoch *e, uint64_t version,
                                 struct hsp_data_cursor *ret, struct hsp_err *err);

#endif
