#include "daemon/app/api/admin_queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/api/pending_requests.h"
#include "daemon/app/docs/plan_doc.h"
#include "daemon/app/plans/plan_choice.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/job_table.h"
#include "daemon/app/state/sessions.h"
#include "daemon/app/state/tasks.h"
#include "daemon/app/store/event_line.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/str.h"
#include "proto/program/program_dump.h"

#define COPY_CAP ((size_t)160 << 20) /* a submit with its files */
#define ANSWER   HSP_MSG_BLOB_MAX

struct query {
    struct hsp_app_task work;
    uint32_t conn;
    char actor[96];
    struct hsp_arena *arena; /* of the copy and of scratch */
    struct hsp_msg msg;
    struct hsp_store *store;
    size_t mem_cap;
    struct hsp_job_rec *rec;      /* counted */
    uint32_t job;                 /* whose record it is, 0 none */
    struct hsp_plan_rec *plan;    /* PROGRAM: counted */
    struct hsp_plan_question *q;  /* SUBMIT, PLAN: the devices there are, without a job yet */
    struct hsp_plan_answer found; /* their prediction */
    char *plan_json;
    struct hsp_buf answer;
    const char *tail; /* CKPT list: lines that follow, in the arena */
    enum hsp_status status;
    struct hsp_err err;
};

static void query_free(struct query *x)
{
    cJSON_free(x->plan_json);
    (void)hsp_plan_question_free(x->q);
    (void)hsp_plan_rec_unref(x->plan);
    (void)hsp_job_rec_unref(x->rec);
    hsp_buf_fini(&x->answer);
    (void)hsp_arena_free(x->arena);
    free(x);
}

/* ---- on the pool thread ---- */

/* The job would wait: the answer to a request for the prediction alone. */
static void too_few(struct query *x, uint32_t n)
{
    const struct hsp_job_spec *s = x->rec->spec;
    x->status = n == 0
                    ? hsp_err_set(&x->err, HSP_ENODEV, 0,
                                  "no worker is connected; start hspmd-worker on the nodes")
                    : hsp_err_set(&x->err, HSP_ENODEV, 0,
                                  "job %s would wait for %u device%s (resources.min); %u %s there",
                                  s->name, s->min, hsp_s(s->min), n, n == 1 ? "is" : "are");
}

/* Predicts on all devices, also those of other jobs; nothing where the job waits for more. Not
 * feasible is an error when more of the same would not help (the job's max is reached), or when
 * only the prediction was asked for. */
static void predict(struct query *x, bool dry)
{
    struct hsp_plan_question *q = x->q;
    if (q->cluster.n == 0 || q->cluster.n < x->rec->spec->min) {
        if (dry) {
            too_few(x, q->cluster.n);
        }
        return;
    }
    q->rec = hsp_job_rec_ref(x->rec);
    q->copies = x->rec->spec->copies;
    q->max_devices = x->rec->spec->max;
    hsp_plan_work(q, false, &x->found);
    if (x->found.status == HSP_OK) {
        x->plan_json = hsp_plan_doc(x->rec, &q->cluster, &x->found.planned, x->found.reason);
    } else if (dry || (x->found.status == HSP_EINFEASIBLE && q->cluster.n >= q->max_devices)) {
        x->status = hsp_err_set(&x->err, x->found.status, 0, "%s", x->found.reason);
    }
}

static void do_submit(struct query *x)
{
    const struct hsp_m_submit *s = &x->msg.u.submit;
    bool dry = x->msg.type == HSP_MSG_PLAN || s->dry_run;
    x->status = hsp_job_rec_make(s->file, (const char *)x->msg.blob, x->msg.blob_len, s->n_files,
                                 s->files, &x->rec, &x->err);
    if (x->status == HSP_EINVAL) {
        x->status = HSP_EPARSE; /* any mistake is in the files */
    }
    if (x->status == HSP_OK) {
        predict(x, dry);
    }
    if (x->status == HSP_OK && dry) {
        hsp_buf_puts(&x->answer, x->plan_json != NULL ? x->plan_json : "");
    }
}

