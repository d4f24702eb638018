/* Makes communicators by splitting them off larger ones, which is cheaper than to make them
 * anew. */
#ifndef HSP_NCCL_SPLIT_H
#define HSP_NCCL_SPLIT_H
#include "worker/comm/nccl/nccl_make.h"

/* Sets HSP_ENOMEM. */
enum hsp_status hsp_nccl_no_memory(struct hsp_err *err);
/* Finds, at the first member, a communicator to split @w off, and sets w->split_from.
 * HSP_ENOMEM. */
enum hsp_status hsp_nccl_split_find(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                                    struct hsp_err *err);
/* Writes the first member's message: the parent and the members in it. */
void hsp_nccl_split_tell(const struct hsp_nccl_wanted *w, struct hsp_buf *to);
/* Reads a first member's message, behind key and kind. @w: NULL: this rank is no member.
 * HSP_EPROTO, HSP_ENOMEM, HSP_EPEER: the parent is not here any more. */
enum hsp_status hsp_nccl_split_hear(struct hsp_nccl_making *m, struct hsp_nccl_wanted *w,
                                    uint64_t key, struct hsp_cursor *c, struct hsp_err *err);
/* Starts the splits, when the new links wait for them. HSP_ENOMEM. */
enum hsp_status hsp_nccl_splits_start(struct hsp_nccl_making *m, struct hsp_err *err);
/* Returns true if splits are still under way. */
bool hsp_nccl_splits_left(const struct hsp_nccl_making *m);
/* Frees the splits. @st not HSP_OK: gives up the splits that are left, with their parents. */
void hsp_nccl_splits_end(struct hsp_nccl_making *m, enum hsp_status st);

#endif
