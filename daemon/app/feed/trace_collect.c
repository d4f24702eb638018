#include "daemon/app/feed/trace_collect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/docs/trace_doc.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/sessions.h"
#include "daemon/app/state/tasks.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/str.h"

#define GRACE_MS  2000  /* for the last parts from members of an epoch that ends */
#define OTHERS_MS 10000 /* between the first word and the last */
#define MUTE_MS   15000 /* without any, though steps go by */
#define MOST      16u   /* traces at a time */
#define MEM_CAP   ((size_t)512 << 20)
#define OWN_AFTER 2u /* steps of an epoch: caches are warm, kernels chosen */
#define OWN_STEPS 2u

struct member {
    hsp_device_id device;
    uint64_t incarnation;
    struct hsp_trace_device doc; /* its blob is owned */
};

struct hsp_tracing {
    struct hsp_app_task work;
    struct hsp_tracing *next;
    uint32_t conn; /* 0: gone */
    uint64_t request;
    uint32_t job, number, steps;
    uint64_t epoch, asked_at;  /* the last vote then */
    hsp_msec asked_ms, end_ms; /* end: made of the parts so far; UINT64_MAX: open */
    uint32_t n, n_told;
    struct member *member; /* owned: [n] */
    bool own;              /* asked by hspmdd itself */
    bool begun;            /* the order has gone; else it waits for the end of one of our own */
    bool writing;
    char name[HSP_NAME_MAX + 1], note[160];
    /* of the pool thread */
    struct hsp_plan_rec *plan; /* counted, or NULL */
    size_t mem_cap, n_measured;
    struct hsp_device_measured *measured; /* owned; of our own */
    struct hsp_buf out;
    enum hsp_status st;
    struct hsp_err err;
};

/* Returns the step of the last vote that is known; the stable version may be some steps older. */
static uint64_t newest(const struct hsp_job *j)
{
    return j->passed > j->stable ? j->passed : j->stable;
}

static struct hsp_tracing *tracing_free(struct hsp_app *a, struct hsp_tracing *t)
{
    struct hsp_tracing **at = &a->tracings;
    while (*at != NULL && *at != t) {
        at = &(*at)->next;
    }
    if (*at == t) {
        *at = t->next;
    }
    for (uint32_t r = 0; r < t->n; r++) {
        free((void *)(uintptr_t)t->member[r].doc.blob);
        free((void *)(uintptr_t)t->member[r].doc.name);
    }
    (void)hsp_plan_rec_unref(t->plan);
    hsp_buf_fini(&t->out);
    free(t->measured);
    free(t->member);
    free(t);
    return NULL;
}

/* ---- on the pool thread ---- */

/* Finds the pipeline and stage of each rank. If the plan cannot be compiled again, the trace only
 * lacks these. */
static void find_stages(struct hsp_tracing *t, struct hsp_trace_device *d)
{
    const struct hsp_epoch_plan *p;
    if (t->plan == NULL || hsp_plan_rec_build(t->plan, t->mem_cap, &p, NULL) != HSP_OK) {
        return;
    }
    for (uint32_t s = 0; s < p->plan->n_pipelines; s++) {
        for (uint32_t g = 0; g < p->plan->pipelines[s].n_stages; g++) {
            const struct hsp_stage *stage = &p->plan->pipelines[s].stages[g];
            for (uint32_t i = 0; i < stage->n; i++) {
                if (stage->ranks[i] < t->n) {
                    d[stage->ranks[i]].pipeline = s;
                    d[stage->ranks[i]].stage = g;
                }
            }
        }
    }
}

/* Takes the devices' measurements of themselves. */
static void measure(struct hsp_tracing *t, struct hsp_arena *arena)
{
    t->measured = calloc(t->n, sizeof(*t->measured));
    for (uint32_t r = 0; t->measured != NULL && r < t->n; r++) {
        const struct member *k = &t->member[r];
        struct hsp_device_measured *m = &t->measured[t->n_measured];
        *m = (struct hsp_device_measured){.device = k->device, .incarnation = k->incarnation};
        bool ok =
            k->doc.told && hsp_trace_sums(k->doc.blob, k->doc.len, arena, &m->sums, NULL) == HSP_OK;
        t->n_measured += ok && m->sums.product.seconds > 0;
        hsp_arena_reset(arena);
    }
}

