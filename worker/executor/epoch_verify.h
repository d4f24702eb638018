/* Verifies sealed state of this device before a training step or another rank uses it.
 *
 * While a recovery is prepared, idle processors hash all pieces of its version that this device
 * holds, beside the connecting of meshes. A damaged piece is reported (STATE_DAMAGED), deleted with
 * its memory, and counts as missing. When another rank was to get it from here, PREPARE fails with
 * NO_STATE, and hspmdd takes another owner. In a switch a row that travels whole carries the hash
 * of its seal, which the receiver compares; a row that travels in parts is verified first.
 *
 * Purity:  shell.
 */
#ifndef HSP_EPOCH_VERIFY_H
#define HSP_EPOCH_VERIFY_H
#include "worker/executor/epoch.h"

/* In mode recover, begins to verify the pieces of the version that the epoch begins with, in the
 * old layout and in its own; nothing in other modes. The segments of the epoch are open. Errors of
 * segments. */
enum hsp_status hsp_epoch_verify_begin(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Waits for the verification; @want false: stops it. HSP_ENOENT: a piece that PREPARE takes from
 * here is missing; HSP_ECANCELED; errors of segments. */
enum hsp_status hsp_epoch_verify_end(struct hsp_ex_epoch *e, bool want, struct hsp_err *err);
/* Makes the verification stop soon. Any thread. */
void hsp_epoch_verify_stop(struct hsp_ex_epoch *e);

/* Before a switch sends kind @kind: compares with their seals the rows of @src of which only a part
 * is sent or taken. HSP_EDIGEST: reported, and deleted. */
struct hsp_epoch_sources;
enum hsp_status hsp_epoch_verify_cuts(struct hsp_ex_epoch *e, struct hsp_epoch_sources *src,
                                      uint8_t kind, struct hsp_err *err);
/* Compares the parts that this rank owns, of the first @n_kinds kinds of @version, with their
 * seals, before they go into a file. HSP_EDIGEST: reported and unsealed, and the epoch must end
 * (hsp_epoch_disown). HSP_ENOENT: the version is not sealed here. */
enum hsp_status hsp_epoch_verify_home(struct hsp_ex_epoch *e, uint64_t version, uint8_t n_kinds,
                                      struct hsp_err *err);

#endif
