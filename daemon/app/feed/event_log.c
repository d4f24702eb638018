#include "daemon/app/feed/event_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/feed/metrics_collect.h"
#include "daemon/app/feed/subscriptions.h"
#include "daemon/app/feed/trace_collect.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/tasks.h"
#include "daemon/app/store/tensorboard_event.h"
#include "daemon/app/store/tensorboard_file.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/lookup.h"

#define LINE_MAX_BYTES 65536u
/* Lines written in one transaction. */
#define GROUP_MAX 4096u
/* Lines that wait for a disk that takes nothing, at most: some tens of megabytes. */
#define KEPT_MAX 65536u

struct hsp_feed_row { /* an event or a metric on its way to the disk; heap */
    struct hsp_feed_row *next;
    uint64_t number; /* sequence or step */
    uint64_t epoch;  /* of a metric */
    bool metric;
    uint32_t job;          /* 0: an event of none */
    struct hsp_buf events; /* TensorBoard records of a metric, may be empty; owned */
    char folder[HSP_TB_FOLDER];
    char line[]; /* JSON */
};

/* @epoch: 0 for events. The row, owned by the queue; NULL: no memory. */
static struct hsp_feed_row *add_row(struct hsp_app *a, bool metric, uint64_t number, uint64_t epoch,
                                    uint32_t job, struct hsp_buf *line)
{
    struct hsp_feed_row *r = line->failed ? NULL : malloc(sizeof *r + line->len + 1);
    if (r == NULL) {
        hsp_log(a->log, HSP_LOG_ERROR, "feed", "out of memory: a line is lost");
        return NULL;
    }
    *r = (struct hsp_feed_row){.number = number, .epoch = epoch, .metric = metric, .job = job};
    hsp_buf_init(&r->events, LINE_MAX_BYTES);
    memcpy(r->line, hsp_buf_cstr(line), line->len + 1);
    if (a->feed_tail != NULL) {
        a->feed_tail->next = r;
    } else {
        a->feed_head = r;
    }
    a->feed_tail = r;
    a->n_feed++;
    a->feed_added++;
    return r;
}

static void to_log(struct hsp_app *a, const struct hsp_fact *f, const char *job)
{
    static const enum hsp_log_level levels[] = {HSP_LOG_INFO, HSP_LOG_NOTICE, HSP_LOG_WARN,
                                                HSP_LOG_ERROR};
    struct hsp_buf b;
    hsp_buf_init(&b, LINE_MAX_BYTES);
    hsp_buf_puts(&b, f->type);
    if (job[0] != '\0') {
        hsp_buf_printf(&b, " job %s", job);
    }
    if (f->node != NULL && f->node[0] != '\0') {
        hsp_buf_printf(&b, " node %s", f->node);
    }
    if (f->actor != NULL && f->actor[0] != '\0') {
        hsp_buf_printf(&b, " by %s", f->actor);
    }
    if (f->reason != NULL && f->reason[0] != '\0') { /* behind the colon: agents may say it */
        hsp_buf_printf(&b, ": %s", f->reason);
    }
    if (f->cause != NULL && f->cause[0] != '\0') {
        hsp_buf_printf(&b, " (%s)", f->cause);
    }
    hsp_log(a->log, levels[f->severity], "event", "%s", hsp_buf_cstr(&b));
    hsp_buf_fini(&b);
}

