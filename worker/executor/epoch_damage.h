/* Reports damaged state of this device to hspmdd, and takes the damaged state out of use.
 *
 * Purity:  shell (the log, messages to the agent).
 * Example: "wte.weight (m) [0:8, 4:8]" is damaged in version 120 of rank 2's part in layout 3. The
 *          agent gets STATE_DAMAGED, and the log a line.
 * Example: the same part is damaged in device memory. The segment, copied from device memory
 *          before, is intact, and the job goes on from the segment.
 * Example: the replicas of version 120 differ. Each rank sends STATE_DAMAGED with given_up_in:
 *          hspmdd then believes no piece of version 120, also no piece of a rank that was killed
 *          before it could unseal the version.
 */
#ifndef HSP_EPOCH_DAMAGE_H
#define HSP_EPOCH_DAMAGE_H
#include "worker/executor/epoch.h"
#include "worker/state/segment_name.h"

/* Reports that @part of @piece is damaged. @live: the damage happened while this epoch ran. */
void hsp_epoch_tell_damaged(struct hsp_ex_epoch *e, const struct hsp_segname *piece,
                            uint64_t version, bool live, const char *part);
/* Reports row @row of segment @s, which was sealed as @version. */
void hsp_epoch_tell_damaged_row(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                uint32_t row, uint64_t version, bool live);
/* Reports row @row of @s, a segment of the running epoch, as damaged, and unseals the segment. The
 * epoch must end: its next version may be made of the damage. Always returns HSP_EDIGEST, with @err
 * naming the row. */
enum hsp_status hsp_epoch_disown(struct hsp_ex_epoch *e, struct hsp_state_segment *s, uint32_t row,
                                 struct hsp_err *err);
/* Does the same for a row that differs from its seal in device memory, where the update reads the
 * row. The segment stays sealed if its own row fits the seal. */
enum hsp_status hsp_epoch_disown_read(struct hsp_ex_epoch *e, struct hsp_state_segment *s,
                                      uint32_t row, struct hsp_err *err);
/* Does the same for a version that need not be sealed, with row @row laid out as in @s. The row was
 * damaged in device memory (@in_use), or on its way to the segment. */
enum hsp_status hsp_epoch_disown_unsealed(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                          uint32_t row, uint64_t version, bool in_use,
                                          struct hsp_err *err);
/* Reports that the ranks of this epoch give up @version, for the reason @why. */
void hsp_epoch_tell_given_up(struct hsp_ex_epoch *e, uint64_t version, const char *why);

#endif
