#include "daemon/app/api/ckpt_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/app/api/admin_queries.h"
#include "daemon/app/api/ckpt_answers.h"
#include "daemon/app/api/pending_requests.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"

#define LOOK_MS  10000 /* for nodes that are connected and do not answer */
#define STOPS_MS 100   /* between two looks whether the devices of a job have stopped */
#define STOP_MS  8000  /* for that, where the caller is told which have not: it waits 10 s */
#define WHY_MOST 200u  /* bytes of the reason why nodes could not look, for the core */

struct hsp_look {
    struct hsp_look *next;
    enum { FOR_CORE, FOR_RESUME, FOR_LIST, FOR_FORGET } why;
    uint32_t job;
    uint64_t number; /* of the question to the nodes */
    uint64_t ticket; /* FOR_CORE */
    uint32_t conn;   /* of the caller, as the next two */
    uint64_t request, step;
    char actor[96];
    bool waits;        /* nobody was asked: devices of the job still stop */
    bool stopping;     /* those devices did not stop in time; nobody is asked */
    hsp_msec until_ms; /* FOR_RESUME, FOR_FORGET: for so long at most */
    hsp_msec end_ms;
    struct hsp_ckpt_answers got;
};

static void look_free(struct hsp_look *x)
{
    hsp_ckpt_answers_free(&x->got);
    free(x);
}

void hsp_app_ckpts_free_all(struct hsp_app *a)
{
    while (a->looks != NULL) {
        struct hsp_look *x = a->looks;
        a->looks = x->next;
        look_free(x);
    }
}

static void take_off(struct hsp_app *a, const struct hsp_look *x)
{
    struct hsp_look **at = &a->looks;
    while (*at != NULL && *at != x) {
        at = &(*at)->next;
    }
    if (*at == x) {
        *at = x->next;
    }
}

/* ---- the questions ---- */

/* The checkpoints of @j that are on record, to be looked for by name; their number. */
static uint32_t on_record(const struct hsp_job *j, struct hsp_m_seen ret[HSP_OLDER_CKPTS + 1])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_older; i++) {
        ret[n++].step = j->older[i].step;
    }
    if (j->has_ckpt) {
        ret[n++].step = j->ckpt_step;
    }
    return n;
}

/* Asks those that are to be asked next. False: nobody is left, or needs to be asked. */
static bool ask(struct hsp_app *a, struct hsp_look *x)
{
    const struct hsp_job *j = hsp_cluster_job(a->cluster, x->job);
    struct hsp_m_seen seen[HSP_OLDER_CKPTS + 1] = {0};
    uint32_t i = x->got.n_asked;
    uint32_t n = j != NULL ? hsp_ckpt_answers_choose(&x->got, a->cluster, j) : 0;
    const uint32_t n_seen = n > 0 ? on_record(j, seen) : 0;
    for (; n > 0 && i < x->got.n_asked; i++) {
        struct hsp_msg m = {.type = HSP_MSG_CKPTS,
                            .u.ckpts = {.job = j->id,
                                        .number = x->number,
                                        .cluster = hsp_ci_ckpt_cluster(a->cluster, j),
                                        .name = j->name,
                                        .path = j->checkpoint_path,
                                        .n_seen = n_seen,
                                        .seen = seen,
                                        .damaged = "",
                                        .reason = ""}};
        if (hsp_ckpt_answers_conn(&x->got, i) != 0) {
            hsp_app_send(a, hsp_ckpt_answers_conn(&x->got, i), &m);
        }
    }
    /* without anybody: at the next turn of the loop, as this may be inside an action */
    x->end_ms = n > 0 ? hsp_app_now() + LOOK_MS : 0;
    return n > 0;
}

/* Asks when the devices of the job have stopped: before, they may write checkpoints and
 * delete older ones. Nobody is asked about a job that is to be forgotten. */
static void ask_stopped(struct hsp_app *a, struct hsp_look *x)
{
    const struct hsp_job *j = hsp_cluster_job(a->cluster, x->job);
    bool stops = j != NULL && hsp_ci_at_rest(j) && j->n_leases > 0;
    stops = stops && (x->why == FOR_RESUME || x->why == FOR_FORGET);
    x->waits = stops && hsp_app_now() < x->until_ms;
    x->stopping = stops && !x->waits;
    x->end_ms = x->waits ? hsp_app_now() + STOPS_MS : 0;
    if (!x->waits && !x->stopping && x->why != FOR_FORGET) {
        (void)ask(a, x);
    }
}