static void run_writing(struct hsp_app_task *w)
{
    struct hsp_tracing *t = (struct hsp_tracing *)w;
    struct hsp_arena *arena = hsp_arena_new(MEM_CAP);
    struct hsp_trace_device *d = arena != NULL ? hsp_arena_array(arena, t->n, sizeof(*d)) : NULL;
    t->st = d != NULL ? HSP_OK : hsp_err_nomem(&t->err, "a trace");
    for (uint32_t r = 0; d != NULL && r < t->n; r++) {
        d[r] = t->member[r].doc;
    }
    if (t->st == HSP_OK && t->own) {
        measure(t, arena);
    } else if (t->st == HSP_OK) {
        find_stages(t, d);
        t->st = hsp_trace_write(
            &(struct hsp_trace_job){
                .job = t->name, .epoch = t->epoch, .n = t->n, .device = d, .note = t->note},
            arena, &t->out, &t->err);
    }
    (void)hsp_arena_free(arena);
}

static void done_writing(struct hsp_app_task *w)
{
    struct hsp_tracing *t = (struct hsp_tracing *)w;
    struct hsp_app *a = w->app;
    struct hsp_app_job *j = hsp_app_job_find(a, t->job);
    if (!a->closing && !a->failed && t->conn != 0) {
        bool ok = t->st == HSP_OK;
        hsp_app_reply(a, t->conn, t->request, t->st, ok ? t->note : t->err.msg,
                      ok ? (const char *)t->out.data : NULL, ok ? t->out.len : 0, false);
    }
    if (j != NULL && t->n_measured > 0) { /* earlier epochs' figures of other devices are old */
        free(j->measured);
        j->measured = t->measured;
        j->n_measured = t->n_measured;
        t->measured = NULL;
        hsp_log(a->log, HSP_LOG_DEBUG, "trace", "job %s: %zu devices measured in epoch %" PRIu64,
                t->name, j->n_measured, t->epoch);
    }
    (void)tracing_free(a, t);
    if (!a->closing && !a->failed) {
        hsp_app_trace_check(a); /* one may wait */
    }
}

/* ---- on the loop ---- */

static void fail(struct hsp_app *a, struct hsp_tracing *t, enum hsp_status st, const char *why)
{
    if (!t->own) {
        hsp_app_reply(a, t->conn, t->request, st, why, NULL, 0, false);
    }
    (void)tracing_free(a, t);
}

/* Makes the trace of the parts so far. */
static void finish(struct hsp_app *a, struct hsp_tracing *t)
{
    struct hsp_app_job *j = hsp_app_job_find(a, t->job);
    const struct hsp_job *core = hsp_cluster_job(a->cluster, t->job);
    if (t->n_told == 0) {
        char text[sizeof(t->note) + 80];
        (void)snprintf(text, sizeof(text), "no device of job %s has sent a record: %s", t->name,
                       t->note);
        fail(a, t, HSP_ESTATE, text);
        return;
    }
    if (j != NULL && core != NULL && core->cur.epoch == t->epoch) {
        struct hsp_plan_rec *rec = hsp_app_plan_find(j, core->cur.plan);
        t->plan = rec != NULL ? hsp_plan_rec_ref(rec) : NULL;
    }
    t->mem_cap = (size_t)a->cfg->planner_memory;
    t->work.run = run_writing;
    t->work.done = done_writing;
    t->writing = true;
    if (!hsp_app_queue(a, &t->work)) {
        fail(a, t, HSP_ENOMEM, "out of memory for a trace");
    }
}

static void soon(struct hsp_tracing *t, hsp_msec at)
{
    t->end_ms = at < t->end_ms ? at : t->end_ms;
}

/* Sends TRACE to rank 0, unless a trace that hspmdd wants for itself is under way. */
static void begin(struct hsp_app *a, struct hsp_tracing *t)
{
    const struct hsp_tracing *o = a->tracings;
    while (o != NULL && (o == t || o->job != t->job)) {
        o = o->next;
    }
    if (o != NULL) {
        return;
    }
    const struct hsp_job *j = hsp_cluster_job(a->cluster, t->job);
    hsp_device_id first = t->member[0].device;
    struct hsp_msg order = {.type = HSP_MSG_TRACE,
                            .epoch = t->epoch,
                            .u.trace = {.job = t->job,
                                        .device = HSP_DEVICE_INDEX(first),
                                        .number = t->number,
                                        .steps = t->steps}};
    t->begun = true;
    t->asked_at = j != NULL ? newest(j) : 0;
    t->asked_ms = hsp_app_now();
    hsp_app_send(a, a->cluster->nodes[HSP_DEVICE_NODE(first)].conn, &order);
}

