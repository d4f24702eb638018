#include "daemon/app/perform/plan_queue.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/app/plans/plan_choice.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/tasks.h"
#include "proto/base/str.h"

#define PLANS 4 /* planning runs at a time; the pool has threads left for the store */

struct hsp_planning {
    struct hsp_app_task work;
    struct hsp_planning *next;   /* in the app's list */
    struct hsp_plan_question *q; /* NULL: could not be asked, the answer says why */
    uint32_t job;
    uint64_t ticket;
    bool urgent, running, cancelled;
    double solve_s;
    struct hsp_plan_answer answer;
};

static void run_planning(struct hsp_app_task *w)
{
    struct hsp_planning *p = (struct hsp_planning *)w;
    if (p->q != NULL) {
        uint64_t begin = uv_hrtime();
        hsp_plan_work(p->q, true, &p->answer);
        p->solve_s = (double)(uv_hrtime() - begin) * 1e-9;
    }
}

static void planning_free(struct hsp_planning *p)
{
    (void)hsp_plan_rec_unref(p->answer.plan);
    (void)hsp_plan_question_free(p->q);
    free(p);
}

static void unlink_planning(struct hsp_app *a, struct hsp_planning *p)
{
    struct hsp_planning **at = &a->plannings;
    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
}

/* The answer stays with the job until KEEP_PLAN takes it or the next one comes (W3). */
static void tell_core(struct hsp_app *a, struct hsp_planning *p)
{
    struct hsp_app_job *j = hsp_app_job_find(a, p->job);
    const struct hsp_plan_info *info = NULL;
    if (j != NULL && p->answer.plan != NULL) {
        (void)hsp_plan_rec_unref(j->result);
        j->result = hsp_plan_rec_ref(p->answer.plan);
        j->result_ticket = p->ticket;
        info = &p->answer.plan->built->info; /* built by the planning thread, which has ended */
    }
    struct hsp_event ev = {.type = HSP_EV_PLAN_DONE,
                           .u.plan = {.job = p->job,
                                      .ticket = p->ticket,
                                      .status = p->answer.status,
                                      .keep = p->answer.keep,
                                      .tight = p->answer.tight,
                                      .reason = p->answer.reason,
                                      .info = info}};
    hsp_app_post(a, &ev, p->answer.plan);
}

static void done_planning(struct hsp_app_task *w)
{
    struct hsp_planning *p = (struct hsp_planning *)w;
    struct hsp_app *a = w->app;
    a->n_planning--;
    unlink_planning(a, p);
    if (!p->cancelled && !a->closing && !a->failed) {
        hsp_hist_add(&a->metrics.plan_solve_s, p->solve_s);
        tell_core(a, p); /* which may ask again, urgently: hsp_app_plan_next comes behind that */
    } else {
        hsp_app_plan_next(a);
    }
    planning_free(p);
}

void hsp_app_plan_next(struct hsp_app *a)
{
    for (int pass = 0; pass < 2 && !a->closing; pass++) { /* urgent ones, then the others */
        for (struct hsp_planning *p = a->plannings; p != NULL; p = p->next) {
            if (a->n_planning >= PLANS) {
                return;
            }
            if (!p->running && p->urgent == (pass == 0) && hsp_app_queue(a, &p->work)) {
                p->running = true;
                a->n_planning++;
            }
        }
    }
}

void hsp_app_plan_start(struct hsp_app *a, const struct hsp_plan_request *r)
{
    struct hsp_err err = {0};
    struct hsp_app_job *j = hsp_app_job_find(a, r->job);
    struct hsp_planning *p = calloc(1, sizeof *p);
    if (p == NULL) {
        (void)hsp_err_nomem(&err, "planning");
        hsp_app_fail(a, "a plan cannot be made", &err);
        return;
    }
    p->work.run = run_planning;
    p->work.done = done_planning;
    p->job = r->job;
    p->ticket = r->ticket;
    p->urgent = r->urgent;
    const char *fault = hsp_app_job_fault(a, r->job);
    p->answer.status =
        j == NULL
            ? hsp_err_set(&err, HSP_ENOENT, 0, "%s",
                          fault != NULL ? fault : "the job's files are not here")
            : hsp_plan_question_new(a->cluster, j->rec, r, a->cfg->planner_memory, &p->q, &err);
    if (p->answer.status != HSP_OK) {
        hsp_str_printf(p->answer.reason, sizeof p->answer.reason, "%s", err.msg);
    } else {
        struct hsp_plan_rec *current = hsp_app_plan_find(j, r->current_plan);
        p->q->current = current != NULL ? hsp_plan_rec_ref(current) : NULL;
        hsp_plan_measured(p->q, a->cluster, j->measured, j->n_measured,
                          hsp_work_rate(j->rec->graph));
    }
    p->next = a->plannings;
    a->plannings = p;
    hsp_app_plan_next(a);
}

/* Not started: gone at once. Running: told to stop, its answer is thrown away. */
static void cancel(struct hsp_app *a, struct hsp_planning *p)
{
    p->cancelled = true;
    if (p->q != NULL) {
        atomic_store(&p->q->cancel, true);
    }
    if (!p->running) {
        unlink_planning(a, p);
        planning_free(p);
    }
}

void hsp_app_plan_cancel(struct hsp_app *a, uint32_t job, uint64_t ticket)
{
    for (struct hsp_planning *p = a->plannings; p != NULL; p = p->next) {
        if (p->job == job && p->ticket == ticket) {
            cancel(a, p);
            return;
        }
    }
}

void hsp_app_plan_cancel_all(struct hsp_app *a)
{
    for (struct hsp_planning *p = a->plannings, *next; p != NULL; p = next) {
        next = p->next;
        cancel(a, p);
    }
}
