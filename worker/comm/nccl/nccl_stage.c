#include "worker/comm/nccl/nccl_stage.h"

#include <stdlib.h>
#include <time.h>

#include "worker/comm/nccl/nccl_abort.h"
#include "worker/comm/nccl/nccl_end.h" /* hsp_nccl_now_ms */

#define NAP_NS     20000 /* between two looks at the device */
#define HOLD_MS    1000
#define MOST_HOLDS 60u /* for a receiver that computes, where there is no more memory */
/* A stage without rehearsal is as large as the next multiple, and fits messages of about that
 * size. */
#define STAGE_ROUND ((size_t)64 << 10)

static void release(struct hsp_nccl_comm *c, struct hsp_nccl_stage **at)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    struct hsp_nccl_stage *s = *at;
    *at = s->next;
    b->release(b, HSP_MEM_DEVICE, s->data);
    free(s);
}

void hsp_nccl_stages_free(struct hsp_nccl_comm *c)
{
    while (c->stages != NULL) {
        release(c, &c->stages);
    }
}

bool hsp_nccl_stages_rest(struct hsp_nccl_comm *c)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    bool all = true;
    for (struct hsp_nccl_stage **at = &c->stages; *at != NULL;) {
        if (!(*at)->taken && b->reached(b, (*at)->q, (*at)->ticket)) {
            release(c, at);
        } else {
            all = all && (*at)->taken;
            at = &(*at)->next;
        }
    }
    return all;
}

/* ---- taking ---- */

/* Returns the smallest stage that is free and large enough, NULL if there is none. */
static struct hsp_nccl_stage *find_free(struct hsp_nccl_comm *c, size_t bytes,
                                        enum hsp_nccl_stage_use use)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    struct hsp_nccl_stage *best = NULL;
    for (struct hsp_nccl_stage *s = c->stages; s != NULL; s = s->next) {
        if (!s->taken && s->of_queue == (use == HSP_NCCL_QUEUED) && s->bytes >= bytes &&
            (best == NULL || s->bytes < best->bytes) &&
            (s->of_queue || b->reached(b, s->q, s->ticket))) {
            best = s;
        }
    }
    return best;
}

/* Memory stays until the epoch is left: a release might wait for the device, and the device for a
 * peer. */
static enum hsp_status make(struct hsp_nccl_comm *c, size_t bytes, enum hsp_nccl_stage_use use,
                            struct hsp_nccl_stage **ret, struct hsp_err *err)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    struct hsp_nccl_stage *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return hsp_err_nomem(err, "a message");
    }
    s->bytes = bytes;
    s->of_queue = use == HSP_NCCL_QUEUED;
    s->q = HSP_DEVQ_COMM;
    enum hsp_status st = b->alloc(b, HSP_MEM_DEVICE, s->bytes, &s->data, err);
    if (st != HSP_OK) {
        free(s);
        return hsp_err_wrap(err, "%zu bytes for messages", bytes);
    }
    s->next = c->stages;
    c->stages = s;
    *ret = s;
    return HSP_OK;
}

/* Until a stage is free, or for too long; *ret NULL then. */
static enum hsp_status await_free(struct hsp_nccl_comm *c, size_t bytes,
                                  struct hsp_nccl_stage **ret, struct hsp_err *err)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    const uint64_t hold_ms = c->of->o.hold_ms > 0 ? c->of->o.hold_ms : HOLD_MS;
    uint64_t given = 0, until = 0;
    enum hsp_status st = b->mark(b, HSP_DEVQ_COMM, &given, err);
    while (st == HSP_OK && (until == 0 || hsp_nccl_now_ms() < until)) {
        if (until == 0 && b->reached(b, HSP_DEVQ_COMM, given)) {
            until = hsp_nccl_now_ms() + hold_ms;
        }
        *ret = find_free(c, bytes, HSP_NCCL_SENT);
        if (*ret != NULL) {
            break;
        }
        (void)nanosleep(&nap, NULL);
        st = hsp_nccl_alive(c, err);
    }
    return st;
}

/* Returns true if a message that has been given to its lane has a stage that is large enough. */
static bool comes_back(const struct hsp_nccl_comm *c, size_t bytes)
{
    const struct hsp_nccl_stage *s = c->stages;
    while (s != NULL && (s->of_queue || s->taken || s->bytes < bytes)) {
        s = s->next;
    }
    return s != NULL;
}

