/* Writes the state of an epoch as a checkpoint while the job trains.
 *
 * Purity:  shell (files, and messages of the state mesh).
 * Threads: hsp_epoch_checkpoint runs on the replication thread.
 */
#ifndef HSP_EPOCH_CHECKPOINT_H
#define HSP_EPOCH_CHECKPOINT_H
#include "worker/executor/epoch.h"

/* Writes the checkpoint of @version together with all members. *ret_disk: the result of writing the
 * files, at rank 0 the result of all members; @err says why a disk failed.
 * HSP_OK: the training goes on, also where *ret_disk is the error of a disk, HSP_ETIMEDOUT (no
 * answer within HSP_DISK_MS) or HSP_ECANCELED (a writer was told that the epoch ends). After any
 * other status the epoch is over, for the other members wait in vain. HSP_EDIGEST: this rank's part
 * of @version is damaged, and the next version, which is made of that part, may be damaged, too;
 * errors of links. */
enum hsp_status hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                     struct hsp_err *err);
/* Returns in *ret the place of @version in the data, as a manifest states it. HSP_EINVAL as
 * hsp_dataset_corpus. */
enum hsp_status hsp_epoch_cursor(const struct hsp_ex_epoch *e, uint64_t version,
                                 struct hsp_data_cursor *ret, struct hsp_err *err);

#endif
