#include "daemon/app/state/job_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/tasks.h"
#include "daemon/cluster/ckpt_cuts.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define RECALLED 64u /* newest steps read back: more than a job makes before it has diverged */

struct hsp_app_job *hsp_app_job_find(struct hsp_app *a, uint32_t id)
{
    for (size_t i = 0; i < a->n_jobs; i++) {
        if (a->jobs[i].id == id) {
            return &a->jobs[i];
        }
    }
    return NULL;
}

struct hsp_app_job *hsp_app_job_add(struct hsp_app *a, uint32_t id, struct hsp_job_rec *rec)
{
    if (!hsp_grow(&a->jobs, &a->cap_jobs, a->n_jobs + 1, sizeof *a->jobs, HSP_MAX_JOBS + 1)) {
        (void)hsp_job_rec_unref(rec);
        return NULL;
    }
    struct hsp_app_job *j = &a->jobs[a->n_jobs++];
    *j = (struct hsp_app_job){.id = id, .rec = rec};
    return j;
}

static void job_fini(struct hsp_app_job *j)
{
    for (size_t i = 0; i < j->n_plans; i++) {
        (void)hsp_plan_rec_unref(j->plans[i].rec);
    }
    (void)hsp_plan_rec_unref(j->result);
    (void)hsp_job_rec_unref(j->rec);
    free(j->plans);
    free(j->epochs);
    free(j->measured);
}

void hsp_app_job_remove(struct hsp_app *a, uint32_t id)
{
    struct hsp_app_job *j = hsp_app_job_find(a, id);
    if (j != NULL) {
        job_fini(j);
        size_t at = (size_t)(j - a->jobs);
        memmove(j, j + 1, (a->n_jobs - at - 1) * sizeof *j);
        a->n_jobs--;
    }
    for (size_t i = 0; i < a->n_unreadable; i++) {
        if (a->unreadable[i].id == id) {
            a->unreadable[i] = a->unreadable[--a->n_unreadable];
        }
    }
}

void hsp_app_jobs_free(struct hsp_app *a)
{
    for (size_t i = 0; i < a->n_jobs; i++) {
        job_fini(&a->jobs[i]);
    }
    free(a->jobs);
    free(a->unreadable);
    a->jobs = NULL;
    a->unreadable = NULL;
    a->n_jobs = a->n_unreadable = 0;
}

const char *hsp_app_job_name(struct hsp_app *a, uint32_t id)
{
    const struct hsp_app_job *j = id != 0 ? hsp_app_job_find(a, id) : NULL;
    const struct hsp_job *core = j == NULL ? hsp_cluster_job(a->cluster, id) : NULL;
    return j != NULL ? j->rec->spec->name : core != NULL ? core->name : "";
}

const char *hsp_app_job_fault(const struct hsp_app *a, uint32_t id)
{
    for (size_t i = 0; i < a->n_unreadable; i++) {
        if (a->unreadable[i].id == id) {
            return a->unreadable[i].why;
        }
    }
    return NULL;
}

struct hsp_plan_rec *hsp_app_plan_find(struct hsp_app_job *j, uint64_t no)
{
    for (size_t i = 0; no != 0 && i < j->n_plans; i++) {
        if (j->plans[i].no == no) {
            return j->plans[i].rec;
        }
    }
    return NULL;
}

bool hsp_app_plan_add(struct hsp_app_job *j, uint64_t no, struct hsp_plan_rec *rec)
{
    if (!hsp_grow(&j->plans, &j->cap_plans, j->n_plans + 1, sizeof *j->plans, 65536)) {
        (void)hsp_plan_rec_unref(rec);
        return false;
    }
    j->plans[j->n_plans++] = (struct hsp_app_plan){no, rec};
    return true;
}

void hsp_app_plan_drop(struct hsp_app_job *j, uint64_t no)
{
    for (size_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].no == no) {
            (void)hsp_plan_rec_unref(j->plans[i].rec);
            memmove(&j->plans[i], &j->plans[i + 1], (j->n_plans - i - 1) * sizeof *j->plans);
            j->n_plans--;
            return;
        }
    }
}

void hsp_app_epoch_add(struct hsp_app_job *j, const struct hsp_epoch_line *l)
{
    if (j->n_epochs == HSP_APP_EPOCHS) {
        memmove(j->epochs, j->epochs + 1, (j->n_epochs - 1) * sizeof *j->epochs);
        j->n_epochs--;
    }
    if (hsp_grow(&j->epochs, &j->cap_epochs, j->n_epochs + 1, sizeof *j->epochs, HSP_APP_EPOCHS)) {
        j->epochs[j->n_epochs++] =
            *l; /* without memory the table is shorter; nothing depends on it */
    }
}

