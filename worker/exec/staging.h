/* @@SENTENCE@@ staging: purpose to be written. */
#ifndef HSP_STAGING_H
#define HSP_STAGING_H
#include "worker/exec/runner.h"

/* At least @bytes; contents are lost on growth, for which the queue is waited for. HSP_ENOMEM. */
enum hsp_status hsp_pack_get(struct hsp_engine *e, struct hsp_staging_buffer *p, size_t bytes,
                             void **ret, struct hsp_err *err);
/* Host memory to load @bytes into, and then their way to @to. On a CPU it is @to. */
enum hsp_status hsp_load_begin(struct hsp_engine *e, enum hsp_queue q, void *to, void **ret,
                               struct hsp_err *err);
enum hsp_status hsp_load_end(struct hsp_engine *e, enum hsp_queue q, void *to, const void *from,
                             size_t bytes, struct hsp_err *err);
/* Notes a statistic: copied to the host when the queue comes to it; @data NULL: an op writes it there
 * itself. */
enum hsp_status hsp_stat_note(struct hsp_engine *e, enum hsp_queue q, uint8_t arg, enum hsp_dtype t,
                              const void *data, struct hsp_err *err);
/* The place of statistic @n of the step, an fp64; below those that schedules have. */
double *hsp_stat_place(const struct hsp_engine *e, enum hsp_queue q, uint32_t n);
/* Their sums so far, in the order noted; what was noted must have happened. */
void hsp_stat_sum(const struct hsp_engine *e, double ret[HSP_N_STATS]);
/* Buffers of the engine: HSP_ENOMEM. What there is on failure is given back by hsp_staging_fini. */
enum hsp_status hsp_staging_init(struct hsp_engine *e, struct hsp_err *err);
void hsp_staging_fini(struct hsp_engine *e);   /* nothing may be under way */
void hsp_staging_retire(struct hsp_engine *e); /* the same, of the device's memory only */

#endif
