#include "daemon/app/api/ckpt_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/api/admin_queries.h"
#include "daemon/app/api/pending_requests.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/state/app_state.h"
#include "daemon/app/state/event_queue.h"
#include "daemon/app/store/event_line.h"
#include "daemon/cluster/ckpt_look.h"
#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"
#include "proto/wire/protocol.h"

#define LOOK_MS      10000 /* for nodes that are connected and do not answer */
#define SHARED_NODES 8u
#define MOST_SEEN    65536u
#define LIST_MAX     (1u << 20)

struct hsp_look {
    struct hsp_look *next;
    enum { FOR_CORE, FOR_RESUME, FOR_LIST } why;
    uint32_t job;
    uint64_t number; /* of the question to the nodes */
    uint64_t ticket; /* FOR_CORE */
    uint32_t conn;   /* of the caller, as what follows */
    uint64_t request, step;
    char actor[96];
    bool mute; /* a node cannot be asked: what is on record counts, too */
    uint32_t n_asked, n_left;
    uint32_t *asked; /* owned: connections, 0: has answered, or is gone */
    hsp_msec end_ms;
    uint32_t n_seen;
    size_t cap_seen, cap_at;
    struct hsp_m_seen *seen;  /* owned */
    uint32_t *at;             /* owned: connection that has seen it */
    char damaged[256];        /* a newer one, as a node says, "" none */
    char fault[HSP_TEXT_MAX]; /* of the last node that could not look, "" none */
};

static void look_free(struct hsp_look *x)
{
    free(x->asked);
    free(x->seen);
    free(x->at);
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

/* ---- the answers ---- */

static void tell_core(struct hsp_app *a, const struct hsp_look *x)
{
    struct hsp_event e = {.type = HSP_EV_CKPTS,
                          .u.ckpts = {.job = x->job,
                                      .ticket = x->ticket,
                                      .n = x->n_seen,
                                      .seen = x->seen,
                                      .why = x->fault,
                                      .damaged = x->damaged}};
    hsp_app_post(a, &e, NULL);
}

static void resume(struct hsp_app *a, const struct hsp_look *x)
{
    struct hsp_admin_event ev = {.verb = HSP_ADMIN_RESUME,
                                 .job = x->job,
                                 .has_step = true,
                                 .step = x->step,
                                 .looked = !x->mute,
                                 .n_seen = x->n_seen,
                                 .seen = x->seen,
                                 .reason = x->fault};
    hsp_app_admin(a, x->conn, x->request, x->actor, &ev, NULL, NULL);
}

struct line { /* of the list: one checkpoint on one node */
    struct hsp_m_seen seen;
    uint32_t conn;
};

static int newest_first(const void *x, const void *y)
{
    const struct hsp_m_seen *a = &((const struct line *)x)->seen;
    const struct hsp_m_seen *b = &((const struct line *)y)->seen;
    return a->step != b->step ? (a->step > b->step ? -1 : 1)
                              : (a->content > b->content) - (a->content < b->content);
}

/* Appends the line of the checkpoint at @l[0], which nodes @l[0] .. @l[n - 1] see. */
static void put_line(struct hsp_app *a, const struct hsp_job *j, const struct line *l, size_t n,
                     struct hsp_buf *out)
{
    char nodes[200] = "", reason[320];
    struct hsp_err err = {0};
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        const struct hsp_cluster_node *node = hsp_ci_node_of_conn(a->cluster, l[i].conn);
        if (node != NULL && len + strlen(node->name) + 3 < sizeof nodes) {
            len += (size_t)snprintf(nodes + len, sizeof nodes - len, "%s%s", len > 0 ? ", " : "",
                                    node->name);
        }
    }
    (void)snprintf(reason, sizeof reason,
                   "version %" PRIu64 " of epoch %" PRIu64 ", complete, seen by %s", l->seen.step,
                   l->seen.epoch, nodes);
    struct hsp_fact f = {
        .type = "ckpt.on_disk", .severity = HSP_SEV_INFO, .job = j->id, .reason = reason};
    struct hsp_feed_event e = {
        .seq = a->seq > 0 ? a->seq : 1, .unix_ms = hsp_app_unix_ms(), .job = j->name, .fact = &f};
    if (hsp_feed_event_line(&e, out, &err) == HSP_OK) {
        hsp_buf_puts(out, "\n");
    }
}