/* ---- the answers ---- */

static void tell_core(struct hsp_app *a, const struct hsp_look *x, const char *why)
{
    struct hsp_event e = {.type = HSP_EV_CKPTS,
                          .u.ckpts = {.job = x->job,
                                      .ticket = x->ticket,
                                      .n = x->got.n_seen,
                                      .seen = x->got.seen,
                                      .n_others = x->got.n_others,
                                      .why = why,
                                      .lack = hsp_ckpt_answers_lack(&x->got),
                                      .begun = x->got.begun,
                                      .mute = x->got.mute,
                                      .damaged = x->got.damaged}};
    hsp_app_post(a, &e, NULL);
}

static void resume(struct hsp_app *a, const struct hsp_look *x, const char *why)
{
    struct hsp_admin_event ev = {.verb = HSP_ADMIN_RESUME,
                                 .job = x->job,
                                 .has_step = true,
                                 .step = x->step,
                                 .stopping = x->stopping,
                                 .looked = !x->got.mute, /* else the record counts, too */
                                 .n_seen = x->got.n_seen,
                                 .seen = x->got.seen,
                                 .reason = why};
    hsp_app_admin(a, x->conn, x->request, x->actor, &ev, NULL, NULL);
}

static void forget(struct hsp_app *a, const struct hsp_look *x)
{
    struct hsp_admin_event ev = {.verb = HSP_ADMIN_FORGET, .job = x->job};
    hsp_app_admin(a, x->conn, x->request, x->actor, &ev, NULL, NULL);
}

static bool put_lines(struct hsp_app *a, const struct hsp_look *x, const struct hsp_job *j,
                      struct hsp_buf *out)
{
    const struct hsp_ckpt_lines l = {.job = j->name,
                                     .id = j->id,
                                     .seq = a->seq > 0 ? a->seq : 1,
                                     .unix_ms = hsp_app_unix_ms(),
                                     .of = j};
    return hsp_ckpt_answers_list(&x->got, &l, out);
}

static void list(struct hsp_app *a, const struct hsp_look *x)
{
    const struct hsp_caller *cl = hsp_app_client(a, x->conn);
    const struct hsp_job *j = hsp_cluster_job(a->cluster, x->job);
    struct hsp_buf text;
    if (cl == NULL) {
        return;
    }
    hsp_buf_init(&text, HSP_LIST_MAX);
    if (j == NULL) {
        hsp_app_reply(a, x->conn, x->request, HSP_ENOENT, "the job was forgotten meanwhile", NULL,
                      0, false);
    } else if (!put_lines(a, x, j, &text)) {
        hsp_app_reply(a, x->conn, x->request, HSP_ENOMEM, "out of memory", NULL, 0, false);
    } else {
        char number[16]; /* another job may have its name */
        (void)snprintf(number, sizeof number, "%" PRIu32, j->id);
        struct hsp_msg m = {.type = HSP_MSG_CKPT,
                            .request = x->request,
                            .u.query = {.name = number, .what = "list"}};
        hsp_app_query(a, cl, &m, hsp_buf_cstr(&text));
    }
    hsp_buf_fini(&text);
}

static void end(struct hsp_app *a, struct hsp_look *x)
{
    char why[WHY_MOST];
    if (x->got.n_asked > 0 && ask(a, x)) {
        return;
    }
    take_off(a, x);
    const struct hsp_job *j = hsp_cluster_job(a->cluster, x->job);
    if (x->why == FOR_CORE && j != NULL) {
        hsp_ckpt_answers_believe(&x->got, j);
    }
    hsp_ckpt_answers_fault(&x->got, why, sizeof why);
    switch (x->why) {
    case FOR_CORE: tell_core(a, x, why); break;
    case FOR_RESUME: resume(a, x, why); break;
    case FOR_LIST: list(a, x); break;
    case FOR_FORGET: forget(a, x); break;
    }
    look_free(x);
}

void hsp_app_ckpts_told(struct hsp_app *a, uint32_t conn, const struct hsp_msg *msg)
{
    const struct hsp_m_ckpts *m = &msg->u.ckpts;
    struct hsp_look *x = a->looks;
    while (x != NULL && (x->number != m->number || x->job != m->job)) {
        x = x->next;
    }
    if (x != NULL && hsp_ckpt_answers_take(&x->got, conn, m) && x->got.n_left == 0) {
        end(a, x);
    } /* else it comes too late, or was not asked */
}

