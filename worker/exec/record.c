/* Records spans of the two queues; on a device it reads their times later.
 *
 * The times of a device's spans are read in the order in which the spans were given. At most
 * PENDING spans of a queue wait for their times, so that the backend still remembers their
 * marks. */
#include "worker/exec/record.h"

#include <stdlib.h>

#include "worker/exec/device_queue.h"
#include "worker/exec/engine_impl.h"
#include "worker/exec/queues.h"

#define PENDING (HSP_MAX_MARKS / 8) /* a span makes two marks, its entry two or three */

/* The open spans of one queue of a device: the times of the last n_open spans are not read yet. */
struct open_spans {
    uint64_t from[PENDING], to[PENDING]; /* tickets */
    uint32_t n_open;
    uint64_t anchor; /* ticket that was reached at anchor_ns; 0: none yet */
    int64_t anchor_ns;
};

struct hsp_recorder {
    struct hsp_recording *rec; /* owned */
    struct {
        int64_t from_ns;         /* on a CPU: begin of the span that is open */
        uint64_t from_ticket;    /* on a device: ticket at the begin of this span */
        struct open_spans *open; /* owned; NULL on a CPU */
    } queue[HSP_N_QUEUES];
};

struct hsp_recording *hsp_recording_free(struct hsp_recording *r)
{
    for (int q = 0; r != NULL && q < HSP_N_QUEUES; q++) {
        free(r->queue[q].span);
    }
    free(r);
    return NULL;
}

struct hsp_recorder *hsp_recorder_free(struct hsp_recorder *r)
{
    for (int q = 0; r != NULL && q < HSP_N_QUEUES; q++) {
        free(r->queue[q].open);
    }
    if (r != NULL) {
        hsp_recording_free(r->rec);
    }
    free(r);
    return NULL;
}

/* Returns the number of instructions that queue @q runs in a step of @p. */
static uint64_t count(const struct hsp_program *p, enum hsp_queue q)
{
    const struct hsp_sched *s = hsp_binding_train(&p->bind);
    uint64_t n = 0;
    for (uint32_t k = 0; k < s->n[q]; k++) {
        uint32_t first, end = hsp_entry_end(&p->tpl, &s->e[q][k], &first);
        n += end - first;
    }
    return n;
}

static struct hsp_recorder *recorder_new(const struct hsp_engine *e, uint64_t first_step,
                                         uint32_t n_steps, uint32_t cap)
{
    struct hsp_recorder *r = calloc(1, sizeof(*r));
    bool ok = r != NULL && (r->rec = calloc(1, sizeof(*r->rec))) != NULL;
    for (int q = 0; ok && q < HSP_N_QUEUES; q++) {
        struct hsp_recorded_queue *to = &r->rec->queue[q];
        to->cap = cap;
        to->entries = count(e->o.program, (enum hsp_queue)q) * n_steps > cap;
        ok = (to->span = calloc(cap, sizeof(*to->span))) != NULL;
        if (ok && hsp_measures(e)) {
            ok = (r->queue[q].open = calloc(1, sizeof(*r->queue[q].open))) != NULL;
        }
    }
    if (!ok) {
        return hsp_recorder_free(r);
    }
    r->rec->first_step = first_step;
    r->rec->n_steps = n_steps;
    return r;
}

enum hsp_status hsp_engine_record(struct hsp_engine *e, uint64_t first_step, uint32_t n_steps,
                                  uint32_t cap, struct hsp_err *err)
{
    if (n_steps == 0 || n_steps > HSP_RECORD_STEPS || cap == 0 || cap > HSP_RECORD_SPANS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "a recording of %u steps and %u spans", n_steps,
                           cap);
    }
    struct hsp_recorder *r = recorder_new(e, first_step, n_steps, cap);
    if (r == NULL) {
        return hsp_err_nomem(err, "a record of %u spans", cap);
    }
    (void)pthread_mutex_lock(&e->lock);
    bool busy = e->next_rec != NULL || e->rec != NULL || e->last_rec != NULL;
    e->next_rec = busy ? e->next_rec : r;
    (void)pthread_mutex_unlock(&e->lock);
    if (busy) {
        (void)hsp_recorder_free(r);
        return hsp_err_set(err, HSP_ESTATE, 0, "another recording is under way");
    }
    return HSP_OK;
}

/* ---- times of a device ---- */

/* Ties the device's time to the host's clock: makes a mark, waits for it, and stores the time. */
static enum hsp_status tie(struct hsp_engine *e, enum hsp_queue q, struct hsp_err *err)
{
    struct hsp_backend *b = e->o.backend;
    struct open_spans *o = e->rec->queue[q].open;
    int64_t before = hsp_clock_ns();
    enum hsp_status st = b->mark(b, hsp_devq_of(q), &o->anchor, err);
    if (st == HSP_OK) {
        st = b->finish(b, hsp_devq_of(q), o->anchor, err);
    }
    o->anchor_ns = hsp_clock_ns();
    if (st == HSP_OK) {
        (void)pthread_mutex_lock(&e->lock); /* the other queue's thread may write error_ns, too */
        int64_t off = o->anchor_ns - before;
        e->rec->rec->error_ns = off > e->rec->rec->error_ns ? off : e->rec->rec->error_ns;
        (void)pthread_mutex_unlock(&e->lock);
    }
    return st;
}

/* Returns in *ret the time of @ticket on the host's clock. */
static enum hsp_status since(struct hsp_backend *b, enum hsp_queue q, const struct open_spans *o,
                             uint64_t ticket, int64_t *ret, struct hsp_err *err)
{
    double s = 0;
    enum hsp_status st = b->seconds(b, hsp_devq_of(q), o->anchor, ticket, &s, err);
    *ret = o->anchor_ns + (int64_t)(s * 1e9);
    return st;
}

