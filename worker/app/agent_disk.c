#include "worker/app/agent_disk.h"

#include <stdlib.h>

#include "worker/app/agent_shell.h"
#include "worker/app/incarnation_file.h"
#include "worker/state/kept.h"
#include "worker/state/segment_name.h"

struct hsp_agent_task {
    uv_work_t work;
    struct hsp_agent_shell *shell;
    struct hsp_agent_task *next;
    enum { SCAN, DISCARD, REMEMBER } what;
    uint64_t scan;
    uint32_t job, device;
    uint64_t keep_plan;
    struct hsp_digest incarnation;
    enum hsp_status st;
    struct hsp_err err;
    struct hsp_m_holding *holdings;
    struct hsp_m_kept *kept;
    uint32_t n, n_kept;
};

static void on_pool(uv_work_t *w)
{
    struct hsp_agent_task *t = w->data;
    const char *dir = t->shell->dir;
    switch (t->what) {
    case SCAN:
        t->st = hsp_segname_scan(dir, &t->holdings, &t->n, &t->err);
        t->st = t->st == HSP_OK ? hsp_kept_scan(dir, &t->kept, &t->n_kept, &t->err) : t->st;
        break;
    case DISCARD: t->st = hsp_segname_discard(dir, t->job, t->device, t->keep_plan, &t->err); break;
    case REMEMBER: t->st = hsp_incarnation_write(dir, t->incarnation, &t->err); break;
    }
}

static void start_first(struct hsp_agent_shell *s);

static void on_done(uv_work_t *w, int status)
{
    struct hsp_agent_task *t = w->data;
    struct hsp_agent_shell *s = t->shell;
    s->task = t->next;
    s->last_task = s->task != NULL ? s->last_task : NULL;
    start_first(s);
    if (status == 0 && t->what == SCAN && t->st == HSP_ENOMEM) {
        hsp_agent_fail(s, &t->err); /* what is here is not known: the next agent may find it */
    } else if (status == 0 && t->st != HSP_OK) {
        /* A scan that fails is answered all the same: without holdings, what is here does not
         * count. */
        hsp_log(s->log, HSP_LOG_ERROR, "agent", "%s: %s",
                t->what == REMEMBER ? "the incarnation of this node" : "state segments",
                t->err.msg);
    }
    if (t->what == SCAN && !s->ending) {
        struct hsp_agent_event ev = {.type = HSP_AEV_SCANNED,
                                     .scan = t->scan,
                                     .n = t->n,
                                     .holdings = t->holdings,
                                     .n_kept = t->n_kept,
                                     .kept = t->kept};
        hsp_agent_deliver(s, &ev);
    }
    free(t->holdings);
    free(t->kept);
    free(t);
}

static void start_first(struct hsp_agent_shell *s)
{
    if (s->task != NULL) {
        (void)uv_queue_work(&s->loop, &s->task->work, on_pool,
                            on_done); /* fails only without a call */
    }
}

static void add(struct hsp_agent_shell *s, const struct hsp_agent_task *what)
{
    struct hsp_agent_task *t = malloc(sizeof *t);
    if (t == NULL) {
        struct hsp_err err = {0};
        (void)hsp_err_nomem(&err, "a task on disk");
        hsp_agent_fail(s, &err);
        return;
    }
    *t = *what;
    t->shell = s;
    t->work.data = t;
    if (s->task == NULL) {
        s->task = s->last_task = t;
        start_first(s);
    } else {
        s->last_task->next = t;
        s->last_task = t;
    }
}

void hsp_agent_scan(struct hsp_agent_shell *s, uint64_t scan)
{
    struct hsp_agent_task t = {.what = SCAN, .scan = scan};
    add(s, &t);
}

void hsp_agent_discard(struct hsp_agent_shell *s, uint32_t job, uint32_t device, uint64_t keep_plan)
{
    struct hsp_agent_task t = {
        .what = DISCARD, .job = job, .device = device, .keep_plan = keep_plan};
    add(s, &t);
}

void hsp_agent_remember(struct hsp_agent_shell *s, struct hsp_digest incarnation)
{
    struct hsp_agent_task t = {.what = REMEMBER, .incarnation = incarnation};
    add(s, &t);
}

void hsp_agent_drop_tasks(struct hsp_agent_shell *s)
{
    if (s->task == NULL) {
        return;
    }
    for (struct hsp_agent_task *t = s->task->next, *next; t != NULL; t = next) {
        next = t->next;
        free(t);
    }
    s->task->next = NULL;
    s->last_task = s->task;
}
