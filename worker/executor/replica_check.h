/* Compares the parts of the state that have replicas on other ranks, called *replicas* here, at
 * each vote, by the hashes that are made at each seal.
 *
 * A vote record has 8 bytes for this comparison: the weighted sum of the rank's hashes. The weights
 * are such that equal replicas cancel out, so the records add up to 0 over all ranks. Example:
 * ranks 0, 1 and 2 have a part with hash h, and form a ring for this part. Link 0-1 has weight a,
 * link 1-2 weight b, link 2-0 weight c. The records have (a - c) h, (b - a) h, (c - b) h. If rank 1
 * has h' instead, the sum is (b - a)(h' - h).
 *
 * Role:      opened at PREPARE of a member; hsp_replica_check_seal seals each version.
 * Purity:    shell (messages of the data mesh, when records do not add up).
 * Threads:   the replication thread or the run thread seals a version, one at a time. Then the
 *            replication thread sends the sum of the version to replica holders, and then the run
 *            thread votes on the version.
 * Bounds:    HSP_PKG_ROWS links.
 */
#ifndef HSP_REPLICA_CHECK_H
#define HSP_REPLICA_CHECK_H
#include "worker/executor/epoch.h"

/* Opens the comparison when the segments of the epoch are open. HSP_EPROTO: the table names a part
 * that is not in this rank's home; HSP_ENOMEM. */
enum hsp_status hsp_replica_check_open(struct hsp_ex_epoch *e, struct hsp_err *err);
void hsp_replica_check_close(struct hsp_ex_epoch *e);

/* Hashes every row of this rank's home and seals the home as @version, when all writes of @version
 * are done. @wrote: the hashes of the rows as the update wrote them; NULL: not known. HSP_EDIGEST:
 * a row differs from @wrote; the damage is reported, and nothing is sealed. */
enum hsp_status hsp_replica_check_seal(struct hsp_ex_epoch *e, uint64_t version,
                                       const uint64_t *wrote, struct hsp_err *err);
/* Returns the weighted sum of the sealed @version, for its vote record and for replica holders
 * (epoch_copies.h). */
uint64_t hsp_replica_check_sum(struct hsp_ex_epoch *e, uint64_t version);

/* Finds the wrong ranks when the records of @version do not add up; called on all ranks. Each rank
 * first reports that the epoch gives @version up, since it may die before the next action, and then
 * unseals @version; the job goes on from the version before. Then the ranks exchange hashes, and a
 * wrong rank reports its damage. The first version of an epoch has no version before: only the
 * wrong ranks give it up, or all ranks if no rank can be found wrong. HSP_EDIGEST, naming the wrong
 * ranks; errors of the mesh. */
enum hsp_status hsp_replica_check_settle(struct hsp_ex_epoch *e, uint64_t version,
                                         struct hsp_err *err);

#endif
