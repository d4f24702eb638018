/* Waits for the queues of the device, and adds up the seconds that the device spends in entries of
 * the compute queue.
 *
 * Threads: each queue's own thread uses it; e->lock guards the spans of entries.
 */
#ifndef HSP_DEVICE_QUEUE_H
#define HSP_DEVICE_QUEUE_H
#include "worker/exec/engine_impl.h"

/* Waits until the device has done all work given to queue @q. Returns errors of the device. */
enum hsp_status hsp_queue_finish(struct hsp_engine *e, enum hsp_devq q, struct hsp_err *err);

/* Returns true if the device measures the seconds between two tickets. */
bool hsp_measures(const struct hsp_engine *e);
/* Stores the tickets before and after an entry of the compute queue. If HSP_MAX_SPANS entries are
 * stored, first waits until the device has done the oldest, so that the host is never further
 * ahead. Returns errors of the device. */
enum hsp_status hsp_span_add(struct hsp_engine *e, uint64_t from, uint64_t to, struct hsp_err *err);
/* Adds up the seconds of the compute entries that the comm queue has awaited. Call it after the
 * host has waited for the comm queue. Returns errors of the device. */
enum hsp_status hsp_spans_take(struct hsp_engine *e, struct hsp_err *err);

#endif