/* Lines of the feed's form, of which `ckpt list` makes its table. False: no memory. */
static bool put_lines(struct hsp_app *a, const struct hsp_look *x, const struct hsp_job *j,
                      struct hsp_buf *out)
{
    struct line *l = calloc((size_t)x->n_seen + 1, sizeof *l);
    for (uint32_t i = 0; l != NULL && i < x->n_seen; i++) {
        l[i] = (struct line){x->seen[i], x->at[i]};
    }
    if (l != NULL) {
        qsort(l, x->n_seen, sizeof *l, newest_first);
    }
    for (size_t i = 0, end; l != NULL && i < x->n_seen; i = end) {
        for (end = i + 1; end < x->n_seen && newest_first(&l[i], &l[end]) == 0; end++) {
        }
        put_line(a, j, &l[i], end - i, out);
    }
    bool ok = l != NULL && !out->failed;
    free(l);
    return ok;
}

static void list(struct hsp_app *a, const struct hsp_look *x)
{
    const struct hsp_caller *cl = hsp_app_client(a, x->conn);
    const struct hsp_job *j = hsp_cluster_job(a->cluster, x->job);
    struct hsp_buf text;
    if (cl == NULL) {
        return;
    }
    hsp_buf_init(&text, LIST_MAX);
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
    take_off(a, x);
    if (x->n_left > 0 && x->fault[0] == '\0') {
        hsp_str_printf(x->fault, sizeof x->fault, "%" PRIu32 " of %" PRIu32 " nodes do not answer",
                       x->n_left, x->n_asked);
    }
    switch (x->why) {
    case FOR_CORE: tell_core(a, x); break;
    case FOR_RESUME: resume(a, x); break;
    case FOR_LIST: list(a, x); break;
    }
    look_free(x);
}

static bool strike(struct hsp_look *x, uint32_t conn)
{
    for (uint32_t i = 0; i < x->n_asked; i++) {
        if (x->asked[i] == conn && conn != 0) {
            x->asked[i] = 0;
            x->n_left--;
            return true;
        }
    }
    return false;
}

/* False: no memory. */
static bool take(struct hsp_look *x, uint32_t conn, const struct hsp_m_ckpts *m)
{
    size_t n = (size_t)x->n_seen + m->n_seen;
    if (!hsp_grow(&x->seen, &x->cap_seen, n + 1, sizeof *x->seen, MOST_SEEN) ||
        !hsp_grow(&x->at, &x->cap_at, n + 1, sizeof *x->at, MOST_SEEN)) {
        return false;
    }
    for (uint32_t i = 0; i < m->n_seen; i++) {
        x->seen[x->n_seen] = m->seen[i];
        x->at[x->n_seen++] = conn;
    }
    return true;
}

void hsp_app_ckpts_told(struct hsp_app *a, uint32_t conn, const struct hsp_msg *msg)
{
    const struct hsp_m_ckpts *m = &msg->u.ckpts;
    struct hsp_look *x = a->looks;
    while (x != NULL && (x->number != m->number || x->job != m->job)) {
        x = x->next;
    }
    if (x == NULL || !strike(x, conn)) {
        return; /* too late, or not asked */
    }
    if (m->damaged[0] != '\0') {
        hsp_str_printf(x->damaged, sizeof x->damaged, "%s", m->damaged);
    }
    bool kept = take(x, conn, m); /* also beside a reason: what could be read */
    if (m->reason[0] != '\0' || !kept) {
        hsp_str_printf(x->fault, sizeof x->fault, "%s: %s", hsp_net_name(a->net, conn),
                       kept ? m->reason : "too many checkpoints");
    }
    if (x->n_left == 0) {
        end(a, x);
    }
}