static void do_program(struct query *x)
{
    const struct hsp_epoch_plan *p;
    const char *what = x->msg.u.query.what;
    uint64_t first = 0, end;
    if (strcmp(what, "plan") == 0) {
        hsp_buf_puts(&x->answer, x->plan->text);
        return;
    }
    x->status = hsp_plan_rec_build(x->plan, x->mem_cap, &p, &x->err);
    if (x->status != HSP_OK) {
        return;
    }
    end = p->programs.n;
    if (what[0] != '\0') {
        if (!hsp_parse_u64(what, &first) || first >= end) {
            x->status = hsp_err_set(&x->err, HSP_ENOENT, 0, "no rank %s, the plan has %u", what,
                                    p->programs.n);
            return;
        }
        end = first + 1;
    }
    for (uint64_t r = first; r < end; r++) {
        hsp_program_file_dump(&p->programs, (uint32_t)r, &x->answer);
    }
}

/* The graph of a job, or its file as hspmdd keeps it (HSP_JOB_DEFAULTS). */
static void do_graph(struct query *x)
{
    if (strcmp(x->msg.u.query.what, "job") == 0) {
        hsp_buf_append(&x->answer, x->rec->text, x->rec->len);
    } else {
        hsp_graph_dump(x->rec->graph, &x->answer);
    }
}

static void take_ckpt(void *arg, uint64_t number, uint64_t epoch, const char *json)
{
    struct query *x = arg;
    (void)number;
    (void)epoch;
    if (hsp_feed_of_ckpt(json)) {
        hsp_buf_puts(&x->answer, json);
        hsp_buf_puts(&x->answer, "\n");
    }
}

static void run_query(struct hsp_app_task *w)
{
    struct query *x = (struct query *)w;
    switch (x->msg.type) {
    case HSP_MSG_SUBMIT:
    case HSP_MSG_PLAN: do_submit(x); break;
    case HSP_MSG_PROGRAM: do_program(x); break;
    case HSP_MSG_GRAPH: do_graph(x); break;
    default:
        x->status =
            hsp_store_events(x->store, x->job, 0, HSP_STORE_EVENTS_MAX, take_ckpt, x, &x->err);
        hsp_buf_puts(&x->answer, x->tail);
        break;
    }
    if (x->status == HSP_OK && x->answer.failed) {
        x->status = hsp_err_set(&x->err, HSP_ELIMIT, 0,
                                "the text is longer than a message may be; ask for one rank");
    }
}

/* ---- on the loop ---- */

static void submit_to_core(struct hsp_app *a, struct query *x)
{
    const struct hsp_job_spec *s = x->rec->spec;
    const struct hsp_job *old = hsp_cluster_job_by_name(a->cluster, s->name);
    if (old != NULL && !hsp_job_terminal(old->state) && !hsp_ci_not_adopted(old)) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "a job named %s is already %s; cancel it or choose another name", s->name,
                       hsp_job_state_name(old->state));
        hsp_app_reply(a, x->conn, x->msg.request, HSP_ESTATE, text, NULL, 0, false);
        return;
    }
    struct hsp_admin_event ev = {.verb = HSP_ADMIN_SUBMIT,
                                 .spec = {.name = s->name,
                                          .priority = (int32_t)s->priority,
                                          .min = s->min,
                                          .max = s->max,
                                          .copies = s->copies,
                                          .steps = s->train.hyper.steps,
                                          .checkpoint_every = s->ckpt_every_steps,
                                          .data_path = s->data_path,
                                          .checkpoint_path = s->ckpt_path,
                                          .checkpoint_shared = s->ckpt_shared,
                                          .checkpoint_keep = s->ckpt_keep}};
    char *plan = x->plan_json;
    x->plan_json = NULL;
    hsp_app_admin(a, x->conn, x->msg.request, x->actor, &ev, hsp_job_rec_ref(x->rec), plan);
    if (ev.request != 0 && x->found.status != HSP_OK) {
        struct hsp_pending *p = a->pending; /* the newest is the first */
        hsp_str_printf(p->no_plan, sizeof p->no_plan, "%s", x->found.reason);
    }
}

