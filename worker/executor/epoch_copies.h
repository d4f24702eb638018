/* Sends each sealed version to the devices that keep its copies, and tells a joiner the version
 * with which an epoch begins.
 *
 * A replica holder has no vote. So each rank also sends the holder the word of its vote record
 * (replica_check.h), and a holder seals no version whose words do not add up to 0. Example: ranks 0
 * and 1 on one node are replicas, rank 1 writes a wrong version 13, and the node is lost before the
 * vote. The holder has version 12, from which the job goes on.
 */
#ifndef HSP_EPOCH_COPIES_H
#define HSP_EPOCH_COPIES_H
#include "worker/executor/epoch.h"

/* Exchanges the version with which a switch begins, over the move mesh: the lowest peer of the
 * running epoch sends *version to every new peer. Errors of the mesh. */
enum hsp_status hsp_epoch_learn_version(struct hsp_ex_epoch *e, uint64_t *version,
                                        struct hsp_err *err);
/* At a replica holder: sets *version to the next version to take. *version is the version after the
 * last one taken; where not every version is due, rank 0 sends another. Errors of the mesh. */
enum hsp_status hsp_epoch_next_copy(struct hsp_ex_epoch *e, uint64_t *version, struct hsp_err *err);
/* At rank 0, where not every version is due: tells the replica holders the steps that they have not
 * been told. Errors of the mesh. */
enum hsp_status hsp_epoch_tell_replica_holders(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Sends the copies of the sealed @version over the state mesh, and receives the copies that this
 * device keeps. Returns when all are confirmed. Errors of the mesh. */
enum hsp_status hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);

/* Ends the yielding of copies to steps, since a vote or a switch waits for the copies. The caller
 * holds the lock of the epoch. */
void hsp_epoch_hurry_copies(struct hsp_ex_epoch *e);

#endif
