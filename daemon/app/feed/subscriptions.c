#include "daemon/app/feed/subscriptions.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"
#include "daemon/app/state/tasks.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/str.h"

#define LINES 4096 /* of events or metrics in one reply */
#define MOST  4096 /* that wait or follow: a connection may send any number of requests */

struct hsp_follower {
    struct hsp_app_task work; /* one reading at a time */
    struct hsp_follower *next;
    uint32_t conn; /* 0: gone, freed when the reading ends */
    uint64_t request;
    uint32_t job; /* 0: all */
    bool metrics, follow, reading, begun;
    struct hsp_ckpt_cuts cuts; /* of the job, where given-up steps are not shown */
    uint64_t since;            /* events: last number sent; metrics: next step */
    uint64_t flushed;          /* events on disk when the reading began */
    uint64_t behind; /* the lines made before the request: it reads when they are on disk */
    struct hsp_store *store;
    uint32_t n;
    struct hsp_buf lines;
    enum hsp_status status;
    struct hsp_err err;
};

struct hsp_waiter {
    struct hsp_waiter *next;
    uint32_t conn, job;
    uint64_t request, step;
    enum { WAIT_RUNNING, WAIT_DONE, WAIT_STEP } what;
    hsp_msec deadline; /* UINT64_MAX: none */
    bool follow;       /* hears why files of the job cannot be written */
    char told[sizeof(((struct hsp_job *)NULL)->problem)]; /* the text it has heard of that */
};

/* True where so many wait or follow that @m is refused. */
static bool is_full(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m)
{
    uint32_t n = 0;
    char text[80];
    for (const struct hsp_follower *f = a->followers; f != NULL; f = f->next) {
        n++;
    }
    for (const struct hsp_waiter *w = a->waiters; w != NULL; w = w->next) {
        n++;
    }
    if (n >= MOST) {
        hsp_str_printf(text, sizeof text, "%u requests wait or follow already; end some of them",
                       n);
        hsp_app_reply(a, cl->conn, m->request, HSP_ELIMIT, text, NULL, 0, false);
    }
    return n >= MOST;
}

/* ---- followers ---- */

static void take_line(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    struct hsp_follower *f = arg;
    if (!f->metrics || hsp_cuts_allow_metrics(f->cuts.cut, f->cuts.n, epoch, number)) {
        hsp_buf_puts(&f->lines, json);
        hsp_buf_puts(&f->lines, "\n");
    }
    f->since = f->metrics ? number + 1 : number;
    f->n++;
}

static void run_reading(struct hsp_app_task *w)
{
    struct hsp_follower *f = (struct hsp_follower *)w;
    f->status = f->metrics
                    ? hsp_store_metrics(f->store, f->job, f->since, LINES, take_line, f, &f->err)
                    : hsp_store_events(f->store, f->job, f->since, LINES, take_line, f, &f->err);
    if (f->status == HSP_OK && f->lines.failed) {
        f->status = hsp_err_nomem(&f->err, "lines of the feed");
    }
}

static void follower_free(struct hsp_app *a, struct hsp_follower *f)
{
    struct hsp_follower **at = &a->followers;
    while (*at != NULL && *at != f) {
        at = &(*at)->next;
    }
    if (*at == f) {
        *at = f->next;
    }
    hsp_buf_fini(&f->lines);
    free(f);
}

static bool read_on(struct hsp_app *a, struct hsp_follower *f)
{
    f->n = 0;
    f->begun = true;
    f->flushed = a->flushed;
    hsp_buf_reset(&f->lines);
    f->reading = hsp_app_queue(a, &f->work);
    return f->reading;
}

static void done_reading(struct hsp_app_task *w)
{
    struct hsp_follower *f = (struct hsp_follower *)w;
    struct hsp_app *a = w->app;
    f->reading = false;
    if (f->conn == 0 || a->closing || a->failed) {
        follower_free(a, f);
        return;
    }
    if (f->status == HSP_EDIGEST) {
        hsp_app_damaged(a, f->err.msg);
    }
    bool full = f->n == LINES, stays = f->status == HSP_OK && (full || f->follow);
    if (f->n > 0 || !stays) {
        hsp_app_reply(a, f->conn, f->request, f->status, f->err.msg, (const char *)f->lines.data,
                      f->lines.len, stays);
    }
    bool more = stays && (full || a->flushed > f->flushed);
    if (!stays || (more && !read_on(a, f))) {
        follower_free(a, f);
    }
}

/* A job may be seen done before the line of its last step is on disk. A disk that refuses lines
 * holds no answer up. */