/* ---- reports of steps ---- */

const struct hsp_m_step *hsp_app_job_newest(const struct hsp_app_job *j, const struct hsp_job *core)
{
    bool any = j != NULL && j->have_step && hsp_ci_metrics_count(core, j->step_epoch, j->step.step);
    return any ? &j->step : NULL;
}

bool hsp_app_job_diverges(const struct hsp_app_job *j, const struct hsp_job *core,
                          uint64_t *ret_from)
{
    bool does =
        j != NULL && j->diverged && hsp_ci_metrics_count(core, j->diverged_epoch, j->diverged_from);
    *ret_from = does ? j->diverged_from : 0;
    return does;
}

static void judge(struct hsp_app_job *j, const struct hsp_job *core, uint64_t epoch,
                  const struct hsp_m_step *s)
{
    uint64_t from;
    bool bad = !isfinite(s->loss) || !isfinite(s->grad_norm);
    bool before = hsp_app_job_diverges(j, core, &from);
    if (bad && (!before || s->step < from)) {
        j->diverged = true;
        j->diverged_from = s->step;
        j->diverged_epoch = epoch;
    } else if (!bad && before && s->step >= from) {
        j->diverged = false;
    }
}

bool hsp_app_job_told(struct hsp_app_job *j, const struct hsp_job *core, uint64_t epoch,
                      const struct hsp_m_step *s)
{
    if (!hsp_ci_metrics_count(core, epoch, s->step)) {
        return false;
    }
    judge(j, core, epoch, s);
    if (j->have_step && epoch <= j->step_epoch &&
        (epoch < j->step_epoch || s->step < j->step.step)) {
        return false; /* said again after a reconnect */
    }
    const bool newer = !j->have_step || epoch > j->step_epoch || s->step > j->step.step;
    j->have_step = true;
    j->step = *s;
    j->step.compute_s = NULL;
    j->step.n_compute = 0;
    j->step_epoch = epoch;
    return newer;
}

/* ---- at the start ---- */

/* Lists the job as unreadable, for the reason that is in @err. */
static enum hsp_status set_aside(struct hsp_app *a, uint32_t id, const char *key,
                                 struct hsp_err *err)
{
    if (err->code == HSP_ENOMEM ||
        !hsp_grow(&a->unreadable, &a->cap_unreadable, a->n_unreadable + 1, sizeof *a->unreadable,
                  HSP_MAX_JOBS + 1)) {
        return hsp_err_wrap(err, "row %s", key);
    }
    hsp_app_job_remove(a, id);
    struct hsp_app_unreadable *u = &a->unreadable[a->n_unreadable++];
    u->id = id;
    hsp_str_printf(u->why, sizeof u->why, "stored row %s is not readable: %s", key, err->msg);
    *err = (struct hsp_err){0};
    return HSP_OK;
}

static enum hsp_status load_job(struct hsp_app *a, const struct hsp_cluster_row *row,
                                struct hsp_err *err)
{
    struct hsp_job_rec *rec;
    unsigned id = 0;
    if (sscanf(row->key, "app/job/%u", &id) != 1) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_job_rec_decode(row->value, row->len, &rec, err);
    if (st != HSP_OK) {
        return set_aside(a, id, row->key, err);
    }
    return hsp_app_job_add(a, id, rec) != NULL ? HSP_OK : hsp_err_nomem(err, "a job");
}

static enum hsp_status load_plan(struct hsp_app *a, const struct hsp_cluster_row *row,
                                 struct hsp_err *err)
{
    struct hsp_plan_rec *rec;
    unsigned id = 0;
    uint64_t no = 0;
    if (sscanf(row->key, "app/plan/%u/%" SCNu64, &id, &no) != 2) {
        return HSP_OK;
    }
    struct hsp_app_job *j = hsp_app_job_find(a, id);
    if (j == NULL) {
        return HSP_OK; /* of a job that cannot be read, or is not there */
    }
    enum hsp_status st = hsp_plan_rec_decode(row->value, row->len, j->rec, &rec, err);
    if (st != HSP_OK) {
        return set_aside(a, id, row->key, err);
    }
    return hsp_app_plan_add(j, no, rec) ? HSP_OK : hsp_err_nomem(err, "a job");
}

enum hsp_status hsp_app_jobs_load(struct hsp_app *a, const struct hsp_cluster_row *rows, uint32_t n,
                                  struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        st = load_job(a, &rows[i], err);
    }
    for (uint32_t i = 0; st == HSP_OK && i < n; i++) {
        st = load_plan(a, &rows[i], err);
    }
    return st;
}

