/* Reports damaged state of this device to hspmdd, and takes it out of use.
 *
 * Purity:  shell (the log, messages to the agent).
 * Example: "wte.weight (m) [0:8, 4:8]" is damaged in version 120 of rank 2's part in layout 3. The
 *          agent gets STATE_DAMAGED, and the log a line.
 * Example: the same part is damaged in the memory that a device computes with. The segment, copied
 *          from there before, is intact, and the job goes on from it.
 * Example: the replicas of version 120 differ. Each rank sends STATE_DAMAGED with given_up_in:
 *          hspmdd then believes no piece of version 120, also none of a rank that was killed before
 *          it could unseal it.
 */
#ifndef HSP_EPOCH_DAMAGE_H
#define HSP_EPOCH_DAMAGE_H
#include "worker/executor/epoch.h"
#include "worker/state/segment_name.h"

/* Reports a piece, of which @part is damaged. @live: the damage happened while this epoch ran. */
void hsp_epoch_tell_damaged(struct hsp_ex_epoch *e, const struct hsp_segname *piece,
                            uint64_t version, bool live, const char *part);
/* Reports row @row of segment @s, which was sealed as @version. */
void hsp_epoch_tell_damaged_row(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                uint32_t row, uint64_t version, bool live);
/* Reports row @row of segment @s, a segment of the running epoch, and unseals the segment. The
 * epoch must end: its next version may be made of the damage. Always HSP_EDIGEST, with @err naming
 * the row. */
enum hsp_status hsp_epoch_disown(struct hsp_ex_epoch *e, struct hsp_state_segment *s, uint32_t row,
                                 struct hsp_err *err);
/* The same of a row that differs from its seal where the update reads it, in memory of the device's
 * own: the segment, a copy, stays sealed if the row there fits the seal. */
enum hsp_status hsp_epoch_disown_read(struct hsp_ex_epoch *e, struct hsp_state_segment *s,
                                      uint32_t row, struct hsp_err *err);
/* The same of a version that need not be sealed, whose row @row is laid out as in @s: it was
 * damaged in memory of the device's own (@in_use), or on its way to the segment. */
enum hsp_status hsp_epoch_disown_unsealed(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                          uint32_t row, uint64_t version, bool in_use,
                                          struct hsp_err *err);
/* Reports that the ranks of this epoch give up @version, and why. */
void hsp_epoch_tell_given_up(struct hsp_ex_epoch *e, uint64_t version, const char *why);

#endif
