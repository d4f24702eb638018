#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/fakecuda/fakeint.h"

#define NAP_NS   20000   /* while work waits for something that is no event */
#define MAX_NAPS 1500000 /* half a minute of that: nobody will come */

/* ---- pieces ---- */

static void *own_args(const void *args, size_t bytes)
{
    void *p = malloc(bytes > 0 ? bytes : 1);
    if (p == NULL) {
        abort();
    }
    if (bytes > 0) {
        memcpy(p, args, bytes);
    }
    return p;
}

struct piece *fake_piece_clone(const struct piece *c)
{
    struct piece *n = own_args(c, sizeof(*c));
    n->next = NULL;
    if (c->kind == PIECE_WORK) {
        n->work.args = own_args(c->work.args, c->work.bytes);
    } else if (c->staged) {
        n->src = own_args(c->src, c->width * c->height);
    }
    if (n->event != NULL) {
        n->event->uses++;
    }
    return n;
}

struct piece *fake_piece_free(struct piece *c)
{
    if (c->kind == PIECE_WORK) {
        free((void *)(uintptr_t)c->work.args);
    } else if (c->staged) {
        free((void *)(uintptr_t)c->src);
    }
    if (c->event != NULL) {
        (void)fake_event_drop(c->event);
    }
    free(c);
    return NULL;
}

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool ordered_to_fail(const struct piece *c)
{
    bool real = c->kind != PIECE_RECORD && c->kind != PIECE_WAIT;
    if (!real || fake.fail_work.nth == 0 || strstr(c->name, fake.fail_work.name) == NULL ||
        --fake.fail_work.nth > 0) {
        return false;
    }
    hsp_fake_lose(fake.fail_work.e);
    return true;
}

static void run_piece(const struct piece *c)
{
    const struct piece *outer = fake.running;
    fake.running = c;
    fake.blamed = false;
    fake_open_memory();
    if (!ordered_to_fail(c)) {
        switch (c->kind) {
        case PIECE_COPY:
        case PIECE_SET: fake_run_copy(c); break;
        case PIECE_WORK: c->work.run((void *)(uintptr_t)c->work.args); break;
        case PIECE_RECORD:
            c->event->reached = c->number;
            c->event->ms = now_ms();
            break;
        case PIECE_WAIT: break;
        }
        if (c->kind != PIECE_RECORD && c->kind != PIECE_WAIT) {
            fake_count_done(c->name);
        }
    }
    fake_close_memory();
    fake.running = outer;
}

cudaError_t fake_run_now(struct piece *c)
{
    c->lane = 0;
    fake.host.at[0] = ++fake.ops[0];
    c->clock = fake.host;
    fake_race_names(c, fake.ops[0]);
    run_piece(c);
    return fake.sticky;
}

/* ---- order ---- */

static bool may_run(const struct piece *c)
{
    if (c->kind == PIECE_WAIT) {
        return c->event->reached >= c->number;
    }
    return c->kind != PIECE_WORK || c->work.ready == NULL ||
           c->work.ready((void *)(uintptr_t)c->work.args);
}

void fake_waits_for_all(void)
{
    for (const struct CUstream_st *s = fake.streams; s != NULL; s = s->next) {
        for (const struct piece *c = s->first; s->device == fake_device() && c != NULL;
             c = c->next) {
            if (c->kind == PIECE_WORK && !may_run(c)) {
                fake.use.blocked++;
                return;
            }
        }
    }
}

/* Runs the head of a random stream that can go on. */
static bool step_some(void)
{
    struct CUstream_st *able[FAKE_LANES];
    unsigned n = 0;
    for (struct CUstream_st *s = fake.streams; s != NULL; s = s->next) {
        if (s->first != NULL && may_run(s->first)) {
            able[n++] = s;
        }
    }
    if (n == 0) {
        return false;
    }
    struct CUstream_st *s = able[fake_draw(n)];
    struct piece *c = s->first;
    run_piece(c);
    s->first = c->next;
    s->last = s->first == NULL ? &s->first : s->last;
    s->n--;
    fake.use.pending--;
    (void)fake_piece_free(c);
    return true;
}

/* The awaited work needs the lock. */
static void nap(void)
{
    struct timespec t = {.tv_nsec = NAP_NS};
    (void)fake_leave(cudaSuccess);
    (void)nanosleep(&t, NULL);
    fake_relock();
}

