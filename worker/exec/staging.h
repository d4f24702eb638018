/* Allocates the memory for copies between host and device: pack buffers, slots for loaded data,
 * places of statistics. */
#ifndef HSP_STAGING_H
#define HSP_STAGING_H
#include "worker/exec/engine_impl.h"

/* Returns in *ret a buffer of at least @bytes. To grow the buffer it waits for the buffer's queue,
 * and the contents are lost. Returns HSP_ENOMEM, or errors of the device. */
enum hsp_status hsp_pack_get(struct hsp_engine *e, struct hsp_staging_buffer *p, size_t bytes,
                             void **ret, struct hsp_err *err);
/* A load writes data of the data set to the tensor at @to. hsp_load_begin gives in *ret the host
 * memory to load into: a slot, or on a CPU @to itself. hsp_load_end makes the device copy @bytes
 * from there (@from) to @to. */
enum hsp_status hsp_load_begin(struct hsp_engine *e, enum hsp_queue q, void *to, void **ret,
                               struct hsp_err *err);
enum hsp_status hsp_load_end(struct hsp_engine *e, enum hsp_queue q, void *to, const void *from,
                             size_t bytes, struct hsp_err *err);
/* Adds a statistic to the list of the step. The device copies the value at @data to the host when
 * the queue comes to this instruction. If @data is NULL, an op writes the value there itself.
 * Returns HSP_ELIMIT if there are more statistics than the schedules of a step have, or errors
 * of the device. */
enum hsp_status hsp_stat_note(struct hsp_engine *e, enum hsp_queue q, uint8_t arg, enum hsp_dtype t,
                              const void *data, struct hsp_err *err);
/* Returns the place of statistic @n of the step, an fp64. */
double *hsp_stat_place(const struct hsp_engine *e, enum hsp_queue q, uint32_t n);
/* Sums the statistics of the step so far, in the order of the list. The device must have reached
 * their copies. */
void hsp_stat_sum(const struct hsp_engine *e, double ret[HSP_N_STATS]);
/* Allocates the buffers of an engine. Returns HSP_ENOMEM; the caller then calls hsp_staging_fini,
 * which frees the buffers that were allocated. */
enum hsp_status hsp_staging_init(struct hsp_engine *e, struct hsp_err *err);
/* Frees the buffers. No work that uses them may be under way. */
void hsp_staging_fini(struct hsp_engine *e);
/* Frees only the buffers in memory of the backend. No work that uses them may be under way. */
void hsp_staging_retire(struct hsp_engine *e);

#endif
