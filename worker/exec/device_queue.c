#include "worker/exec/device_queue.h"

#include "worker/exec/engine_impl.h"

bool hsp_measures(const struct hsp_engine *e)
{
    return e->o.backend->device && e->o.backend->seconds != NULL;
}

/* Adds the seconds of the oldest span, whose tickets are reached, and drops the span. The device
 * may have forgotten its marks, since hooks that fetch tensors make many marks of their own; then
 * its seconds are not counted. The caller holds the lock. */
static enum hsp_status take_first(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_spans *s = &e->spans;
    struct hsp_backend *b = e->o.backend;
    double seconds = 0.0;
    enum hsp_status st = b->seconds(b, HSP_DEVQ_COMPUTE, s->ring[s->first].from,
                                    s->ring[s->first].to, &seconds, err);
    s->seconds += seconds;
    s->first = (s->first + 1) % HSP_MAX_SPANS;
    s->n--;
    return st == HSP_ENOENT ? HSP_OK : st;
}

enum hsp_status hsp_spans_take(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_spans *s = &e->spans;
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&e->lock);
    while (st == HSP_OK && s->n > 0 && s->ring[s->first].to <= e->awaited[HSP_QUEUE_COMM]) {
        st = take_first(e, err);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return st;
}

enum hsp_status hsp_span_add(struct hsp_engine *e, uint64_t from, uint64_t to, struct hsp_err *err)
{
    struct hsp_spans *s = &e->spans;
    struct hsp_backend *b = e->o.backend;
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&e->lock);
    uint64_t oldest = s->n == HSP_MAX_SPANS ? s->ring[s->first].to : 0;
    (void)pthread_mutex_unlock(&e->lock);
    if (oldest > 0) {
        st = b->finish(b, HSP_DEVQ_COMPUTE, oldest, err);
    }
    (void)pthread_mutex_lock(&e->lock);
    if (st == HSP_OK && s->n == HSP_MAX_SPANS) { /* a vote may have taken spans meanwhile */
        st = take_first(e, err);
    }
    if (st == HSP_OK) {
        uint32_t k = (s->first + s->n++) % HSP_MAX_SPANS;
        s->ring[k].from = from;
        s->ring[k].to = to;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return st;
}

enum hsp_status hsp_queue_finish(struct hsp_engine *e, enum hsp_devq q, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    uint64_t ticket = 0;
    enum hsp_status st = b->mark(b, q, &ticket, err);
    return st == HSP_OK ? b->finish(b, q, ticket, err) : st;
}
