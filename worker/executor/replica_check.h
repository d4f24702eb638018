/* Compares the parts of the state that several ranks have, called *replicas*, at each vote, by the
 * hashes that are made at each seal. Terms: epoch.h.
 *
 * A vote record has 8 bytes for this comparison: the weighted sum of the rank's hashes. The weights
 * are such that equal replicas cancel out, so the sums of all ranks add up to 0. Example: ranks 0,
 * 1 and 2 have a part with hash h, and form a ring for this part. Link 0-1 has weight a, link 1-2
 * weight b, link 2-0 weight c. The records of ranks 0, 1 and 2 contain (a - c) h, (b - a) h and (c
 * - b) h. If rank 1 has hash h' instead, the sum is (b - a)(h' - h).
 *
 * Role:      opened at PREPARE on each member; each version is sealed by hsp_replica_check_seal.
 * Purity: shell (messages of the data mesh, if the sums do not add up to 0).
 * Threads:   the replication thread or the run thread seals a version, one at a time. Then the
 *            replication thread sends the sum of the version to replica holders, and then the run
 *            thread votes on the version.
 * Bounds:    HSP_PKG_ROWS links.
 */
#ifndef HSP_REPLICA_CHECK_H
#define HSP_REPLICA_CHECK_H
#include "worker/executor/epoch.h"

/* Opens the comparison; called when the segments of the epoch are open. Returns HSP_EPROTO if the
 * table of replicas in PREPARE names a part that is not in this rank's home, and HSP_ENOMEM. */
enum hsp_status hsp_replica_check_open(struct hsp_ex_epoch *e, struct hsp_err *err);
void hsp_replica_check_close(struct hsp_ex_epoch *e);

/* Hashes every row of this rank's home and seals the home as @version; called when all writes of
 * @version are done. @wrote: the hashes of the rows as the update wrote them; NULL: not known.
 * Returns HSP_EDIGEST if the hash of a row differs from @wrote; then the damage is reported, and
 * nothing is sealed. */
enum hsp_status hsp_replica_check_seal(struct hsp_ex_epoch *e, uint64_t version,
                                       const uint64_t *wrote, struct hsp_err *err);
/* Returns the weighted sum of the sealed @version, for its vote record and for replica holders
 * (epoch_copies.h). */
uint64_t hsp_replica_check_sum(struct hsp_ex_epoch *e, uint64_t version);

/* Finds the wrong ranks if the sums of @version do not add up to 0; called on all ranks. Each rank
 * first reports that the epoch gives up @version, because the rank may die before its next action.
 * Then each rank unseals @version; the job goes on from the version before. Then the ranks exchange
 * hashes, and a wrong rank reports its damage. If @version is the first version of the epoch, there
 * is no version before: only the wrong ranks give up @version, or all ranks if no rank can be found
 * wrong. Returns HSP_EDIGEST, with the wrong ranks in @err, or errors of the mesh. */
enum hsp_status hsp_replica_check_settle(struct hsp_ex_epoch *e, uint64_t version,
                                         struct hsp_err *err);

#endif
