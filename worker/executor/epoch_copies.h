/* Sends each sealed version to the ranks that keep its second copies, and tells a joiner the
 * version with which an epoch begins.
 */
#ifndef HSP_EPOCH_COPIES_H
#define HSP_EPOCH_COPIES_H
#include "worker/executor/epoch.h"

/* The version with which a switch begins, over the mesh of the move: the lowest peer of the running
 * epoch tells every peer that is new. Errors of the mesh. */
enum hsp_status hsp_epoch_learn_version(struct hsp_ex_epoch *e, uint64_t *version,
                                        struct hsp_err *err);
/* Sends the copies of @version and takes those kept here, over the state mesh; returns when they
 * are confirmed. Errors of the mesh. */
enum hsp_status hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);

#endif
