/* Runs the two queues of a schedule, on the host and on the device.
 *
 * On the host a thread for each queue gives the entries of its queue in order, each entry after the
 * other thread has given all entries for which it waits. On the device the queue of such an entry
 * awaits the ticket of the last of those entries. So awaited work was always given to the device
 * before, and the two queues cannot block each other there. Between two schedules each queue awaits
 * all work that the other queue was given before. On a CPU work is done when it is given, and
 * tickets mean nothing. */
#include "worker/exec/queues.h"

#include <string.h>

#include "worker/exec/device_queue.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/entry.h"
#include "worker/exec/interp.h"

void hsp_engine_fail(struct hsp_engine *e, const struct hsp_err *why)
{
    (void)pthread_mutex_lock(&e->lock);
    if (e->failure.code == HSP_OK) {
        e->failure = *why;
    }
    atomic_store(&e->stop, 1);
    atomic_store(&e->finishes, 0);
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    e->o.comm->ops->abort(e->o.comm);
    if (e->o.direct != NULL) {
        e->o.direct->ops->abort(e->o.direct);
    }
}

/* Waits until queue @other was given @count entries, and marks the next entry of this queue as
 * under way. Adds the duration of the wait to *waited. Returns false if the engine was stopped. */
static bool wait_for(struct hsp_engine *e, enum hsp_queue other, uint32_t count,
                     _Atomic int64_t *waited)
{
    enum hsp_queue q = other == HSP_QUEUE_COMM ? HSP_QUEUE_COMPUTE : HSP_QUEUE_COMM;
    (void)pthread_mutex_lock(&e->lock);
    if (e->done[other] < count && !hsp_engine_stops(e)) {
        int64_t from = hsp_clock_ns();
        while (e->done[other] < count && !hsp_engine_stops(e)) {
            (void)pthread_cond_wait(&e->cond, &e->lock);
        }
        *waited += hsp_clock_ns() - from;
    }
    bool go = !hsp_engine_stops(e);
    e->at.runs[q] = go;
    e->at.since_ns[q] = hsp_clock_ns();
    (void)pthread_mutex_unlock(&e->lock);
    return go;
}

/* Makes the device begin the next work of queue @q only when the other queue has done @count
 * entries. */
static enum hsp_status await_entries(struct hsp_engine *e, enum hsp_queue q, uint32_t count,
                                     struct hsp_err *err)
{
    enum hsp_queue other = q == HSP_QUEUE_COMPUTE ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE;
    struct hsp_backend *b = e->o.backend;
    if (count == 0 || e->ticket[other][count - 1] <= e->awaited[q]) {
        return HSP_OK; /* queue @q awaits this ticket, or a later one, already */
    }
    uint64_t ticket = e->ticket[other][count - 1];
    enum hsp_status st = b->await(b, hsp_devq_of(q), hsp_devq_of(other), ticket, err);
    if (st == HSP_OK) {
        (void)pthread_mutex_lock(&e->lock); /* hsp_spans_take reads it under the lock */
        e->awaited[q] = ticket;
        (void)pthread_mutex_unlock(&e->lock);
    }
    return st;
}

/* ---- entries ---- */

/* Gives entry @k to the device, and takes a ticket after it (and before it, if the device measures
 * its seconds). */
static enum hsp_status run_entry(struct hsp_engine *e, enum hsp_queue q, uint32_t k,
                                 struct hsp_err *err)
{
    const struct hsp_sched_entry *entry = &e->sched->e[q][k];
    struct hsp_backend *b = e->o.backend;
    bool timed = q == HSP_QUEUE_COMPUTE && hsp_measures(e);
    uint64_t from = 0;
    enum hsp_status st = await_entries(e, q, entry->wait, err);
    if (st == HSP_OK && timed) {
        st = b->mark(b, hsp_devq_of(q), &from, err);
    }
    if (st == HSP_OK) {
        st = hsp_run_piece(e, entry, q, err);
    }
    if (st == HSP_OK) {
        st = b->mark(b, hsp_devq_of(q), &e->ticket[q][k], err);
    }
    return st == HSP_OK && timed ? hsp_span_add(e, from, e->ticket[q][k], err) : st;
}