enum hsp_status hsp_nccl_stage_take(struct hsp_nccl_comm *c, size_t bytes,
                                    enum hsp_nccl_stage_use use, struct hsp_nccl_stage **ret,
                                    struct hsp_err *err)
{
    const size_t whole = (bytes + STAGE_ROUND - 1) / STAGE_ROUND * STAGE_ROUND;
    struct hsp_nccl_stage *s = find_free(c, bytes, use);
    enum hsp_status st = HSP_OK;
    bool waits = use == HSP_NCCL_SENT && c->rehearsed;
    unsigned holds = 0;
    while (st == HSP_OK && s == NULL) {
        st = waits ? await_free(c, bytes, &s, err) : HSP_OK;
        if (st == HSP_OK && s == NULL) {
            st = make(c, whole, use, &s, err);
            waits = st == HSP_ENOMEM && use == HSP_NCCL_SENT && comes_back(c, bytes) &&
                    holds++ < MOST_HOLDS;
            st = waits ? HSP_OK : st;
        }
    }
    if (st != HSP_OK) {
        return st;
    }
    s->taken = true;
    *ret = s;
    return HSP_OK;
}

/* ---- rehearsal ---- */

void hsp_nccl_stage_want(struct hsp_nccl_comm *c, size_t bytes, enum hsp_nccl_stage_use use)
{
    struct hsp_nccl_wants *w = &c->wants;
    if (use == HSP_NCCL_QUEUED) {
        w->queue = bytes > w->queue ? bytes : w->queue;
        return;
    }
    if (w->n == w->cap) {
        uint32_t cap = w->cap == 0 ? 64 : 2 * w->cap;
        size_t *more = realloc(w->sends, cap * sizeof *more);
        if (more == NULL) {
            w->failed = true;
            return;
        }
        w->sends = more;
        w->cap = cap;
    }
    w->sends[w->n++] = bytes;
}

static int larger_first(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x < y) - (x > y);
}

/* One that no other message of the rehearsal has, or a new one. */
static enum hsp_status count_one(struct hsp_nccl_comm *c, size_t bytes, struct hsp_err *err)
{
    struct hsp_nccl_stage *s = c->stages;
    while (s != NULL && (s->of_queue || s->counted || s->bytes < bytes)) {
        s = s->next;
    }
    enum hsp_status st = s == NULL ? make(c, bytes, HSP_NCCL_SENT, &s, err) : HSP_OK;
    if (st == HSP_OK) {
        s->counted = true;
    }
    return st;
}

/* The largest messages first, as many as there is room for. */
static enum hsp_status make_all(struct hsp_nccl_comm *c, size_t room, struct hsp_err *err)
{
    struct hsp_nccl_wants *w = &c->wants;
    struct hsp_nccl_stage *s = find_free(c, w->queue, HSP_NCCL_QUEUED);
    enum hsp_status st = HSP_OK;
    size_t all = 0;
    if (w->n > 0) {
        qsort(w->sends, w->n, sizeof *w->sends, larger_first);
    }
    for (uint32_t k = 0; k < w->n && st == HSP_OK; k++) {
        if (k == 0 || w->sends[k] <= room - all) {
            st = count_one(c, w->sends[k], err);
            all = w->sends[k] < room - all ? all + w->sends[k] : room;
        }
    }
    if (st == HSP_OK && w->queue > 0 && s == NULL) {
        st = make(c, w->queue, HSP_NCCL_QUEUED, &s, err);
    }
    return st;
}

enum hsp_status hsp_nccl_rehearse(struct hsp_comm *base, bool on, size_t room, struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    struct hsp_nccl_wants *w = &c->wants;
    enum hsp_status st = HSP_OK;
    if (!on) {
        st = w->failed ? hsp_err_nomem(err, "%u messages", w->n) : make_all(c, room, err);
        free(w->sends);
    }
    for (struct hsp_nccl_stage *s = c->stages; s != NULL; s = s->next) {
        s->counted = false;
    }
    *w = (struct hsp_nccl_wants){.on = on};
    c->rehearsed = !on && st == HSP_OK;
    return st;
}
