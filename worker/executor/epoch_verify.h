/* Verifies sealed state of this device before it is trained on or given to anybody.
 *
 * While a recovery is prepared, all that this device holds of its version is hashed on idle
 * processors, beside the connecting of meshes. What is damaged is told (STATE_DAMAGED), deleted
 * with its memory, and counts as not held: where the device then lacks what others are to get from
 * it, PREPARE fails with NO_STATE, and hspmdd takes another owner. A switch reads what was sealed a
 * moment ago: rows that travel whole carry the hash of their seal, and the receiver compares it;
 * those that travel in parts are verified first.
 *
 * Purity:  shell.
 */
#ifndef HSP_EPOCH_VERIFY_H
#define HSP_EPOCH_VERIFY_H
#include "worker/executor/epoch.h"

/* Begins to verify what an epoch of mode recover goes on from, of its version in the old layout and
 * in its own; in other modes nothing. The segments of the epoch are open. Errors of segments. */
enum hsp_status hsp_epoch_verify_begin(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Waits for it. @want false: it gives up. HSP_ENOENT: something others, or this rank, are to have
 * from here is not here; HSP_ECANCELED; errors of segments. */
enum hsp_status hsp_epoch_verify_end(struct hsp_ex_epoch *e, bool want, struct hsp_err *err);
/* Makes it give up soon. Any thread. */
void hsp_epoch_verify_stop(struct hsp_ex_epoch *e);

/* Before a switch sends kind @kind: the rows of @src of which only a part is sent or taken are what
 * was sealed. HSP_EDIGEST: told, and deleted. */
struct hsp_epoch_sources;
enum hsp_status hsp_epoch_verify_cuts(struct hsp_ex_epoch *e, struct hsp_epoch_sources *src,
                                      uint8_t kind, struct hsp_err *err);
/* Before @version, which this rank has sealed at home, goes into a file: what it owns of the first
 * @n_kinds kinds is what was sealed. HSP_EDIGEST: told, and no source any more. HSP_ENOENT: it is
 * not sealed. */
enum hsp_status hsp_epoch_verify_home(struct hsp_ex_epoch *e, uint64_t version, uint8_t n_kinds,
                                      struct hsp_err *err);

#endif
