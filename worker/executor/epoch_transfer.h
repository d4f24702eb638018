/* Transfers the state of the old layout into the segments of the new layout at the start of an
 * epoch, weights first. Terms: epoch.h.
 *
 * Purity:  shell (messages of the move mesh).
 */
#ifndef HSP_EPOCH_TRANSFER_H
#define HSP_EPOCH_TRANSFER_H
#include "worker/executor/epoch.h"

/* Returns true if the first forward pass may run beside the rest of the transfer, because this host
 * has two processors for each rank. With fewer processors the transfer is completed first: until
 * the transfer is complete, a second loss can cost a version. */
bool hsp_epoch_fetch_beside(const struct hsp_ex_epoch *e);
/* Fetch the state of @version over the move mesh. The first function fetches the weights, with
 * which a forward pass can begin. The second function, which another thread may call, fetches the
 * rest and seals the state. After a failure the memory and the requests of the transfer stay in use
 * until the thread that failed has aborted the move mesh and called hsp_epoch_fetch_end. */
enum hsp_status hsp_epoch_fetch_weights(struct hsp_ex_epoch *e, uint64_t version,
                                        struct hsp_err *err);
enum hsp_status hsp_epoch_fetch_rest(struct hsp_ex_epoch *e, uint64_t version,
                                     struct hsp_fetched *ret, struct hsp_err *err);
void hsp_epoch_fetch_end(struct hsp_ex_epoch *e);

#endif
