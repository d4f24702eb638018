/* Opens and creates the state segments of an epoch, and reuses those of the same layout.
 *
 * Purity:  shell (files of the state folder).
 */
#ifndef HSP_EPOCH_SEGMENTS_H
#define HSP_EPOCH_SEGMENTS_H
#include "worker/executor/epoch.h"

/* Opens the segments of this rank and of the copies that it keeps, or creates them. A sealed
 * segment of another shape is not touched: HSP_ESTATE: the layout needs another number;
 * HSP_EUNSUPPORTED: the epoch was to go on from that segment and cannot. HSP_ENOSPC; errors of
 * segments. */
enum hsp_status hsp_epoch_open_segments(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Deletes the segment *@s of the epoch with its memory, and creates it again, unsealed. After an
 * error *@s is NULL. Errors of segments. */
enum hsp_status hsp_epoch_renew_segment(struct hsp_ex_epoch *e, struct hsp_state_segment **s,
                                        struct hsp_err *err);
/* Gives the segments to the pool at the end of the epoch, when no thread writes them any more. The
 * files stay, with two exceptions: unsealed segments of a dropped epoch, and segments of an epoch
 * that ends alone and has sealed none, since the next attempt has another layout. Both become
 * spares. */
void hsp_epoch_leave_segments(struct hsp_ex_epoch *e);

#endif