struct recall {
    struct hsp_app_job *job;
    const struct hsp_job *core;
};

static void recall_event(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    const struct recall *r = arg;
    struct hsp_epoch_line l;
    (void)number;
    (void)epoch;
    if (hsp_epoch_line_read(json, &l)) {
        hsp_app_epoch_add(r->job, &l);
    }
}

static void recall_metric(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    const struct recall *r = arg;
    cJSON *o = cJSON_Parse(json);
    struct hsp_m_step s = {.step = number};
    if (r->core != NULL && hsp_feed_number(o, "loss", &s.loss) &&
        hsp_feed_number(o, "seconds", &s.seconds)) {
        (void)hsp_feed_number(o, "grad_norm", &s.grad_norm); /* may be missing */
        (void)hsp_app_job_told(r->job, r->core, epoch, &s);
    }
    cJSON_Delete(o);
}

uint64_t hsp_app_job_step(struct hsp_app *a, const struct hsp_job *core)
{
    const struct hsp_app_job *j = hsp_app_job_find(a, core->id);
    bool runs = core->cur.epoch != 0;
    uint64_t least = runs && core->cur.step > core->stable ? core->cur.step : core->stable;
    bool newer = j != NULL && j->have_step && runs && j->step_epoch == core->cur.epoch &&
                 j->step.step > least;
    return newer ? j->step.step : least;
}

void hsp_app_jobs_recall(struct hsp_app *a)
{
    struct hsp_err err = {0};
    for (size_t i = 0; i < a->n_jobs; i++) {
        struct hsp_app_job *j = &a->jobs[i];
        const struct hsp_job *core = hsp_cluster_job(a->cluster, j->id);
        struct recall r = {j, core};
        uint64_t since = core != NULL && core->stable > RECALLED ? core->stable - RECALLED : 0;
        const char *name = j->rec->spec->name;
        enum hsp_status st =
            hsp_store_events(a->store, j->id, 0, HSP_STORE_EVENTS_MAX, recall_event, &r, &err);
        if (st == HSP_OK) {
            st = hsp_store_metrics(a->store, j->id, since, 2 * RECALLED, recall_metric, &r, &err);
        }
        if (st != HSP_OK) {
            hsp_log(a->log, HSP_LOG_WARN, "store", "history of %s is not shown: %s", name, err.msg);
        }
    }
}

/* ---- when the newest step is given up ---- */

struct look_back {
    struct hsp_app_task work;
    struct hsp_store *store;
    struct hsp_job core; /* its number and its cuts alone */
    uint64_t since;
    struct hsp_app_job found; /* facts that its steps alone tell */
    enum hsp_status status;
};

/* Reads the newest steps of the job from the store. After an error there is no loss to show until
 * the next step is reported. */
static void run_look_back(struct hsp_app_task *w)
{
    struct look_back *l = (struct look_back *)w;
    struct recall r = {&l->found, &l->core};
    struct hsp_err err = {0};
    l->status =
        hsp_store_metrics(l->store, l->core.id, l->since, 2 * RECALLED, recall_metric, &r, &err);
}

static void done_look_back(struct hsp_app_task *w)
{
    struct look_back *l = (struct look_back *)w;
    struct hsp_app_job *j = hsp_app_job_find(w->app, l->core.id), *f = &l->found;
    const struct hsp_job *core = hsp_cluster_job(w->app->cluster, l->core.id);
    bool wanted = j != NULL && core != NULL && hsp_app_job_newest(j, core) == NULL;
    bool found = wanted && l->status == HSP_OK && hsp_app_job_newest(f, core) != NULL;
    uint64_t from;
    if (found) {
        j->step = f->step;
        j->step_epoch = f->step_epoch;
    }
    if (found && !hsp_app_job_diverges(j, core, &from)) { /* else from an earlier step on */
        j->diverged = f->diverged;
        j->diverged_from = f->diverged_from;
        j->diverged_epoch = f->diverged_epoch;
    }
    free(l);
}

void hsp_app_job_look_back(struct hsp_app *a, struct hsp_app_job *j, const struct hsp_job *core)
{
    bool due = j->have_step && j->looked_back != core->begun && hsp_app_job_newest(j, core) == NULL;
    struct look_back *l = due ? calloc(1, sizeof *l) : NULL;
    if (l == NULL) {
        return;
    }
    j->looked_back = core->begun;
    l->work.run = run_look_back;
    l->work.done = done_look_back;
    l->store = a->store;
    l->core.id = core->id;
    l->core.cuts = core->cuts;
    l->since = core->stable > RECALLED ? core->stable - RECALLED : 0;
    if (!hsp_app_queue(a, &l->work)) {
        free(l);
    }
}
