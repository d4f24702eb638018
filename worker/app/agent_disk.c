#include "worker/app/agent_disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "worker/app/agent_shell.h"
#include "worker/app/incarnation_file.h"
#include "worker/state/kept.h"
#include "worker/state/papers_file.h"
#include "worker/state/segment_name.h"
#include "worker/state/segment_spare.h"

struct hsp_agent_task {
    uv_work_t work;
    struct hsp_agent_shell *shell;
    struct hsp_agent_task *next;
    enum { SCAN, DISCARD, REMEMBER, KEEP_PAPERS, DROP_PAPERS, READ_PAPERS, MEASURE } what;
    uint64_t scan;
    uint32_t job, device;
    uint64_t keep_plan;
    struct hsp_digest incarnation;
    enum hsp_status st;
    struct hsp_err err;
    struct hsp_m_holding *holdings;
    struct hsp_m_kept *kept;
    uint32_t n, n_kept;
    uint8_t *papers; /* owned */
    size_t n_papers;
    bool kept_more;
    uint64_t folder_free; /* of SCAN and MEASURE */
};

static void task_free(struct hsp_agent_task *t)
{
    free(t->holdings);
    free(t->kept);
    free(t->papers);
    free(t);
}

/* Returns 0 where the room is not known, and 1 for a full folder. Spares make room for others. */
static uint64_t folder_free(const char *dir)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0) {
        return 0;
    }
    uint64_t n = (uint64_t)fs.f_bavail * fs.f_frsize + hsp_spare_bytes(dir);
    return n > 0 ? n : 1;
}

static void on_pool(uv_work_t *w)
{
    struct hsp_agent_task *t = w->data;
    const char *dir = t->shell->dir;
    switch (t->what) {
    case SCAN:
        t->st = hsp_segname_scan(dir, &t->holdings, &t->n, &t->err);
        if (t->st == HSP_OK) {
            t->st = hsp_kept_scan(dir, &t->kept, &t->n_kept, &t->kept_more, &t->err);
        }
        break;
    case DISCARD: t->st = hsp_segname_discard(dir, t->job, t->device, t->keep_plan, &t->err); break;
    case REMEMBER: t->st = hsp_incarnation_write(dir, t->incarnation, &t->err); break;
    case KEEP_PAPERS:
        t->st = hsp_papers_file_write(dir, t->job, t->papers, t->n_papers, &t->err);
        break;
    case DROP_PAPERS: t->st = hsp_kept_tidy_job(dir, t->job, &t->err); break;
    case READ_PAPERS:
        t->st = hsp_papers_file_read(dir, t->job, &t->papers, &t->n_papers, &t->err);
        break;
    case MEASURE: break;
    }
    if (t->what == SCAN || t->what == MEASURE) {
        t->folder_free = folder_free(dir);
    }
}

static void complain(const struct hsp_agent_task *t)
{
    static const char *const of[] = {[SCAN] = "state segments",
                                     [DISCARD] = "state segments",
                                     [REMEMBER] = "the incarnation of this node",
                                     [KEEP_PAPERS] = "job record, without which a job can be "
                                                     "adopted from its other nodes only",
                                     [DROP_PAPERS] = "job record of a job that is over here",
                                     [READ_PAPERS] = "job record"};
    hsp_log(t->shell->log, HSP_LOG_ERROR, "agent", "%s: %s", of[t->what], t->err.msg);
}

/* The papers that an hspmdd has asked for. */
static void tell_papers(struct hsp_agent_shell *s, const struct hsp_agent_task *t)
{
    bool have = t->st == HSP_OK;
    struct hsp_msg m = {.type = HSP_MSG_PAPERS,
                        .blob = have ? t->papers : NULL,
                        .blob_len = have ? (uint32_t)t->n_papers : 0,
                        .u.papers = {.job = t->job,
                                     .what = have ? HSP_PAPERS_TOLD : HSP_PAPERS_NONE,
                                     .reason = have ? "" : t->err.msg}};
    struct hsp_agent_event ev = {.type = HSP_AEV_PAPERS, .msg = &m};
    hsp_agent_deliver(s, &ev);
}

static void start_first(struct hsp_agent_shell *s);

static void on_done(uv_work_t *w, int status)
{
    struct hsp_agent_task *t = w->data;
    struct hsp_agent_shell *s = t->shell;
    s->task = t->next;
    s->last_task = s->task != NULL ? s->last_task : NULL;
    start_first(s);
    if (t->what == SCAN || t->what == MEASURE) {
        s->folder_free = t->folder_free;
        s->measures = s->measures && t->what != MEASURE;
    }
    if (status == 0 && t->what == SCAN && t->st != HSP_OK) {
        (void)hsp_err_wrap(&t->err,
                           "the state folder cannot be read, so this node does not know its state");
        hsp_agent_fail(s, &t->err);
    } else if (status == 0 && t->st != HSP_OK) {
        complain(t);
    }
    if (t->what == READ_PAPERS && !s->ending) {
        tell_papers(s, t);
    }
    if (t->what == SCAN && t->st == HSP_OK && !s->ending) {
        struct hsp_agent_event ev = {.type = HSP_AEV_SCANNED,
                                     .scan = t->scan,
                                     .n = t->n,
                                     .holdings = t->holdings,
                                     .n_kept = t->n_kept,
                                     .kept = t->kept,
                                     .kept_more = t->kept_more};
        hsp_agent_deliver(s, &ev);
    }
    task_free(t);
}

static void start_first(struct hsp_agent_shell *s)
{
    if (s->task != NULL) {
        (void)uv_queue_work(&s->loop, &s->task->work, on_pool,
                            on_done); /* fails only without a call */
    }
}

/* Takes over what->papers. */
static void add(struct hsp_agent_shell *s, const struct hsp_agent_task *what)
{
    struct hsp_agent_task *t = malloc(sizeof *t);
    if (t == NULL) {
        free(what->papers);
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

void hsp_agent_measure_folder(struct hsp_agent_shell *s)
{
    struct hsp_agent_task t = {.what = MEASURE};
    if (!s->measures) {
        s->measures = true;
        add(s, &t);
    }
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

void hsp_agent_keep_papers(struct hsp_agent_shell *s, const struct hsp_msg *m)
{
    struct hsp_agent_task t = {.what = KEEP_PAPERS,
                               .job = m->u.papers.job,
                               .papers = malloc((size_t)m->blob_len + 1),
                               .n_papers = m->blob_len};
    if (t.papers == NULL) {
        struct hsp_err err = {0};
        (void)hsp_err_nomem(&err, "the record of job %" PRIu32, t.job);
        hsp_agent_fail(s, &err);
        return;
    }
    if (m->blob_len > 0) {
        memcpy(t.papers, m->blob, m->blob_len);
    }
    add(s, &t);
}

void hsp_agent_drop_papers(struct hsp_agent_shell *s, uint32_t job)
{
    struct hsp_agent_task t = {.what = DROP_PAPERS, .job = job};
    add(s, &t);
}

void hsp_agent_read_papers(struct hsp_agent_shell *s, uint32_t job)
{
    struct hsp_agent_task t = {.what = READ_PAPERS, .job = job};
    add(s, &t);
}

void hsp_agent_drop_tasks(struct hsp_agent_shell *s)
{
    if (s->task == NULL) {
        return;
    }
    for (struct hsp_agent_task *t = s->task->next, *next; t != NULL; t = next) {
        next = t->next;
        task_free(t);
    }
    s->task->next = NULL;
    s->last_task = s->task;
}
