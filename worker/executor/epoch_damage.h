/* Reports damaged state of this device to hspmdd, and unseals the damaged segment so that no rank
 * uses it. Terms: epoch.h.
 *
 * Purity:  shell (the log, messages to the agent).
 * Example: "wte.weight (m) [0:8, 4:8]" is damaged in version 120 of rank 2's home in layout 3. The
 *          executor sends STATE_DAMAGED to the agent, which logs the damage.
 * Example: "wte.weight (m) [0:8, 4:8]" is damaged in device memory after version 120 was copied to
 *          its segment. The segment is undamaged, and the job goes on from version 120 in the
 *          segment.
 * Example: the replicas of version 120 differ. Each rank sends STATE_DAMAGED with given_up_in. Then
 *          hspmdd uses no piece of version 120, also no piece of a rank that was killed before it
 *          could unseal the version.
 */
#ifndef HSP_EPOCH_DAMAGE_H
#define HSP_EPOCH_DAMAGE_H
#include "worker/executor/epoch.h"
#include "worker/state/segment_name.h"

/* Reports that @part of segment @piece, which has @version, is damaged. @live: the damage happened
 * while this epoch ran. */
void hsp_epoch_tell_damaged(struct hsp_ex_epoch *e, const struct hsp_segname *piece,
                            uint64_t version, bool live, const char *part);
/* Reports that row @row of segment @s, which was sealed as @version, is damaged. */
void hsp_epoch_tell_damaged_row(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                uint32_t row, uint64_t version, bool live);
/* Reports row @row of @s, a segment of the running epoch, as damaged, and unseals the segment. The
 * epoch must end, because its next version may be computed from the damaged state. Always returns
 * HSP_EDIGEST; @err names the row. */
enum hsp_status hsp_epoch_disown(struct hsp_ex_epoch *e, struct hsp_state_segment *s, uint32_t row,
                                 struct hsp_err *err);
/* Reports row @row as damaged in device memory, from which the update reads it. Unseals the segment
 * only if the row in the segment is damaged, too. The epoch must end. Always returns
 * HSP_EDIGEST. */
enum hsp_status hsp_epoch_disown_read(struct hsp_ex_epoch *e, struct hsp_state_segment *s,
                                      uint32_t row, struct hsp_err *err);
/* Reports row @row of @version, which need not be sealed anywhere; the row is laid out as in @s.
 * The row was damaged in device memory (@in_use), or on its way to the segment. The epoch must end.
 * Always returns HSP_EDIGEST. */
enum hsp_status hsp_epoch_disown_unsealed(struct hsp_ex_epoch *e, const struct hsp_state_segment *s,
                                          uint32_t row, uint64_t version, bool in_use,
                                          struct hsp_err *err);
/* Reports that all ranks of this epoch give up @version, for the reason @why. */
void hsp_epoch_tell_given_up(struct hsp_ex_epoch *e, uint64_t version, const char *why);

#endif
