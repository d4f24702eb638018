/* Gathers the state at one rank slab by slab, and writes the final model. Terms: epoch.h.
 *
 * Purity:  shell (files, and messages of a mesh).
 */
#ifndef HSP_EPOCH_EXPORT_H
#define HSP_EPOCH_EXPORT_H
#include "worker/executor/step_gather.h"

/* Finds the row of this rank's home that has all of @box, and the data of that row. Returns
 * HSP_EPROTO if there is no such row. */
enum hsp_status hsp_epoch_home_row(const struct hsp_ex_epoch *e, uint64_t version, uint32_t param,
                                   uint8_t kind, const struct hsp_box *box,
                                   const struct hsp_segment_row **ret, const void **ret_data,
                                   struct hsp_err *err);
/* Writes the final model and the metrics; @metrics and @faults are filled as by hsp_metrics_merge.
 * If a disk refuses the files, rank 0 reports that and tries again. Returns HSP_ECANCELED if the
 * epoch ends meanwhile. *ret_epoch: 0, or the number of the next epoch, for which all members are
 * armed and which has to write the files instead. */
enum hsp_status hsp_epoch_write_final(struct hsp_ex_epoch *e, struct hsp_buf *metrics,
                                      struct hsp_notes_faults *faults, uint64_t *ret_epoch,
                                      struct hsp_err *err);

enum hsp_status hsp_epoch_gather(struct hsp_ex_epoch *e, const struct hsp_gather *g,
                                 struct hsp_err *err);
size_t hsp_epoch_box_bytes(const struct hsp_ex_epoch *e, const struct hsp_box *b);

#endif