/* Gives all entries of queue @q in order, until the engine is stopped or an entry fails. */
static void run_queue(struct hsp_engine *e, enum hsp_queue q)
{
    enum hsp_queue other = q == HSP_QUEUE_COMPUTE ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE;
    const struct hsp_sched *s = e->sched;
    struct hsp_err err = {0};
    _Atomic int64_t idle = 0, *busy = q == HSP_QUEUE_COMPUTE ? &e->compute_ns : &e->comm_ns;
    for (uint32_t k = 0; k < s->n[q]; k++) {
        if (!wait_for(e, other, s->e[q][k].wait, q == HSP_QUEUE_COMPUTE ? &e->wait_ns : &idle)) {
            return;
        }
        int64_t from = hsp_clock_ns();
        enum hsp_status st = run_entry(e, q, k, &err);
        *busy += hsp_clock_ns() - from;
        if (st != HSP_OK) {
            err.code = st; /* a hook may leave the error record empty */
            hsp_engine_fail(e, &err);
            return;
        }
        (void)pthread_mutex_lock(&e->lock);
        e->done[q]++;
        e->at.runs[q] = false;
        e->at.given++;
        (void)pthread_cond_broadcast(&e->cond);
        (void)pthread_mutex_unlock(&e->lock);
    }
}

void *hsp_comm_main(void *arg)
{
    struct hsp_engine *e = arg;
    (void)pthread_mutex_lock(&e->lock);
    while (e->state != HSP_RUN_QUIT) {
        if (e->state == HSP_RUN_IDLE) {
            (void)pthread_cond_wait(&e->cond, &e->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&e->lock);
        run_queue(e, HSP_QUEUE_COMM);
        (void)pthread_mutex_lock(&e->lock);
        e->state = HSP_RUN_IDLE;
        (void)pthread_cond_broadcast(&e->cond);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- schedules ---- */

/* Makes each queue of the device await all work that the other queue was given so far. */
static enum hsp_status meet(struct hsp_engine *e, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    uint64_t t[HSP_N_QUEUES] = {0};
    enum hsp_status st = HSP_OK;
    for (int q = 0; q < HSP_N_QUEUES && st == HSP_OK; q++) {
        st = b->mark(b, hsp_devq_of((enum hsp_queue)q), &t[q], err);
    }
    for (int q = 0; q < HSP_N_QUEUES && st == HSP_OK; q++) {
        int other = HSP_N_QUEUES - 1 - q;
        st = b->await(b, hsp_devq_of((enum hsp_queue)q), hsp_devq_of((enum hsp_queue)other),
                      t[other], err);
        e->awaited[q] = t[other];
    }
    return st;
}

/* Marks the pieces that the compute queue will run. */
static void note_pieces(struct hsp_engine *e, const struct hsp_sched *s)
{
    memset(e->piece, 0, e->t->n_pieces);
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMPUTE]; k++) {
        const struct hsp_sched_entry *entry = &s->e[HSP_QUEUE_COMPUTE][k];
        if (!hsp_entry_is_empty(e, entry)) {
            e->piece[entry->piece] = HSP_PIECE_RUNS;
        }
    }
}

void hsp_run_schedule(struct hsp_engine *e, const struct hsp_sched *s, bool eval)
{
    struct hsp_err err = {0};
    enum hsp_status st = meet(e, &err);
    if (st != HSP_OK) {
        err.code = st;
        hsp_engine_fail(e, &err);
        return;
    }
    note_pieces(e, s);
    (void)pthread_mutex_lock(&e->lock);
    e->sched = s;
    e->eval = eval;
    e->at.step = e->step;
    e->at.runs[0] = e->at.runs[1] = false;
    e->done[0] = e->done[1] = 0;
    e->state = HSP_RUN_GO;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    run_queue(e, HSP_QUEUE_COMPUTE);
    (void)pthread_mutex_lock(&e->lock);
    int64_t from = hsp_clock_ns();
    while (e->state == HSP_RUN_GO) {
        (void)pthread_cond_wait(&e->cond, &e->lock);
    }
    e->wait_ns += hsp_clock_ns() - from;
    e->sched = NULL;
    (void)pthread_mutex_unlock(&e->lock);
}

enum hsp_status hsp_rehearse_schedule(struct hsp_engine *e, const struct hsp_sched *s,
                                      struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    note_pieces(e, s);
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        for (uint32_t k = 0; st == HSP_OK && k < s->n[q]; k++) {
            if (e->o.hooks.ended != NULL && e->o.hooks.ended(e->o.hooks.ctx)) {
                return hsp_err_set(err, HSP_ECANCELED, 0, "ended before the first step");
            }
            st = hsp_rehearse_piece(e, &s->e[q][k], (enum hsp_queue)q, err);
        }
    }
    return st;
}
