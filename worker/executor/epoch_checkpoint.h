/* @@SENTENCE@@ epoch_checkpoint: purpose to be written. */
#ifndef HSP_EPOCH_CHECKPOINT_H
#define HSP_EPOCH_CHECKPOINT_H
#include "worker/executor/epoch.h"

/* Checkpoints, restore of the one that PREPARE means. *ret_disk: how the writing fared, at rank 0 that of all; @err says why
 * not. The result is about the others: they wait for what this rank cannot do, or this one for them, and
 * the epoch is over. */
enum hsp_status hsp_epoch_checkpoint(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_ckpt_sum *ret, enum hsp_status *ret_disk,
                                     struct hsp_err *err);
enum hsp_status hsp_epoch_restore(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
