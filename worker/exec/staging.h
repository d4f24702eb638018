/* Keeps the memory between host and device: pack buffers, slots for loaded data, statistics. */
#ifndef HSP_STAGING_H
#define HSP_STAGING_H
#include "worker/exec/engine_impl.h"

/* Memory of at least @bytes. To grow it waits for the queue, and the contents are lost.
 * HSP_ENOMEM. */
enum hsp_status hsp_pack_get(struct hsp_engine *e, struct hsp_staging_buffer *p, size_t bytes,
                             void **ret, struct hsp_err *err);
/* begin: *ret is host memory to load into; on a CPU it is @to. end: copies @bytes from there to
 * @to. */
enum hsp_status hsp_load_begin(struct hsp_engine *e, enum hsp_queue q, void *to, void **ret,
                               struct hsp_err *err);
enum hsp_status hsp_load_end(struct hsp_engine *e, enum hsp_queue q, void *to, const void *from,
                             size_t bytes, struct hsp_err *err);
/* Notes a statistic: copied to the host when the queue comes to it; @data NULL: an op writes it
 * there itself. */
enum hsp_status hsp_stat_note(struct hsp_engine *e, enum hsp_queue q, uint8_t arg, enum hsp_dtype t,
                              const void *data, struct hsp_err *err);
/* The place of statistic @n of the step, an fp64. */
double *hsp_stat_place(const struct hsp_engine *e, enum hsp_queue q, uint32_t n);
/* The sums of the statistics so far, in the order noted; the device must have reached their
 * copies. */
void hsp_stat_sum(const struct hsp_engine *e, double ret[HSP_N_STATS]);
/* Allocates the buffers of an engine. HSP_ENOMEM; hsp_staging_fini then releases the rest. */
enum hsp_status hsp_staging_init(struct hsp_engine *e, struct hsp_err *err);
void hsp_staging_fini(struct hsp_engine *e);   /* nothing may be under way */
void hsp_staging_retire(struct hsp_engine *e); /* the same, of the backend's memory only */

#endif