void hsp_app_fact(struct hsp_app *a, const struct hsp_fact *f)
{
    struct hsp_err err = {0};
    struct hsp_app_job *j = f->job != 0 ? hsp_app_job_find(a, f->job) : NULL;
    const struct hsp_job *core = hsp_cluster_job(a->cluster, f->job);
    struct hsp_plan_rec *plan =
        j != NULL && core != NULL ? hsp_app_plan_find(j, core->cur.plan) : NULL;
    struct hsp_feed_event e = {.seq = ++a->seq,
                               .unix_ms = hsp_app_unix_ms(),
                               .job = hsp_app_job_name(a, f->job),
                               .plan = plan != NULL ? plan->summary : NULL,
                               .fact = f};
    if (f->trace != NULL && j != NULL) {
        struct hsp_epoch_line l;
        hsp_epoch_line_make(f, e.unix_ms, e.plan, &l);
        hsp_app_epoch_add(j, &l);
    }
    hsp_app_count_fact(a, j, f);
    to_log(a, f, e.job);
    struct hsp_buf line;
    hsp_buf_init(&line, LINE_MAX_BYTES);
    if (hsp_feed_event_line(&e, &line, &err) != HSP_OK) {
        hsp_log(a->log, HSP_LOG_ERROR, "feed", "%s", err.msg);
    } else {
        (void)add_row(a, false, e.seq, 0, f->job, &line);
    }
    if (j != NULL && core != NULL) { /* this fact may tell that the job goes back */
        hsp_app_job_look_back(a, j, core);
    }
    hsp_buf_fini(&line);
    hsp_app_flush(a);
}

/* All lines of a finished job, as its workers have them: fills the gaps of the time when we were
 * not there. Only the figures of a line are taken; any line but metrics of this job is passed
 * over. */
static void add_lines(struct hsp_app *a, uint32_t job, const struct hsp_msg *m)
{
    const char *text = (const char *)m->blob, *end = text + m->blob_len;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((stop != NULL ? stop : end) - text);
        struct hsp_buf line;
        struct hsp_msg figures;
        hsp_buf_init(&line, LINE_MAX_BYTES);
        if (len <= LINE_MAX_BYTES && hsp_feed_metric_read(text, len, &figures) &&
            figures.u.step.step <= m->u.finished.step && figures.epoch != 0 &&
            figures.epoch <= m->epoch) {
            (void)hsp_feed_metric_line(&figures, &line, NULL); /* add_row looks at it */
            (void)add_row(a, true, figures.u.step.step, figures.epoch, job, &line);
        }
        hsp_buf_fini(&line);
        text += len + 1;
    }
}

void hsp_app_metric(struct hsp_app *a, uint32_t job, const struct hsp_msg *m)
{
    struct hsp_err err = {0};
    struct hsp_app_job *j = hsp_app_job_find(a, job);
    const struct hsp_job *core = hsp_cluster_job(a->cluster, job);
    if (j != NULL && m->type == HSP_MSG_FINISHED) {
        add_lines(a, job, m);
        hsp_app_flush(a);
        return;
    }
    if (j == NULL || m->u.step.final) { /* the last record trains nothing */
        return;
    }
    const bool newer = core != NULL && hsp_app_job_told(j, core, m->epoch, &m->u.step);
    if (newer) {
        hsp_hist_add(&j->metrics.step_s, m->u.step.seconds > 0 ? m->u.step.seconds : -1);
        j->metrics.tokens += m->u.step.tokens;
        hsp_app_trace_own(a, j);
    }
    struct hsp_buf line;
    hsp_buf_init(&line, LINE_MAX_BYTES);
    if (hsp_feed_metric_line(m, &line, &err) != HSP_OK) {
        hsp_log(a->log, HSP_LOG_ERROR, "feed", "%s", err.msg);
    } else {
        struct hsp_feed_row *r = add_row(a, true, m->u.step.step, m->epoch, job, &line);
        if (r != NULL && newer && a->cfg->tensorboard) {
            (void)snprintf(r->folder, sizeof r->folder, "%s-%" PRIu32, j->rec->spec->name, job);
            hsp_tb_put_step(&r->events, (double)hsp_app_unix_ms() * 1e-3, &m->u.step, m->epoch);
        }
    }
    hsp_buf_fini(&line);
    hsp_app_flush(a);
}

/* ---- to the disk ---- */