void hsp_app_ckpts_gone(struct hsp_app *a, uint32_t conn)
{
    struct hsp_look *x = a->looks, *next;
    for (; x != NULL; x = next) {
        next = x->next;
        if (hsp_ckpt_answers_gone(&x->got, conn) && x->got.n_left == 0) {
            end(a, x);
        }
    }
}

void hsp_app_ckpts_check(struct hsp_app *a)
{
    struct hsp_look *x = a->looks, *next;
    for (; x != NULL; x = next) {
        next = x->next;
        if (hsp_app_now() < x->end_ms) {
            continue;
        }
        if (!x->waits) {
            end(a, x);
        } else if (hsp_app_client(a, x->conn) != NULL) {
            ask_stopped(a, x);
        } else {
            take_off(a, x);
            look_free(x);
        }
    }
}

hsp_msec hsp_app_ckpts_deadline(const struct hsp_app *a)
{
    hsp_msec best = UINT64_MAX;
    for (const struct hsp_look *x = a->looks; x != NULL; x = x->next) {
        best = x->end_ms < best ? x->end_ms : best;
    }
    return best;
}

/* ---- the callers ---- */

/* Begins one for job @job, a copy of @what. False: no memory, or too many. */
static bool begin(struct hsp_app *a, uint32_t job, const struct hsp_look *what)
{
    uint32_t n = 0;
    for (const struct hsp_look *x = a->looks; x != NULL; x = x->next) {
        n++;
    }
    struct hsp_look *x = n < HSP_LOOKS ? calloc(1, sizeof *x) : NULL;
    if (x == NULL || hsp_cluster_job(a->cluster, job) == NULL) {
        free(x);
        return false;
    }
    *x = *what;
    if (!hsp_ckpt_answers_begin(&x->got, a->cluster)) {
        free(x);
        return false;
    }
    x->job = job;
    x->number = ++a->look_number;
    x->next = a->looks;
    a->looks = x;
    ask_stopped(a, x);
    return true;
}

/* The core has asked anew for job @job: its earlier questions are not answered. */
static void overtaken(struct hsp_app *a, uint32_t job)
{
    struct hsp_look *x = a->looks, *next;
    for (; x != NULL; x = next) {
        next = x->next;
        if (x->why == FOR_CORE && x->job == job) {
            take_off(a, x);
            look_free(x);
        }
    }
}

void hsp_app_find_ckpts(struct hsp_app *a, const struct hsp_action *act)
{
    const struct hsp_look what = {.why = FOR_CORE, .ticket = act->ticket};
    overtaken(a, act->job);
    if (!begin(a, act->job, &what)) {
        const struct hsp_look none = {.job = act->job, .ticket = act->ticket};
        tell_core(a, &none, "hspmdd is out of memory, or asks for too many jobs at a time");
    }
}

static void begin_for(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                      uint32_t job, struct hsp_look *what)
{
    what->conn = cl->conn;
    what->request = m->request;
    (void)snprintf(what->actor, sizeof what->actor, "%s", cl->name);
    if (!begin(a, job, what)) {
        hsp_app_reply(a, cl->conn, m->request, HSP_ELIMIT, "too many requests at a time; try again",
                      NULL, 0, false);
    }
}

void hsp_app_resume_from(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                         uint32_t job, uint64_t step)
{
    struct hsp_look what = {.why = FOR_RESUME, .step = step, .until_ms = hsp_app_now() + STOP_MS};
    begin_for(a, cl, m, job, &what);
}

void hsp_app_forget(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                    uint32_t job)
{
    struct hsp_look what = {.why = FOR_FORGET, .until_ms = hsp_app_now() + STOP_MS};
    begin_for(a, cl, m, job, &what);
}

void hsp_app_list_ckpts(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m)
{
    const struct hsp_job *j = NULL;
    struct hsp_look what = {.why = FOR_LIST};
    struct hsp_err err;
    if (hsp_cluster_job_called(a->cluster, m->u.query.name, &j, &err) != HSP_OK ||
        j->checkpoint_path[0] == '\0') {
        hsp_app_query(a, cl, m, ""); /* which says that there is no such job */
    } else {
        begin_for(a, cl, m, j->id, &what);
    }
}