static bool waits_for_lines(const struct hsp_app *a, const struct hsp_follower *f)
{
    return !f->begun && a->flushing && a->feed_settled < f->behind;
}

void hsp_app_follow_wake(struct hsp_app *a)
{
    for (struct hsp_follower *f = a->followers, *next; f != NULL; f = next) {
        next = f->next;
        bool wants = !f->begun || !f->metrics;
        bool first = !f->begun;
        if (wants && !f->reading && f->conn != 0 && !waits_for_lines(a, f) && !read_on(a, f)) {
            if (first) {
                hsp_app_reply(a, f->conn, f->request, HSP_ENOMEM, "out of memory", NULL, 0, false);
            }
            follower_free(a, f);
        }
    }
}

void hsp_app_follow(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    const struct hsp_m_query *q = &m->u.query;
    bool need = m->type != HSP_MSG_EVENTS || q->name[0] != '\0';
    const struct hsp_job *j = NULL;
    struct hsp_err err;
    if (is_full(a, cl, m)) {
        return;
    }
    if (need && hsp_cluster_job_called(a->cluster, q->name, &j, &err) != HSP_OK) {
        hsp_app_reply(a, cl->conn, m->request, err.code, err.msg, NULL, 0, false);
        return;
    }
    struct hsp_follower *f = calloc(1, sizeof *f);
    if (f != NULL) {
        f->work.run = run_reading;
        f->work.done = done_reading;
        f->conn = cl->conn;
        f->request = m->request;
        f->job = j != NULL ? j->id : 0;
        f->metrics = m->type == HSP_MSG_METRICS;
        if (f->metrics && strcmp(q->what, "all") != 0) {
            f->cuts = j->cuts;
        }
        f->follow = q->follow && !f->metrics;
        f->since = q->since;
        f->behind = a->feed_added;
        if (!f->metrics && f->since > a->seq) { /* of a store that is gone */
            f->since = hsp_app_events_begin(a) < a->seq ? hsp_app_events_begin(a) : 0;
        }
        f->store = a->store;
        hsp_buf_init(&f->lines, HSP_MSG_BLOB_MAX);
        f->next = a->followers;
        a->followers = f;
    }
    if (f == NULL || (!waits_for_lines(a, f) && !read_on(a, f))) {
        hsp_app_reply(a, cl->conn, m->request, HSP_ENOMEM, "out of memory", NULL, 0, false);
        if (f != NULL) {
            follower_free(a, f);
        }
    }
}

/* ---- waiters ---- */

static bool parse_condition(const char *what, struct hsp_waiter *w)
{
    if (strcmp(what, "running") == 0) {
        w->what = WAIT_RUNNING;
    } else if (strcmp(what, "done") == 0 || what[0] == '\0') {
        w->what = WAIT_DONE;
    } else if (strncmp(what, "step=", 5) == 0 && hsp_parse_u64(what + 5, &w->step)) {
        w->what = WAIT_STEP;
    } else {
        return false;
    }
    return true;
}

/* @step: that the job has come to. */
static bool fulfilled(const struct hsp_waiter *w, const struct hsp_job *j, uint64_t step)
{
    switch (w->what) {
    case WAIT_RUNNING: return j->state == HSP_JOB_RUNNING;
    case WAIT_STEP: return step >= w->step;
    case WAIT_DONE: break;
    }
    return j->state == HSP_JOB_DONE;
}

/* "job", "state", "reason", "step"; cJSON_free. */
static char *wait_doc(struct hsp_app *a, const struct hsp_job *j, const char *reason)
{
    cJSON *o = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(o, "job", j->name);
    (void)cJSON_AddStringToObject(o, "state", hsp_job_state_name(j->state));
    (void)cJSON_AddStringToObject(o, "reason", reason);
    (void)cJSON_AddNumberToObject(o, "step", (double)hsp_app_job_step(a, j));
    char *doc = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    return doc;
}

static void answer_wait(struct hsp_app *a, const struct hsp_waiter *w, const struct hsp_job *j,
                        enum hsp_status st, const char *message)
{
    char *doc = wait_doc(a, j, j->reason);
    hsp_app_reply(a, w->conn, w->request, st, message, doc, doc != NULL ? strlen(doc) : 0, false);
    cJSON_free(doc);
}

/* Tells why files of the job cannot be written, and again when the reason is another one. */
static void tell_problem(struct hsp_app *a, struct hsp_waiter *w)
{
    const struct hsp_job *j = hsp_cluster_job(a->cluster, w->job);
    if (!w->follow || strcmp(j->problem, w->told) == 0) {
        return;
    }
    memcpy(w->told, j->problem, sizeof w->told);
    char *doc = w->told[0] != '\0' ? wait_doc(a, j, w->told) : NULL;
    if (doc != NULL) {
        hsp_app_reply(a, w->conn, w->request, HSP_OK, "", doc, strlen(doc), true);
    }
    cJSON_free(doc);
}

