/* Sends each sealed version to the devices that keep its copies, and sends a joiner of a switch the
 * version with which the epoch begins. Terms: epoch.h.
 *
 * A replica holder has no vote. So each rank also sends the holder the sum of hashes that its vote
 * record contains (replica_check.h). If the sums of all ranks do not add up to 0, replicas differ,
 * and the holder does not seal the version. Example: ranks 0 and 1 on one node are replicas, rank 1
 * writes a wrong version 13, and the node is lost before the vote. The holder has version 12
 * sealed, from which the job goes on.
 */
#ifndef HSP_EPOCH_COPIES_H
#define HSP_EPOCH_COPIES_H
#include "worker/executor/epoch.h"

/* Exchanges the version with which a switch begins, over the move mesh: the lowest peer of the
 * running epoch sends *version to every new peer. Returns errors of the mesh. */
enum hsp_status hsp_epoch_learn_version(struct hsp_ex_epoch *e, uint64_t *version,
                                        struct hsp_err *err);
/* At a replica holder: sets *version to the next version whose copies it takes. The caller passes
 * the last version taken plus 1. Where every version is due, that number stays; else rank 0 sends
 * the number. Returns errors of the mesh. */
enum hsp_status hsp_epoch_next_copy(struct hsp_ex_epoch *e, uint64_t *version, struct hsp_err *err);
/* At rank 0, where not every version is due: sends the replica holders the metrics of the steps
 * that they have not got yet. Returns errors of the mesh. */
enum hsp_status hsp_epoch_tell_replica_holders(struct hsp_ex_epoch *e, struct hsp_err *err);
/* Sends the copies of the sealed @version over the state mesh, and receives the copies that this
 * device keeps. Returns when all of these copies are confirmed. Returns errors of the mesh. */
enum hsp_status hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);

/* Makes the state mesh stop yielding to the data mesh, because a vote or a switch waits for the
 * copies. The caller has locked the epoch. */
void hsp_epoch_hurry_copies(struct hsp_ex_epoch *e);

#endif
