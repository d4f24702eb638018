/* Verifies sealed state of this device before a training step or another rank uses that state.
 *
 * While a recovery is prepared, idle processors hash all pieces of its version that this device
 * holds, beside the connecting of meshes. A damaged piece is reported (STATE_DAMAGED), deleted with
 * its memory, and counts as missing. If another rank was to get the damaged piece from here,
 * PREPARE fails with NO_STATE, and hspmdd chooses another owner. In a switch a row that travels
 * whole carries the hash of its seal, which the receiver compares; a row that travels in parts is
 * verified first.
 *
 * Purity:  shell.
 */
#ifndef HSP_EPOCH_VERIFY_H
#define HSP_EPOCH_VERIFY_H
#include "worker/executor/epoch.h"

/* In mode recover begins to verify the pieces of the version with which the epoch begins, in the
 * old layout and in the layout of the epoch. Does nothing in other modes. The segments of the epoch
 * are open. Errors of segments. */
enum hsp_status hsp_epoch_verify_begin(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Waits for the verification, or stops it if @want is false. HSP_ENOENT: a piece that PREPARE takes
 * from here is missing; HSP_ECANCELED; errors of segments. */
enum hsp_status hsp_epoch_verify_end(struct hsp_ex_epoch *e, bool want, struct hsp_err *err);
/* Makes the verification stop soon. Any thread may call it. */
void hsp_epoch_verify_stop(struct hsp_ex_epoch *e);

/* Compares the rows of @src of which a switch sends or takes only a part with their seals, before
 * kind @kind is sent. HSP_EDIGEST: the damage is reported, and the segment is deleted. */
struct hsp_epoch_sources;
enum hsp_status hsp_epoch_verify_cuts(struct hsp_ex_epoch *e, struct hsp_epoch_sources *src,
                                      uint8_t kind, struct hsp_err *err);
/* Compares the parts that this rank owns, of the first @n_kinds kinds of @version, with their
 * seals, before they go into a file. HSP_EDIGEST: the damage is reported, the segment is unsealed,
 * and the epoch must end (hsp_epoch_disown). HSP_ENOENT: the version is not sealed here. */
enum hsp_status hsp_epoch_verify_home(struct hsp_ex_epoch *e, uint64_t version, uint8_t n_kinds,
                                      struct hsp_err *err);

#endif