/* True when it was answered. */
static bool try_answer(struct hsp_app *a, const struct hsp_waiter *w)
{
    const struct hsp_job *j = hsp_cluster_job(a->cluster, w->job);
    char text[sizeof(j->reason) + 160];
    if (j == NULL) {
        hsp_app_reply(a, w->conn, w->request, HSP_ENOENT, "the job was forgotten", NULL, 0, false);
        return true;
    }
    const uint64_t step = hsp_app_job_step(a, j);
    if (fulfilled(w, j, step) || hsp_job_terminal(j->state)) {
        answer_wait(a, w, j, HSP_OK, "");
        return true;
    }
    if (w->deadline <= hsp_app_now()) {
        const char *fault = hsp_app_job_fault(a, j->id);
        const char *why = j->reason[0] != '\0' ? j->reason : fault != NULL ? fault : j->problem;
        hsp_str_printf(text, sizeof text, "job %s is %s at step %" PRIu64 "%s%s", j->name,
                       hsp_job_state_name(j->state), step, why[0] != '\0' ? ": " : "", why);
        answer_wait(a, w, j, HSP_ETIMEDOUT, text);
        return true;
    }
    return false;
}

void hsp_app_wait_check(struct hsp_app *a)
{
    for (struct hsp_waiter **at = &a->waiters; *at != NULL;) {
        struct hsp_waiter *w = *at;
        if (try_answer(a, w)) {
            *at = w->next;
            free(w);
        } else {
            tell_problem(a, w);
            at = &w->next;
        }
    }
}

hsp_msec hsp_app_wait_deadline(const struct hsp_app *a)
{
    hsp_msec best = UINT64_MAX;
    for (const struct hsp_waiter *w = a->waiters; w != NULL; w = w->next) {
        best = w->deadline < best ? w->deadline : best;
    }
    return best;
}

void hsp_app_wait(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    const struct hsp_m_query *q = &m->u.query;
    const struct hsp_job *j;
    struct hsp_err err;
    if (is_full(a, cl, m)) {
        return;
    }
    enum hsp_status st = hsp_cluster_job_called(a->cluster, q->name, &j, &err);
    struct hsp_waiter *w = st == HSP_OK ? calloc(1, sizeof *w) : NULL;
    if (st == HSP_OK && w == NULL) {
        st = hsp_err_nomem(&err, "a wait");
    }
    if (st == HSP_OK && !parse_condition(q->what, w)) {
        st = hsp_err_set(&err, HSP_EINVAL, 0, "cannot wait for \"%s\": done, running or step=N",
                         q->what);
    }
    if (st == HSP_OK && w->what == WAIT_STEP && w->step > j->steps && !j->unrecorded) {
        st = hsp_err_set(&err, HSP_EINVAL, 0,
                         "job %s has no step %" PRIu64 ": it is done after %" PRIu64
                         " (train.steps)",
                         j->name, w->step, j->steps);
    }
    if (st != HSP_OK) {
        hsp_app_reply(a, cl->conn, m->request, st, err.msg, NULL, 0, false);
        free(w);
        return;
    }
    w->conn = cl->conn;
    w->request = m->request;
    w->job = j->id;
    w->follow = q->follow;
    w->deadline = q->timeout_ms != 0 ? hsp_app_now() + q->timeout_ms : UINT64_MAX;
    w->next = a->waiters;
    a->waiters = w;
    hsp_app_wait_check(a);
}

/* ---- ends ---- */

void hsp_app_client_gone(struct hsp_app *a, uint32_t conn)
{
    for (struct hsp_follower *f = a->followers, *next; f != NULL; f = next) {
        next = f->next;
        if (f->conn == conn) {
            f->conn = 0;
            if (!f->reading) {
                follower_free(a, f);
            }
        }
    }
    for (struct hsp_waiter **at = &a->waiters; *at != NULL;) {
        struct hsp_waiter *w = *at;
        if (w->conn == conn) {
            *at = w->next;
            free(w);
        } else {
            at = &w->next;
        }
    }
}

void hsp_app_follow_free(struct hsp_app *a)
{
    while (a->followers != NULL) {
        follower_free(a, a->followers);
    }
    while (a->waiters != NULL) {
        struct hsp_waiter *w = a->waiters;
        a->waiters = w->next;
        free(w);
    }
}
