/* Waits for the queues of the device, and adds up the seconds that their entries took there.
 *
 * Threads: each queue is used by its own thread; the spans of entries are locked by e->lock.
 */
#ifndef HSP_DEVICE_QUEUE_H
#define HSP_DEVICE_QUEUE_H
#include "worker/exec/engine_impl.h"

/* Waits for everything that was given to a queue of the device. Errors of the device. */
enum hsp_status hsp_queue_finish(struct hsp_engine *e, enum hsp_devq q, struct hsp_err *err);

/* Whether the device tells the seconds between two tickets. */
bool hsp_measures(const struct hsp_engine *e);
/* Notes an entry of the compute queue by the tickets around it. Waits for the device when
 * HSP_MAX_SPANS entries are under way, so that the host never runs further ahead. */
enum hsp_status hsp_span_add(struct hsp_engine *e, uint64_t from, uint64_t to, struct hsp_err *err);
/* Adds up the seconds of the compute entries that the comm queue has awaited; call it when the comm
 * queue was finished. */
enum hsp_status hsp_spans_take(struct hsp_engine *e, struct hsp_err *err);

#endif