struct flush {
    struct hsp_app_task work;
    struct hsp_feed_row *rows; /* owned */
    size_t n;
    struct hsp_store *store;
    const char *state_dir;
    int64_t start_s;
    bool events_tried;
    enum hsp_status status, events_status;
    struct hsp_err err, events_err;
};

/* The records of the rows, those of one job that follow each other at once. The first failure
 * stays.
 */
static void write_events(struct flush *f)
{
    struct hsp_buf b;
    hsp_buf_init(&b, (size_t)GROUP_MAX * LINE_MAX_BYTES);
    for (struct hsp_feed_row *r = f->rows; r != NULL; r = r->next) {
        if (!r->metric || r->events.failed || r->events.len == 0) {
            continue;
        }
        hsp_buf_append(&b, r->events.data, r->events.len);
        bool last = r->next == NULL || r->next->job != r->job || !r->next->metric;
        if (last && !b.failed && f->events_status == HSP_OK) {
            f->events_tried = true;
            f->events_status =
                hsp_tb_append(f->state_dir, r->folder, f->start_s, &b, &f->events_err);
        }
        if (last) {
            hsp_buf_reset(&b);
        }
    }
    hsp_buf_fini(&b);
}

static void run_flush(struct hsp_app_task *w)
{
    struct flush *f = (struct flush *)w;
    struct hsp_store_event *events = calloc(f->n, sizeof *events);
    struct hsp_store_metric *metrics = calloc(f->n, sizeof *metrics);
    size_t n_events = 0, n_metrics = 0;
    if (events == NULL || metrics == NULL) {
        f->status = hsp_err_nomem(&f->err, "%zu lines of the feed", f->n);
    }
    for (struct hsp_feed_row *r = f->rows; f->status == HSP_OK && r != NULL; r = r->next) {
        if (r->metric) {
            metrics[n_metrics++] = (struct hsp_store_metric){r->job, r->number, r->epoch, r->line};
        } else {
            events[n_events++] = (struct hsp_store_event){r->number, r->job, r->line};
        }
    }
    if (f->status == HSP_OK) {
        f->status = hsp_store_feed_add(f->store, events, n_events, metrics, n_metrics, &f->err);
    }
    free(events);
    free(metrics);
    if (f->status == HSP_OK) { /* else both are tried again */
        write_events(f);
    }
}

static void free_rows(struct hsp_feed_row *r)
{
    while (r != NULL) {
        struct hsp_feed_row *next = r->next;
        hsp_buf_fini(&r->events);
        free(r);
        r = next;
    }
}

/* The disk does not take them: they come first when it does. */
static void keep_rows(struct hsp_app *a, struct flush *f)
{
    struct hsp_feed_row *last = f->rows;
    while (last->next != NULL) {
        last = last->next;
    }
    last->next = a->feed_head;
    a->feed_tail = a->feed_head != NULL ? a->feed_tail : last;
    a->feed_head = f->rows;
    a->n_feed += (uint32_t)f->n;
    a->feed_stuck = true;
    hsp_app_retry_later(a);
}

static void done_flush(struct hsp_app_task *w)
{
    struct flush *f = (struct flush *)w;
    struct hsp_app *a = w->app;
    a->flushing = false;
    if (f->status != HSP_OK && f->status != HSP_ENOMEM && !a->closing && a->n_feed < KEPT_MAX) {
        if (!a->store_stalled && f->status != HSP_EDIGEST) {
            hsp_log(a->log, HSP_LOG_WARN, "feed", "%zu lines wait: %s", f->n, f->err.msg);
        }
        keep_rows(a, f);
        if (f->status == HSP_EDIGEST) {
            hsp_app_damaged(a, f->err.msg);
        }
        free(f);
        hsp_app_follow_wake(a);
        return;
    }
    if (f->status != HSP_OK) {
        hsp_log(a->log, HSP_LOG_ERROR, "feed", "%zu lines are lost: %s", f->n, f->err.msg);
    }
    if (f->events_status != HSP_OK && !a->no_events) { /* said once, until it works again */
        hsp_log(a->log, HSP_LOG_WARN, "feed", "no TensorBoard events: %s", f->events_err.msg);
    }
    a->no_events = f->events_tried ? f->events_status != HSP_OK : a->no_events;
    for (const struct hsp_feed_row *r = f->rows; r != NULL; r = r->next) {
        if (!r->metric) {
            a->flushed = r->number;
        }
    }
    a->feed_settled += f->n;
    free_rows(f->rows);
    free(f);
    hsp_app_flush(a);
    if (!a->closing) {
        hsp_app_follow_wake(a);
    }
}