/* Looks whether the awaited parts can still come. */
static void look(struct hsp_app *a, struct hsp_tracing *t)
{
    const struct hsp_job *j = hsp_cluster_job(a->cluster, t->job);
    hsp_msec now = hsp_app_now();
    bool runs = j != NULL && j->cur.epoch == t->epoch &&
                (j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING);
    if (!t->begun) {
        begin(a, t);
    }
    if (!runs && t->note[0] == '\0') {
        hsp_str_printf(t->note, sizeof(t->note), "epoch %" PRIu64 " ended meanwhile: job %s is %s",
                       t->epoch, t->name, j != NULL ? hsp_job_state_name(j->state) : "forgotten");
        soon(t, now + GRACE_MS);
    }
    if (runs && t->begun && t->n_told == 0 && now >= t->asked_ms + MUTE_MS &&
        newest(j) > t->asked_at + t->steps + 1) {
        hsp_str_printf(t->note, sizeof(t->note), "%" PRIu64 " steps have gone by",
                       newest(j) - t->asked_at);
        soon(t, now);
    }
    if (t->n_told == t->n) {
        soon(t, now);
    } else if (now >= t->end_ms && t->n_told > 0 && t->note[0] == '\0') {
        hsp_str_printf(t->note, sizeof(t->note),
                       "%" PRIu32 " of %" PRIu32 " devices were not heard", t->n - t->n_told, t->n);
    }
    if (now >= t->end_ms) {
        finish(a, t);
    }
}

void hsp_app_trace_check(struct hsp_app *a)
{
    for (struct hsp_tracing *t = a->tracings, *next; t != NULL; t = next) {
        next = t->next;
        if (!t->writing) {
            look(a, t);
        }
    }
}

hsp_msec hsp_app_trace_deadline(const struct hsp_app *a)
{
    hsp_msec best = UINT64_MAX;
    for (const struct hsp_tracing *t = a->tracings; t != NULL; t = t->next) {
        hsp_msec mute = t->begun && t->n_told == 0 ? t->asked_ms + MUTE_MS : UINT64_MAX;
        mute = mute > hsp_app_now() ? mute : UINT64_MAX; /* then the steps say when */
        mute = mute < t->end_ms ? mute : t->end_ms;
        best = !t->writing && mute < best ? mute : best;
    }
    return best;
}

/* ---- messages of members ---- */

static struct hsp_tracing *find(const struct hsp_app *a, uint32_t job, uint64_t epoch,
                                uint32_t number)
{
    struct hsp_tracing *t = a->tracings;
    while (t != NULL && (t->job != job || t->epoch != epoch || t->number != number || t->writing)) {
        t = t->next;
    }
    return t;
}

void hsp_app_traced(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m)
{
    const struct hsp_m_traced *x = &m->u.traced;
    struct hsp_tracing *t = find(a, x->job, m->epoch, x->number);
    if (t == NULL || x->rank >= t->n || t->member[x->rank].doc.told) {
        return;
    }
    struct member *k = &t->member[x->rank];
    const struct hsp_cluster_node *n = &a->cluster->nodes[HSP_DEVICE_NODE(k->device)];
    if (n->conn != conn || n->incarnation != k->incarnation ||
        HSP_DEVICE_INDEX(k->device) != x->device) {
        return;
    }
    uint8_t *blob = malloc((size_t)m->blob_len + 1);
    if (blob == NULL) {
        return; /* the trace is made without it */
    }
    if (m->blob_len > 0) {
        memcpy(blob, m->blob, m->blob_len);
    }
    k->doc.told = true;
    k->doc.blob = blob;
    k->doc.len = m->blob_len;
    k->doc.offset_us = x->offset_us;
    k->doc.error_us = x->error_us;
    t->n_told++;
    soon(t, hsp_app_now() + OTHERS_MS);
    look(a, t);
}

/* ---- requests ---- */

