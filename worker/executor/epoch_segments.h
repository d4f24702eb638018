/* Opens the state segments of an epoch: reuses segments that an earlier epoch of the same layout
 * has left, and creates the others. Terms: epoch.h.
 *
 * Purity:  shell (files of the state folder).
 */
#ifndef HSP_EPOCH_SEGMENTS_H
#define HSP_EPOCH_SEGMENTS_H
#include "worker/executor/epoch.h"

/* Opens or creates the segments of this rank's home and of the copies that this rank keeps. A
 * sealed segment of this layout whose rows or offsets differ is not touched. Then returns
 * HSP_ESTATE if the layout needs another number, and HSP_EUNSUPPORTED if the epoch was to go on
 * from that segment and cannot. Returns HSP_ENOSPC if the folder lacks room, and errors of
 * segments. */
enum hsp_status hsp_epoch_open_segments(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Deletes the segment *@s of the epoch with its memory, and creates it again, unsealed. Returns
 * errors of segments; then *@s is NULL. */
enum hsp_status hsp_epoch_renew_segment(struct hsp_ex_epoch *e, struct hsp_state_segment **s,
                                        struct hsp_err *err);
/* Gives the segments to the pool (segment_pool.h) at the end of the epoch, when no thread writes to
 * them any more. The files keep their names and versions, with two exceptions, which become spares:
 * unsealed segments of a dropped epoch, and all segments of an epoch that has sealed none and whose
 * layout no other epoch uses, because the next attempt has another layout. */
void hsp_epoch_leave_segments(struct hsp_ex_epoch *e);

#endif