void hsp_app_flush(struct hsp_app *a)
{
    if (a->flushing || a->feed_head == NULL || (a->feed_stuck && !a->closing)) {
        return;
    }
    struct flush *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return; /* the lines stay; the next one tries again */
    }
    f->work.run = run_flush;
    f->work.done = done_flush;
    f->store = a->store;
    f->state_dir = a->cfg->state_dir;
    f->start_s = a->start_s;
    f->rows = a->feed_head;
    struct hsp_feed_row *last = f->rows;
    for (f->n = 1; last->next != NULL && f->n < GROUP_MAX; f->n++) {
        last = last->next;
    }
    a->feed_head = last->next;
    a->feed_tail = a->feed_head != NULL ? a->feed_tail : NULL;
    a->n_feed -= (uint32_t)f->n;
    last->next = NULL;
    a->flushing = true;
    if (!hsp_app_queue(a, &f->work)) {
        hsp_log(a->log, HSP_LOG_ERROR, "feed", "%zu lines are lost: no thread", f->n);
        a->flushing = false;
        a->feed_settled += f->n;
        free_rows(f->rows);
        free(f);
    }
}

/* ---- files of earlier starts ---- */

static void tell_damage(struct hsp_app *a, const char *text)
{
    struct hsp_fact f = {.type = "store.damaged",
                         .severity = HSP_SEV_WARN,
                         .node = "",
                         .reason = text,
                         .cause = "state.db"};
    hsp_app_fact(a, &f);
}

struct look {
    struct hsp_app_task work;
    struct hsp_store *store;
    struct hsp_store_damage found;
    enum hsp_status status;
    struct hsp_err err;
};

static void run_look(struct hsp_app_task *w)
{
    struct look *l = (struct look *)w;
    l->status = hsp_store_clean(l->store, &l->found, &l->err);
}

static void done_look(struct hsp_app_task *w)
{
    struct look *l = (struct look *)w;
    struct hsp_app *a = w->app;
    char text[HSP_DAMAGE_TEXT];
    hsp_store_damage_text(&l->found, text);
    if (l->found.events + l->found.metrics > 0) {
        tell_damage(a, text);
    }
    if (l->status == HSP_EDIGEST) {
        hsp_app_damaged(a, l->err.msg);
    } else if (l->status != HSP_OK) {
        hsp_log(a->log, HSP_LOG_WARN, "feed", "not all lines were checked: %s", l->err.msg);
    }
    free(l);
}

void hsp_app_feed_check(struct hsp_app *a)
{
    struct look *l = calloc(1, sizeof *l);
    if (a->rebuilt.failed) {
        hsp_app_damaged(a, a->rebuilt.text);
    } else if (a->rebuilt.text[0] != '\0') {
        tell_damage(a, a->rebuilt.text);
    }
    if (l == NULL) {
        return; /* readers leave out damaged lines all the same */
    }
    l->work.run = run_look;
    l->work.done = done_look;
    l->store = a->store;
    if (!hsp_app_queue(a, &l->work)) {
        free(l);
    }
}

void hsp_app_feed_free(struct hsp_app *a)
{
    free_rows(a->feed_head);
    a->feed_head = a->feed_tail = NULL;
}
