/* Sends each sealed version to those that keep its second copies, and tells a joiner the version
 * with which an epoch begins.
 *
 * A keeper has no vote. So each rank also sends it the word that the vote record will carry
 * (epoch_twins.h), and a keeper seals no version of which the words do not add up to 0. Example:
 * ranks 0 and 1 on one node are replicas, rank 1 writes a wrong version 13, and the node burns
 * before the vote. The keeper has 12, from which the job goes on.
 */
#ifndef HSP_EPOCH_COPIES_H
#define HSP_EPOCH_COPIES_H
#include "worker/executor/epoch.h"

/* The version with which a switch begins, over the mesh of the move: the lowest peer of the running
 * epoch tells every peer that is new. Errors of the mesh. */
enum hsp_status hsp_epoch_learn_version(struct hsp_ex_epoch *e, uint64_t *version,
                                        struct hsp_err *err);
/* At a keeper: the next version that it is to take, which rank 0 tells where not every version is
 * due; @version is the one after the last. Errors of the mesh. */
enum hsp_status hsp_epoch_next_copy(struct hsp_ex_epoch *e, uint64_t *version, struct hsp_err *err);
/* At rank 0, where not every version is due: tells the keepers the steps that it has not told yet.
 * Errors of the mesh. */
enum hsp_status hsp_epoch_tell_keepers(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Sends the copies of @version, which is sealed, and takes those kept here, over the state mesh;
 * returns when they are confirmed. Errors of the mesh. */
enum hsp_status hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);

/* A vote waits for the copies, or a switch: they give way to nothing any more. Under the lock. */
void hsp_epoch_hurry_copies(struct hsp_ex_epoch *e);

#endif