/* Does work until @done says so. */
static cudaError_t work_until(bool (*done)(const void *), const void *ctx)
{
    unsigned naps = 0;
    while (fake.sticky == cudaSuccess && !done(ctx)) {
        if (step_some()) {
            naps = 0;
        } else if (++naps < MAX_NAPS) {
            nap();
        } else {
            fake_say("work waits for something that does not come");
            hsp_fake_lose(cudaErrorLaunchTimeout);
        }
    }
    return fake.sticky;
}

struct level {
    const struct CUstream_st *s;
    unsigned left;
};

static bool is_low(const void *ctx)
{
    const struct level *l = ctx;
    return (l->s != NULL ? l->s->n : fake.use.pending) <= l->left;
}

cudaError_t fake_drain(struct CUstream_st *s, unsigned left)
{
    struct level l = {s, left};
    return work_until(is_low, &l);
}

static void submit(cudaStream_t s, struct piece *c)
{
    uint32_t op = ++fake.ops[s->lane];
    fake_clock_join(&s->clock, &fake.host);
    s->clock.at[s->lane] = op;
    c->lane = s->lane;
    c->clock = s->clock;
    fake_race_names(c, op);
    if (c->kind == PIECE_RECORD) {
        c->event->clock = s->clock;
    }
    *s->last = c;
    s->last = &c->next;
    s->n++;
    fake.use.pending++;
}

cudaError_t fake_give(cudaStream_t s, const struct piece *c)
{
    struct piece *own = fake_piece_clone(c);
    if (s->capture != NULL) {
        return fake_capture(s, own);
    }
    submit(s, own);
    return fake_drain(s, fake.o.eager ? 0 : HSP_FAKE_PENDING);
}

bool fake_stream_ok(cudaStream_t s)
{
    for (const struct CUstream_st *i = fake.streams; i != NULL; i = i->next) {
        if (i == s) {
            return true;
        }
    }
    return false;
}

static cudaError_t needs_stream(cudaError_t e, cudaStream_t s, const char *name)
{
    if (e == cudaSuccess && !fake_stream_ok(s)) {
        fake_say("%s on %s", name, s == NULL ? "the default stream" : "a stream that is none");
        return cudaErrorInvalidResourceHandle;
    }
    return e;
}

cudaError_t fake_unsafe(void)
{
    cudaError_t e = cudaSuccess;
    for (struct CUstream_st *s = fake.streams; s != NULL; s = s->next) {
        bool mine = s->capture != NULL && pthread_equal(s->by, pthread_self());
        if (s->capture != NULL && (s->mode == cudaStreamCaptureModeGlobal ||
                                   (s->mode == cudaStreamCaptureModeThreadLocal && mine))) {
            s->invalid = true;
            e = cudaErrorStreamCaptureUnsupported;
        }
    }
    return e;
}

static cudaError_t not_capturing(cudaError_t e, cudaStream_t s)
{
    if (e == cudaSuccess && s->capture != NULL) {
        s->invalid = true;
        return cudaErrorStreamCaptureUnsupported;
    }
    return e;
}

/* ---- work of others ---- */

