/* Gathers state at one rank in slabs, and writes the final model with it.
 *
 * Purity:  shell (files, and messages of a mesh).
 */
#ifndef HSP_EPOCH_EXPORT_H
#define HSP_EPOCH_EXPORT_H
#include "worker/executor/step_gather.h"

/* Finds the row of this rank's home that has all of @box, and the row's data. HSP_EPROTO: there is
 * no such row. */
enum hsp_status hsp_epoch_home_row(const struct hsp_ex_epoch *e, uint64_t version, uint32_t param,
                                   uint8_t kind, const struct hsp_box *box,
                                   const struct hsp_segment_row **ret, const void **ret_data,
                                   struct hsp_err *err);
/* Writes the final model and the metrics. @metrics, @faults: see hsp_metrics_merge. When a disk
 * does not take the files, rank 0 reports that and tries again; HSP_ECANCELED if the epoch ends
 * meanwhile. *ret_epoch: 0, or the epoch that is to write the files instead, for which all members
 * are armed. */
enum hsp_status hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                      struct hsp_notes_faults *faults, uint64_t *ret_epoch,
                                      struct hsp_err *err);

enum hsp_status hsp_epoch_gather(struct hsp_ex_epoch *e, const struct hsp_gather *g,
                                 struct hsp_err *err);
size_t hsp_epoch_box_bytes(const struct hsp_ex_epoch *e, const struct hsp_box *b);

#endif
