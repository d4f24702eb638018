/* Tells of sealed state of this device that is not what was sealed, and takes it out of use.
 *
 * Purity:  shell (the log, messages to the agent).
 * Example: "wte.weight (m) [0:8, 4:8]" is damaged in version 120 of rank 2's part in layout 3: the
 *          agent gets STATE_DAMAGED, and the log a line.
 */
#ifndef HSP_EPOCH_DAMAGE_H
#define HSP_EPOCH_DAMAGE_H
#include "worker/executor/epoch.h"
#include "worker/state/segment_name.h"

/* Tells of a piece; @part says what of it is damaged. @live: it went bad while this epoch ran. */
void hsp_epoch_tell_damaged(struct hsp_ex_epoch *e, const struct hsp_segname *piece,
                            uint64_t version, bool live, const char *part);
/* The same for row @row of segment @s, which was sealed as @version. */
void hsp_epoch_tell_damaged_row(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                uint32_t row, uint64_t version, bool live);
/* A segment that this epoch uses was damaged while it ran: told, and no source any more. Always
 * HSP_EDIGEST, with @err naming the row. */
enum hsp_status hsp_epoch_disown(struct hsp_ex_epoch *e, struct hsp_state_segment *s, uint32_t row,
                                 struct hsp_err *err);

#endif
