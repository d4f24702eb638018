/* @@SENTENCE@@ epoch_copies: purpose to be written. */
#ifndef HSP_EPOCH_COPIES_H
#define HSP_EPOCH_COPIES_H
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_transfer_impl.h"

/* The sealed segments of layout @plan at @version that this device holds. Errors of segments; nothing
 * is left open then. */
enum hsp_status hsp_epoch_sources_open(const struct hsp_ex_epoch *e, uint64_t plan,
                                       uint64_t version, struct hsp_epoch_sources *s,
                                       struct hsp_err *err);
void hsp_epoch_sources_close(struct hsp_epoch_sources *s);
/* Rows over the state mesh. */
enum hsp_status hsp_epoch_learn_version(struct hsp_ex_epoch *e, uint64_t *version,
                                        struct hsp_err *err);
enum hsp_status hsp_epoch_copy_version(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err);

#endif
