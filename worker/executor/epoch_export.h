/* Gathers state at one rank in slabs, and writes the final model with it.
 *
 * Purity:  shell (files, and messages of a mesh).
 */
#ifndef HSP_EPOCH_EXPORT_H
#define HSP_EPOCH_EXPORT_H
#include "worker/executor/step_gather.h"

/* The row of my home that has all of @box, and where its data are. HSP_EPROTO. */
enum hsp_status hsp_epoch_home_row(const struct hsp_ex_epoch *e, uint64_t version, uint32_t param,
                                   uint8_t kind, const struct hsp_box *box,
                                   const struct hsp_segment_row **ret, const void **ret_data,
                                   struct hsp_err *err);
/* @metrics, @faults: see hsp_metrics_merge. A disk that does not take them is told and
 * waited for: HSP_ECANCELED when the epoch ends meanwhile. *ret_epoch: 0, or the one that is to
 * write them instead: all members are armed for it. */
enum hsp_status hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                      struct hsp_notes_faults *faults, uint64_t *ret_epoch,
                                      struct hsp_err *err);

enum hsp_status hsp_epoch_gather(struct hsp_ex_epoch *e, const struct hsp_gather *g,
                                 struct hsp_err *err);
size_t hsp_epoch_box_bytes(const struct hsp_ex_epoch *e, const struct hsp_box *b);

#endif
