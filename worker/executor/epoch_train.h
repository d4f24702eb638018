/* @@SENTENCE@@ epoch_train: purpose to be written. */
#ifndef HSP_EPOCH_TRAIN_H
#define HSP_EPOCH_TRAIN_H
#include "worker/executor/epoch.h"

/* Steps and their hooks, on the run thread. */
enum hsp_status hsp_epoch_train(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err);

#endif
