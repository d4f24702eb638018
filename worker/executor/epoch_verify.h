/* Verifies sealed state of this device before a training step or another rank uses that state.
 * Terms: epoch.h.
 *
 * While a recovery is prepared and its meshes connect, idle processors hash all segments of its
 * version on this device. A segment with damage is reported (STATE_DAMAGED), deleted with its
 * memory, and counts as missing. If another rank was to get the damaged part from this device,
 * PREPARE fails with NO_STATE, and hspmdd chooses another owner. In a switch a row that is sent
 * complete carries the hash of its seal, and the receiver compares the data with it. A row of which
 * only parts are sent is verified before.
 *
 * Purity:  shell.
 */
#ifndef HSP_EPOCH_VERIFY_H
#define HSP_EPOCH_VERIFY_H
#include "worker/executor/epoch.h"

/* In mode recover: begins to verify the segments of the version with which the epoch begins, in the
 * old layout and in the layout of the epoch. Does nothing in other modes. The segments of the epoch
 * are open. Returns errors of segments. */
enum hsp_status hsp_epoch_verify_begin(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Waits for the verification, or stops it if @want is false. Returns HSP_ENOENT if a part that this
 * device has to send is missing, HSP_ECANCELED if the verification was stopped, and errors of
 * segments. */
enum hsp_status hsp_epoch_verify_end(struct hsp_ex_epoch *e, bool want, struct hsp_err *err);
/* Makes the verification stop soon. Any thread may call it. */
void hsp_epoch_verify_stop(struct hsp_ex_epoch *e);

/* Compares rows of @src with their seals before kind @kind is sent: only the rows of which a switch
 * sends or takes a part. Returns HSP_EDIGEST if a row is damaged; then the damage is reported, and
 * the segment is deleted. */
struct hsp_epoch_sources;
enum hsp_status hsp_epoch_verify_cuts(struct hsp_ex_epoch *e, struct hsp_epoch_sources *src,
                                      uint8_t kind, struct hsp_err *err);
/* Compares the parts that this rank writes to a checkpoint or model, of the first @n_kinds kinds of
 * @version, with their seals, before they are written. Returns HSP_EDIGEST if a part is damaged;
 * then the damage is reported, the segment is unsealed, and the epoch must end (hsp_epoch_disown).
 * Returns HSP_ENOENT if @version is not sealed on this rank. */
enum hsp_status hsp_epoch_verify_home(struct hsp_ex_epoch *e, uint64_t version, uint8_t n_kinds,
                                      struct hsp_err *err);

#endif