/* Waits for the device to reach the first @n open spans, and sets their times. If the device has
 * forgotten a time, all open spans are lost. */
static enum hsp_status settle(struct hsp_engine *e, struct hsp_recorder *r, enum hsp_queue q,
                              uint32_t n, struct hsp_err *err)
{
    struct open_spans *o = r->queue[q].open;
    struct hsp_recorded_queue *to = &r->rec->queue[q];
    struct hsp_backend *b = e->o.backend;
    uint32_t at = to->n - o->n_open;
    if (n == 0) {
        return HSP_OK;
    }
    int64_t last = at > 0 ? to->span[at - 1].to_ns : INT64_MIN;
    enum hsp_status st = b->finish(b, hsp_devq_of(q), o->to[n - 1], err);
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        struct hsp_span *s = &to->span[at + k];
        st = since(b, q, o, o->from[k], &s->from_ns, err);
        if (st == HSP_OK) {
            st = since(b, q, o, o->to[k], &s->to_ns, err);
        }
        s->from_ns = s->from_ns > last ? s->from_ns : last; /* times are rounded */
        s->to_ns = s->to_ns > s->from_ns ? s->to_ns : s->from_ns;
        last = s->to_ns;
    }
    if (st != HSP_OK) {
        to->n = at;
        to->lost += o->n_open;
        o->n_open = 0;
        o->anchor = 0;
        return st == HSP_ENOENT ? HSP_OK : st;
    }
    o->anchor = o->to[n - 1];
    o->anchor_ns = last;
    o->n_open -= n;
    for (uint32_t k = 0; k < o->n_open; k++) {
        o->from[k] = o->from[k + n];
        o->to[k] = o->to[k + n];
    }
    return HSP_OK;
}

/* ---- spans ---- */

enum hsp_status hsp_record_from(struct hsp_engine *e, enum hsp_queue q, struct hsp_err *err)
{
    struct hsp_recorder *r = e->rec;
    struct open_spans *o = r->queue[q].open;
    enum hsp_status st = HSP_OK;
    if (o == NULL) {
        r->queue[q].from_ns = hsp_clock_ns();
        return HSP_OK;
    }
    if (o->n_open == PENDING) {
        st = settle(e, r, q, PENDING / 2, err);
    }
    if (st == HSP_OK && o->anchor == 0) {
        st = tie(e, q, err);
    }
    return st == HSP_OK
               ? e->o.backend->mark(e->o.backend, hsp_devq_of(q), &r->queue[q].from_ticket, err)
               : st;
}

enum hsp_status hsp_record_to(struct hsp_engine *e, enum hsp_queue q, uint32_t first, uint32_t n,
                              uint32_t micro, struct hsp_err *err)
{
    struct hsp_recorder *r = e->rec;
    struct hsp_recorded_queue *to = &r->rec->queue[q];
    struct open_spans *o = r->queue[q].open;
    struct hsp_span s = {.from_ns = r->queue[q].from_ns,
                         .first = first,
                         .n = n,
                         .micro = micro,
                         .step = (uint16_t)(e->step - r->rec->first_step),
                         .eval = e->eval};
    while (s.program < e->o.n_shorter &&
           e->program != (s.program == 0 ? e->o.program : e->o.shorter[s.program - 1])) {
        s.program++;
    }
    if (to->n == to->cap) {
        to->lost++;
        return HSP_OK;
    }
    if (o == NULL) {
        s.to_ns = hsp_clock_ns();
    } else {
        enum hsp_status st =
            e->o.backend->mark(e->o.backend, hsp_devq_of(q), &o->to[o->n_open], err);
        if (st != HSP_OK) {
            return st;
        }
        o->from[o->n_open++] = r->queue[q].from_ticket;
    }
    to->span[to->n++] = s;
    return HSP_OK;
}

bool hsp_record_entries(const struct hsp_engine *e, enum hsp_queue q)
{
    return e->rec->rec->queue[q].entries;
}

/* ---- steps ---- */

void hsp_record_step_begins(struct hsp_engine *e)
{
    (void)pthread_mutex_lock(&e->lock);
    if (e->next_rec != NULL && e->rec == NULL && e->step >= e->next_rec->rec->first_step) {
        e->rec = e->next_rec;
        e->next_rec = NULL;
        e->rec->rec->first_step = e->step;
    }
    (void)pthread_mutex_unlock(&e->lock);
}

void hsp_record_step_ends(struct hsp_engine *e)
{
    if (e->rec == NULL || ++e->rec->rec->done < e->rec->rec->n_steps) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    e->last_rec = e->rec;
    e->rec = NULL;
    (void)pthread_mutex_unlock(&e->lock);
}

struct hsp_recording *hsp_engine_recorded(struct hsp_engine *e, bool now)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_recorder *r = e->last_rec;
    e->last_rec = NULL;
    if (r == NULL && now) {
        r = e->rec != NULL ? e->rec : e->next_rec;
        e->rec = NULL;
        e->next_rec = NULL;
    }
    (void)pthread_mutex_unlock(&e->lock);
    if (r == NULL) {
        return NULL;
    }
    /* if the device has failed, the open spans are lost */
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        if (r->queue[q].open != NULL) {
            (void)settle(e, r, (enum hsp_queue)q, r->queue[q].open->n_open, NULL);
        }
    }
    struct hsp_recording *ret = r->rec;
    r->rec = NULL;
    (void)hsp_recorder_free(r);
    return ret;
}
