/* @@SENTENCE@@ epoch_segments: purpose to be written. */
#ifndef HSP_EPOCH_SEGMENTS_H
#define HSP_EPOCH_SEGMENTS_H
#include "worker/executor/epoch.h"

/* Segments. */
enum hsp_status hsp_epoch_open_segments(struct hsp_ex_epoch *e, struct hsp_err *err);
void hsp_epoch_close_segments(struct hsp_ex_epoch *e);

#endif
