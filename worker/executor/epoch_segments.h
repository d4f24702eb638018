/* Opens and creates the state segments of an epoch, and reuses those of the same layout.
 *
 * Purity:  shell (files of the state folder).
 */
#ifndef HSP_EPOCH_SEGMENTS_H
#define HSP_EPOCH_SEGMENTS_H
#include "worker/executor/epoch.h"

/* Opens the segments of this rank and those of the copies it keeps, or creates them. A sealed one
 * of another shape is not touched: HSP_ESTATE, the layout needs another number; HSP_EUNSUPPORTED,
 * the epoch was to go on from it and cannot. HSP_ENOSPC; errors of segments. */
enum hsp_status hsp_epoch_open_segments(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Deletes the segment *@s of the epoch with its memory, and makes it anew: unsealed. On an error
 * *@s is NULL. Errors of segments. */
enum hsp_status hsp_epoch_renew_segment(struct hsp_ex_epoch *e, struct hsp_state_segment **s,
                                        struct hsp_err *err);
/* At the end, when nothing writes them any more: gives them to the pool. The files stay, but for
 * those that an epoch that is dropped has not sealed, and those of an epoch that ends alone and
 * has sealed none: the next attempt has another layout. These become spares. */
void hsp_epoch_leave_segments(struct hsp_ex_epoch *e);

#endif
