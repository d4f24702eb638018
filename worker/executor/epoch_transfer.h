/* Transfers the state of the old layout into the segments of the new layout at the start of an
 * epoch, weights first.
 *
 * Purity:  shell (messages of the mesh of the move).
 */
#ifndef HSP_EPOCH_TRANSFER_H
#define HSP_EPOCH_TRANSFER_H
#include "worker/executor/epoch.h"

/* Whether the first forward and the rest of the transfer may share the processors: two for each
 * rank on this host. With fewer the transfer comes first: until it is done, a second loss can cost
 * a version. */
bool hsp_epoch_fetch_beside(const struct hsp_ex_epoch *e);
/* The state of @version over the mesh of the move: first the weights, with which a forward can
 * begin, then the rest, after which it is sealed; the second half may be another thread's. After a
 * failure its memory and requests are in use until that mesh is aborted and hsp_epoch_fetch_end
 * called, by the thread that failed. */
enum hsp_status hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                        struct hsp_err *err);
enum hsp_status hsp_epoch_fetch_rest(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_fetched *ret, struct hsp_err *err);
void hsp_epoch_fetch_end(struct hsp_ex_epoch *e);

#endif