static void done_query(struct hsp_app_task *w)
{
    struct query *x = (struct query *)w;
    struct hsp_app *a = w->app;
    if (!a->closing && !a->failed) {
        if (x->status == HSP_OK && x->msg.type == HSP_MSG_SUBMIT && !x->msg.u.submit.dry_run) {
            submit_to_core(a, x);
        } else {
            hsp_app_reply(a, x->conn, x->msg.request, x->status, x->err.msg,
                          (const char *)x->answer.data, x->answer.len, false);
        }
    }
    query_free(x);
}

/* The devices that may get work: as many as can be planned. */
static enum hsp_status snapshot(struct hsp_app *a, struct query *x)
{
    uint32_t n = 0;
    hsp_device_id *dev =
        hsp_arena_array(x->arena, (size_t)a->cluster->n_nodes * HSP_NODE_DEVICES, sizeof *dev);
    if (dev == NULL) {
        return hsp_err_nomem(&x->err, "the devices to plan for");
    }
    for (uint32_t i = 0; i < a->cluster->n_nodes; i++) {
        const struct hsp_cluster_node *node = &a->cluster->nodes[i];
        for (uint32_t d = 0; d < HSP_NODE_DEVICES && n < HSP_MAX_DEVICES; d++) {
            if (hsp_cluster_offers(node, d) && !node->dev[d].replica_holder) {
                dev[n++] = HSP_DEVICE(i, d);
            }
        }
    }
    struct hsp_plan_request r = {.n_devices = n, .devices = dev};
    return hsp_plan_question_new(a->cluster, NULL, &r, x->mem_cap, &x->q, &x->err);
}

static enum hsp_status find_job(struct hsp_app *a, struct query *x)
{
    const char *name = x->msg.u.query.name;
    const struct hsp_job *core;
    if (hsp_cluster_job_called(a->cluster, name, &core, &x->err) != HSP_OK) {
        return x->err.code;
    }
    struct hsp_app_job *j = hsp_app_job_find(a, core->id);
    const char *fault = hsp_app_job_fault(a, core->id);
    if (fault != NULL) {
        return hsp_err_set(&x->err, HSP_ESTATE, 0, "job %s: %s", name, fault);
    }
    if (j == NULL) {
        return hsp_err_set(&x->err, HSP_ENOENT, 0, "no job %s; hspmdctl status shows all", name);
    }
    x->rec = hsp_job_rec_ref(j->rec);
    x->job = core->id;
    if (x->msg.type == HSP_MSG_PROGRAM) {
        struct hsp_plan_rec *p = hsp_app_plan_find(j, core->cur.plan);
        p = p != NULL ? p : hsp_app_plan_find(j, core->att.plan);
        if (p == NULL) {
            return hsp_err_set(&x->err, HSP_ESTATE, 0, "job %s is %s and has no plan", name,
                               hsp_job_state_name(core->state));
        }
        x->plan = hsp_plan_rec_ref(p);
    }
    return HSP_OK;
}

void hsp_app_query(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                   const char *tail)
{
    struct query *x = calloc(1, sizeof *x);
    if (x == NULL || (x->arena = hsp_arena_new(COPY_CAP)) == NULL) {
        free(x);
        hsp_app_reply(a, cl->conn, m->request, HSP_ENOMEM, "out of memory", NULL, 0, false);
        return;
    }
    x->work.run = run_query;
    x->work.done = done_query;
    x->conn = cl->conn;
    x->store = a->store;
    x->mem_cap = a->cfg->planner_memory;
    (void)snprintf(x->actor, sizeof x->actor, "%s", cl->name);
    hsp_buf_init(&x->answer, ANSWER);
    x->tail = hsp_arena_strdup(x->arena, tail);
    enum hsp_status st = x->tail != NULL ? hsp_msg_clone(m, x->arena, &x->msg, &x->err)
                                         : hsp_err_nomem(&x->err, "a request");
    if (st == HSP_OK) {
        st = m->type == HSP_MSG_SUBMIT || m->type == HSP_MSG_PLAN ? snapshot(a, x) : find_job(a, x);
    }
    if (st == HSP_OK && !hsp_app_queue(a, &x->work)) {
        st = hsp_err_set(&x->err, HSP_ENOMEM, 0, "no thread for the request");
    }
    if (st != HSP_OK) {
        hsp_app_reply(a, cl->conn, m->request, st, x->err.msg, NULL, 0, false);
        query_free(x);
    }
}
