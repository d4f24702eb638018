/* Transfers the state of the old layout into the segments of the new layout at the start of an
 * epoch, weights first.
 *
 * Purity:  shell (messages of the move mesh).
 */
#ifndef HSP_EPOCH_TRANSFER_H
#define HSP_EPOCH_TRANSFER_H
#include "worker/executor/epoch.h"

/* Returns true if the first forward and the rest of the transfer may share the processors: this
 * host has two for each rank. With fewer processors the transfer comes first, for until its end a
 * second loss can cost a version. */
bool hsp_epoch_fetch_beside(const struct hsp_ex_epoch *e);
/* Fetch the state of @version over the move mesh: first the weights, with which a forward can
 * begin, then the rest, after which the state is sealed. Another thread may call the second
 * function. After a failure memory and requests of the transfer are in use until the failing thread
 * has aborted the move mesh and called hsp_epoch_fetch_end. */
enum hsp_status hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                        struct hsp_err *err);
enum hsp_status hsp_epoch_fetch_rest(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_fetched *ret, struct hsp_err *err);
void hsp_epoch_fetch_end(struct hsp_ex_epoch *e);

#endif
