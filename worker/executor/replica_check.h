/* Compares the parts of the state that have replicas on other ranks, this rank's replicas, at each
 * vote, by the hashes that are made at each seal.
 *
 * A vote record has 8 bytes for this: each rank's hashes, weighted so that equal replicas cancel
 * out, add up to 0 over all ranks. Example: ranks 0, 1 and 2 have a part with hash h. They stand in
 * a ring; link 0-1 has weight a, 1-2 weight b, 2-0 weight c. The records have (a - c) h, (b - a) h,
 * (c - b) h. When rank 1 has h' instead, the sum is (b - a)(h' - h).
 *
 * Role:      made at PREPARE of a member; each version is sealed with it.
 * Purity:    shell (messages of the data mesh, when records do not add up).
 * Threads:   a version is sealed by the replication thread or the run thread, one at a time; behind
 *            that the replication thread tells replica holders its sum, and then the run thread
 *            votes on it.
 * Bounds:    HSP_PKG_ROWS links.
 */
#ifndef HSP_REPLICA_CHECK_H
#define HSP_REPLICA_CHECK_H
#include "worker/executor/epoch.h"

/* The segments of the epoch are open. HSP_EPROTO: the table names a part that is not at home here;
 * HSP_ENOMEM. */
enum hsp_status hsp_replica_check_open(struct hsp_ex_epoch *e, struct hsp_err *err);
void hsp_replica_check_close(struct hsp_ex_epoch *e);

/* All writes of @version are done: hashes every row of this rank's home, and seals it. @wrote: the
 * hashes of the rows as the update wrote them, NULL: not known. HSP_EDIGEST: a row is another; that
 * is reported, and nothing is sealed. */
enum hsp_status hsp_replica_check_seal(struct hsp_ex_epoch *e, uint64_t version,
                                       const uint64_t *wrote, struct hsp_err *err);
/* For the vote record of @version, which is sealed, and for replica holders (epoch_copies.h). */
uint64_t hsp_replica_check_sum(struct hsp_ex_epoch *e, uint64_t version);

/* Settles a vote on all ranks: the records of @version do not add up. Each rank first reports that
 * the epoch gives @version up (it may die before the next), then unseals it; the job goes on from
 * the version before. Then the ranks exchange hashes, and a wrong rank reports its damage. Of the
 * first version of an epoch there is none before: only the wrong ranks give it up, or all when
 * nobody can tell. HSP_EDIGEST, naming the wrong ranks; errors of the mesh. */
enum hsp_status hsp_replica_check_settle(struct hsp_ex_epoch *e, uint64_t version,
                                         struct hsp_err *err);

#endif