void hsp_app_ckpts_gone(struct hsp_app *a, uint32_t conn)
{
    struct hsp_look *x = a->looks, *next;
    for (; x != NULL; x = next) {
        next = x->next;
        if (strike(x, conn)) {
            hsp_str_printf(x->fault, sizeof x->fault, "a node that was asked has gone");
            if (x->n_left == 0) {
                end(a, x);
            }
        }
    }
}

void hsp_app_ckpts_check(struct hsp_app *a)
{
    struct hsp_look *x = a->looks, *next;
    for (; x != NULL; x = next) {
        next = x->next;
        if (hsp_app_now() >= x->end_ms) {
            end(a, x);
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

/* ---- the questions ---- */

static bool computes(const struct hsp_cluster_node *n)
{
    bool any = false;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        any = any || (n->dev[d].present && !n->dev[d].keeper);
    }
    return n->conn != 0 && any;
}

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

static void ask(struct hsp_app *a, struct hsp_look *x, const struct hsp_job *j)
{
    const struct hsp_cluster *c = a->cluster;
    struct hsp_m_seen seen[HSP_OLDER_CKPTS + 1] = {0};
    const uint32_t n_seen = on_record(j, seen);
    uint32_t most = j->checkpoint_shared ? SHARED_NODES : c->n_nodes;
    for (uint32_t i = 0; i < c->n_nodes && x->n_asked < most; i++) {
        if (computes(&c->nodes[i]) && c->nodes[i].protocol >= HSP_PROTO_CKPTS) {
            x->asked[x->n_asked++] = c->nodes[i].conn;
        }
    }
    x->n_left = x->n_asked;
    for (uint32_t i = 0; i < x->n_asked; i++) {
        struct hsp_msg m = {.type = HSP_MSG_CKPTS,
                            .u.ckpts = {.job = j->id,
                                        .number = x->number,
                                        .cluster = hsp_ci_ckpt_cluster(c, j),
                                        .name = j->name,
                                        .path = j->checkpoint_path,
                                        .n_seen = n_seen,
                                        .seen = seen,
                                        .damaged = "",
                                        .reason = ""}};
        hsp_app_send(a, x->asked[i], &m);
    }
    x->mute = hsp_ci_ckpt_mute(c) != NULL;
    if (x->mute) {
        hsp_str_printf(x->fault, sizeof x->fault,
                       "hspmd-worker of node %s is too old to list checkpoints: upgrade it",
                       hsp_ci_ckpt_mute(c)->name);
    } else if (x->n_asked == 0) {
        hsp_str_printf(x->fault, sizeof x->fault, "no node is connected");
    }
    if (x->n_asked == 0) {
        x->end_ms = 0; /* at the next turn of the loop: this may be inside an action */
    }
}

/* Begins one for job @job, a copy of @what. False: no memory, or too many. */
static bool begin(struct hsp_app *a, uint32_t job, const struct hsp_look *what)
{
    const struct hsp_job *j = hsp_cluster_job(a->cluster, job);
    uint32_t n = 0;
    for (const struct hsp_look *x = a->looks; x != NULL; x = x->next) {
        n++;
    }
    struct hsp_look *x = n < HSP_LOOKS ? calloc(1, sizeof *x) : NULL;
    if (x == NULL || j == NULL) {
        free(x);
        return false;
    }
    *x = *what;
    x->asked = calloc((size_t)a->cluster->n_nodes + 1, sizeof *x->asked);
    if (x->asked == NULL) {
        free(x);
        return false;
    }
    x->job = job;
    x->number = ++a->look_number;
    x->end_ms = hsp_app_now() + LOOK_MS;
    x->next = a->looks;
    a->looks = x;
    ask(a, x, j);
    return true;
}

void hsp_app_find_ckpts(struct hsp_app *a, const struct hsp_action *act)
{
    const struct hsp_look what = {.why = FOR_CORE, .ticket = act->ticket};
    if (!begin(a, act->job, &what)) {
        const struct hsp_look none = {.job = act->job,
                                      .ticket = act->ticket,
                                      .fault = "out of memory, or too many questions"};
        tell_core(a, &none);
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
    struct hsp_look what = {.why = FOR_RESUME, .step = step};
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
