/* @@SENTENCE@@ nccl_split: purpose to be written. */
#ifndef HSP_NCCL_SPLIT_H
#define HSP_NCCL_SPLIT_H
#include "worker/comm/nccl/nccl_make.h"

enum hsp_status hsp_nccl_no_memory(struct hsp_err *err);
/* By the first member: whether there is a communicator to split @w off, then w->split_from. HSP_ENOMEM. */
enum hsp_status hsp_nccl_split_find(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                                    struct hsp_err *err);
void hsp_nccl_split_tell(const struct hsp_nccl_wanted *w, struct hsp_buf *to);
/* What a first member has told, behind key and kind. @w: NULL: this rank is no member. HSP_EPROTO, HSP_ENOMEM, HSP_EPEER:
 * what is to be split is not here any more. */
enum hsp_status hsp_nccl_split_hear(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                                    uint64_t key, struct hsp_cursor *c, struct hsp_err *err);
/* When the links wait for them. HSP_ENOMEM. */
enum hsp_status hsp_nccl_splits_start(struct hsp_nccl_making *m, struct hsp_err *err);
bool hsp_nccl_splits_left(const struct hsp_nccl_making *m);
/* @st: not HSP_OK: gives up what is left, and with it what was to be split. Frees. */
void hsp_nccl_splits_end(struct hsp_nccl_making *m, enum hsp_status st);

#endif