static cudaError_t judge_launch(const struct hsp_fake_work *w)
{
    const dim3 *b = &w->block, *g = &w->grid;
    uint64_t threads = (uint64_t)b->x * b->y * b->z, blocks = (uint64_t)g->x * g->y * g->z;
    if (threads == 0 && blocks == 0) {
        return cudaSuccess;
    }
    if (threads == 0 || blocks == 0 || threads > 1024 || b->z > 64 || g->x > 0x7fffffffU ||
        g->y > 65535 || g->z > 65535) {
        return cudaErrorInvalidConfiguration;
    }
    return fake_smem_allowed(w->func, w->smem) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t hsp_fake_submit(cudaStream_t s, const struct hsp_fake_work *w)
{
    cudaError_t e = needs_stream(fake_enter("cudaLaunchKernel"), s, w->name);
    e = e == cudaSuccess ? judge_launch(w) : e;
    if (e == cudaSuccess && s->device != fake_device()) {
        fake_say("%s on a stream of device %d by a thread that uses %d", w->name, s->device,
                 fake_device());
        e = cudaErrorInvalidResourceHandle;
    }
    struct piece c = {.kind = PIECE_WORK, .name = w->name, .func = w->func, .work = *w};
    return fake_leave(e == cudaSuccess ? fake_give(s, &c) : e);
}

struct host_call {
    cudaHostFn_t fn;
    void *data;
};

static void call_host(void *args)
{
    const struct host_call *h = args;
    h->fn(h->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *data)
{
    cudaError_t e = needs_stream(fake_enter("cudaLaunchHostFunc"), s, "cudaLaunchHostFunc");
    struct host_call h = {fn, data};
    struct piece c = {
        .kind = PIECE_WORK,
        .name = "host function",
        .work = {.name = "host function", .run = call_host, .args = &h, .bytes = sizeof(h)}};
    return fake_leave(e == cudaSuccess ? fake_give(s, &c) : e);
}

/* ---- streams ---- */

static cudaError_t create(cudaStream_t *ret, unsigned flags)
{
    int lane = 1;
    while (lane < FAKE_LANES && fake.lane_used[lane]) {
        lane++;
    }
    struct CUstream_st *s = lane < FAKE_LANES ? calloc(1, sizeof(*s)) : NULL;
    if (s == NULL) {
        return cudaErrorMemoryAllocation;
    }
    if (flags != cudaStreamNonBlocking) {
        fake_say("a stream that waits for the default stream");
    }
    *s = (struct CUstream_st){
        .next = fake.streams, .lane = lane, .device = fake_device(), .flags = flags};
    s->last = &s->first;
    s->clock.at[lane] = fake.ops[lane];
    fake.lane_used[lane] = true;
    fake.streams = s;
    fake.use.streams++;
    *ret = s;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    cudaError_t e = fake_enter("cudaStreamCreateWithFlags");
    return fake_leave(e == cudaSuccess ? create(s, flags) : e);
}

cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    cudaError_t e = fake_enter("cudaStreamCreate");
    return fake_leave(e == cudaSuccess ? create(s, cudaStreamDefault) : e);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    (void)priority;
    cudaError_t e = fake_enter("cudaStreamCreateWithPriority");
    return fake_leave(e == cudaSuccess ? create(s, flags) : e);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    cudaError_t e = fake_enter("cudaDeviceGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return fake_leave(e);
}

static void drop_stream(struct CUstream_st *s)
{
    struct CUstream_st **at = &fake.streams;
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    while (s->first != NULL) {
        struct piece *c = s->first;
        s->first = c->next;
        fake.use.pending--;
        (void)fake_piece_free(c);
    }
    if (s->capture != NULL) {
        (void)cudaGraphDestroy(s->capture);
    }
    fake.lane_used[s->lane] = false;
    fake.use.streams--;
    free(s);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    cudaError_t e = fake_enter("cudaStreamDestroy");
    if (!fake_stream_ok(s)) {
        return fake_leave(e == cudaSuccess ? cudaErrorInvalidResourceHandle : e);
    }
    if (s->n > 0 && fake.sticky == cudaSuccess) {
        fake_say("a stream is destroyed with %u pieces of work", s->n);
    }
    drop_stream(s);
    return fake_leave(e);
}

void fake_streams_reset(void)
{
    while (fake.streams != NULL) {
        drop_stream(fake.streams);
    }
    while (fake.events != NULL) {
        struct CUevent_st *e = fake.events;
        fake.events = e->next;
        free(e);
    }
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    cudaError_t e = fake_enter("cudaStreamSynchronize");
    e = not_capturing(needs_stream(e, s, "cudaStreamSynchronize"), s);
    if (e == cudaSuccess) {
        struct fake_clock c = s->clock;
        e = fake_drain(s, 0);
        fake_clock_join(&fake.host, &c);
    }
    return fake_leave(e);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    cudaError_t e = fake_enter("cudaStreamQuery");
    e = not_capturing(needs_stream(e, s, "cudaStreamQuery"), s);
    if (e == cudaSuccess && s->n > 0) {
        (void)step_some();
        e = fake.sticky != cudaSuccess ? fake.sticky : cudaErrorNotReady;
    } else if (e == cudaSuccess) {
        fake_clock_join(&fake.host, &s->clock);
    }
    return fake_leave(e);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t e = fake_enter("cudaDeviceSynchronize");
    e = e == cudaSuccess ? fake_unsafe() : e;
    if (e == cudaSuccess) {
        e = fake_drain(NULL, 0);
        for (const struct CUstream_st *s = fake.streams; s != NULL; s = s->next) {
            fake_clock_join(&fake.host, &s->clock);
        }
    }
    return fake_leave(e);
}

/* ---- events ---- */

struct CUevent_st *fake_event_drop(struct CUevent_st *e)
{
    if (--e->uses == 0) {
        struct CUevent_st **at = &fake.events;
        while (*at != e) {
            at = &(*at)->next;
        }
        *at = e->next;
        free(e);
    }
    return NULL;
}

static bool event_ok(cudaEvent_t e)
{
    for (const struct CUevent_st *i = fake.events; i != NULL; i = i->next) {
        if (i == e) {
            return i->alive;
        }
    }
    return false;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
    cudaError_t e = fake_enter("cudaEventCreateWithFlags");
    struct CUevent_st *n = e == cudaSuccess ? calloc(1, sizeof(*n)) : NULL;
    if (n != NULL) {
        *n = (struct CUevent_st){.next = fake.events,
                                 .uses = 1,
                                 .alive = true,
                                 .timed = (flags & cudaEventDisableTiming) == 0};
        fake.events = n;
        fake.use.events++;
        *ret = n;
    }
    return fake_leave(e == cudaSuccess && n == NULL ? cudaErrorMemoryAllocation : e);
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t ev)
{
    cudaError_t e = fake_enter("cudaEventDestroy");
    if (!event_ok(ev)) {
        return fake_leave(e == cudaSuccess ? cudaErrorInvalidResourceHandle : e);
    }
    ev->alive = false;
    fake.use.events--;
    (void)fake_event_drop(ev);
    return fake_leave(e);
}

cudaError_t cudaEventRecord(cudaEvent_t ev, cudaStream_t s)
{
    cudaError_t e = needs_stream(fake_enter("cudaEventRecord"), s, "cudaEventRecord");
    e = e == cudaSuccess && !event_ok(ev) ? cudaErrorInvalidResourceHandle : not_capturing(e, s);
    if (e == cudaSuccess) {
        struct piece c = {
            .kind = PIECE_RECORD, .name = "record", .event = ev, .number = ++ev->given};
        e = fake_give(s, &c);
    }
    return fake_leave(e);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t ev, unsigned flags)
{
    (void)flags;
    cudaError_t e = needs_stream(fake_enter("cudaStreamWaitEvent"), s, "cudaStreamWaitEvent");
    e = e == cudaSuccess && !event_ok(ev) ? cudaErrorInvalidResourceHandle : e;
    if (e == cudaSuccess && s->capture != NULL) {
        s->invalid = true;
        e = cudaErrorStreamCaptureIsolation;
    }
    if (e == cudaSuccess && ev->given > 0) {
        struct piece c = {.kind = PIECE_WAIT, .name = "wait", .event = ev, .number = ev->given};
        fake_clock_join(&s->clock, &ev->clock);
        e = fake_give(s, &c);
    }
    return fake_leave(e);
}

cudaError_t cudaEventQuery(cudaEvent_t ev)
{
    cudaError_t e = fake_enter("cudaEventQuery");
    e = e == cudaSuccess && !event_ok(ev) ? cudaErrorInvalidResourceHandle : e;
    if (e == cudaSuccess && ev->reached < ev->given) {
        (void)step_some();
        e = fake.sticky != cudaSuccess ? fake.sticky : cudaErrorNotReady;
    } else if (e == cudaSuccess) {
        fake_clock_join(&fake.host, &ev->clock);
    }
    return fake_leave(e);
}

struct goal {
    const struct CUevent_st *e;
    uint64_t number;
};

static bool is_reached(const void *ctx)
{
    const struct goal *g = ctx;
    return g->e->reached >= g->number;
}

cudaError_t cudaEventSynchronize(cudaEvent_t ev)
{
    cudaError_t e = fake_enter("cudaEventSynchronize");
    e = e == cudaSuccess && !event_ok(ev) ? cudaErrorInvalidResourceHandle : e;
    if (e == cudaSuccess) {
        struct goal g = {ev, ev->given};
        struct fake_clock c = ev->clock;
        ev->uses++;
        e = work_until(is_reached, &g);
        (void)fake_event_drop(ev);
        fake_clock_join(&fake.host, &c);
    }
    return fake_leave(e);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    cudaError_t e = fake_enter("cudaEventElapsedTime");
    bool ok = event_ok(from) && event_ok(to);
    if (e == cudaSuccess &&
        (!ok || !from->timed || !to->timed || from->given == 0 || to->given == 0)) {
        e = cudaErrorInvalidResourceHandle;
    } else if (e == cudaSuccess && (from->reached < from->given || to->reached < to->given)) {
        e = cudaErrorNotReady;
    }
    if (e == cudaSuccess) {
        *ms = (float)(to->ms - from->ms);
    }
    return fake_leave(e);
}