static void refuse(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                   enum hsp_status st, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void refuse(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                   enum hsp_status st, const char *fmt, ...)
{
    char text[HSP_TEXT_MAX + 1];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut on purpose */
    va_end(ap);
    hsp_app_reply(a, cl->conn, m->request, st, text, NULL, 0, false);
}

/* Returns true if a trace of @j can be begun; else tells the caller the reason. */
static bool may_begin(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                      const struct hsp_job *j)
{
    const struct hsp_m_tracejob *q = &m->u.tracejob;
    uint32_t n = 0;
    const struct hsp_tracing *same = NULL;
    for (const struct hsp_tracing *t = a->tracings; t != NULL; t = t->next) {
        n += !t->own;
        same = t->job == j->id && !t->own ? t : same;
    }
    if (q->steps == 0 || q->steps > HSP_MSG_STEPS) {
        refuse(a, cl, m, HSP_EINVAL, "a trace is of 1 to %u steps, not of %" PRIu32, HSP_MSG_STEPS,
               q->steps);
    } else if (j->state != HSP_JOB_RUNNING && j->state != HSP_JOB_SWITCHING) {
        refuse(a, cl, m, HSP_ESTATE, "job %s is %s%s%s; only steps that run can be traced", j->name,
               hsp_job_state_name(j->state), j->reason[0] != '\0' ? ": " : "", j->reason);
    } else if (same != NULL || n >= MOST) {
        refuse(a, cl, m, HSP_ESTATE, "%s is under way; try again when it has ended",
               same != NULL ? "another trace of the job" : "a trace of many other jobs");
    } else if (a->cluster->nodes[HSP_DEVICE_NODE(j->cur.peers[0].device)].conn == 0) {
        refuse(a, cl, m, HSP_ESTATE, "node %s of its rank 0 is not connected; try again",
               a->cluster->nodes[HSP_DEVICE_NODE(j->cur.peers[0].device)].name);
    } else {
        return true;
    }
    return false;
}

static bool add_members(struct hsp_app *a, const struct hsp_job *j, struct hsp_tracing *t)
{
    t->member = calloc(j->cur.n_ranks, sizeof(*t->member));
    for (; t->member != NULL && t->n < j->cur.n_ranks; t->n++) {
        struct member *k = &t->member[t->n];
        hsp_device_id d = j->cur.peers[t->n].device;
        char name[HSP_NAME_MAX + 16];
        (void)snprintf(name, sizeof(name), "%s/%" PRIu32,
                       a->cluster->nodes[HSP_DEVICE_NODE(d)].name, HSP_DEVICE_INDEX(d));
        *k = (struct member){
            .device = d,
            .incarnation = j->cur.peers[t->n].incarnation,
            .doc = {.name = strdup(name), .pipeline = UINT32_MAX, .stage = UINT32_MAX}};
        if (k->doc.name == NULL) {
            return false;
        }
    }
    return t->member != NULL;
}

/* NULL: no memory. */
static struct hsp_tracing *tracing_new(struct hsp_app *a, const struct hsp_job *j, uint32_t steps)
{
    struct hsp_tracing *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return NULL;
    }
    a->trace_number = a->trace_number % UINT16_MAX + 1;
    t->job = j->id;
    t->number = a->trace_number;
    t->steps = steps;
    t->epoch = j->cur.epoch;
    t->end_ms = UINT64_MAX;
    (void)snprintf(t->name, sizeof(t->name), "%s", j->name);
    hsp_buf_init(&t->out, HSP_MSG_BLOB_MAX);
    t->next = a->tracings;
    a->tracings = t;
    return add_members(a, j, t) ? t : tracing_free(a, t);
}

void hsp_app_trace(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    const struct hsp_job *j;
    struct hsp_err err;
    enum hsp_status st = hsp_cluster_job_called(a->cluster, m->u.tracejob.name, &j, &err);
    if (st != HSP_OK) {
        refuse(a, cl, m, st, "%s", err.msg);
        return;
    }
    if (!may_begin(a, cl, m, j)) {
        return;
    }
    struct hsp_tracing *t = tracing_new(a, j, m->u.tracejob.steps);
    if (t == NULL) {
        refuse(a, cl, m, HSP_ENOMEM, "out of memory for a trace");
        return;
    }
    t->conn = cl->conn;
    t->request = m->request;
    begin(a, t);
}

void hsp_app_trace_own(struct hsp_app *a, struct hsp_app_job *j)
{
    const struct hsp_job *core = hsp_cluster_job(a->cluster, j->id);
    bool due = core != NULL && core->state == HSP_JOB_RUNNING && core->cur.settled &&
               j->traced != core->cur.epoch && newest(core) >= core->cur.step + OWN_AFTER;
    for (const struct hsp_tracing *t = a->tracings; due && t != NULL; t = t->next) {
        due = t->job != j->id;
    }
    if (!due) {
        return;
    }
    j->traced = core->cur.epoch;
    struct hsp_tracing *t = tracing_new(a, core, OWN_STEPS);
    if (t != NULL) { /* without memory the next plan uses the known figures */
        t->own = true;
        begin(a, t);
    }
}

void hsp_app_trace_gone(struct hsp_app *a, uint32_t conn)
{
    for (struct hsp_tracing *t = a->tracings, *next; t != NULL; t = next) {
        next = t->next;
        if (t->own || t->conn != conn) {
            continue;
        }
        if (t->writing) {
            t->conn = 0;
        } else {
            (void)tracing_free(a, t);
        }
    }
}

void hsp_app_trace_free(struct hsp_app *a)
{
    while (a->tracings != NULL) {
        (void)tracing_free(a, a->tracings);
    }
}
