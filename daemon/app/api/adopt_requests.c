#include "daemon/app/api/adopt_requests.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/app/api/adoption.h"
#include "daemon/app/api/pending_requests.h"
#include "daemon/app/feed/event_log.h"
#include "daemon/app/state/app_state.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/parked.h"
#include "proto/base/str.h"
#include "proto/wire/papers.h"

#define HSP_ADOPTIONS 16u
#define WAIT_MS       10000 /* for agents that are connected and do not answer */

void hsp_app_adopt_free_all(struct hsp_app *a)
{
    while (a->adoptions != NULL) {
        struct hsp_adoption *x = a->adoptions;
        a->adoptions = x->next;
        (void)hsp_adoption_free(x);
    }
}

static void take_off(struct hsp_app *a, const struct hsp_adoption *x)
{
    struct hsp_adoption **at = &a->adoptions;
    while (*at != NULL && *at != x) {
        at = &(*at)->next;
    }
    if (*at == x) {
        *at = x->next;
    }
}

/* ---- the end of asking ---- */

static void fail(struct hsp_app *a, struct hsp_adoption *x, enum hsp_status st, const char *why)
{
    hsp_app_reply(a, x->conn, x->request, st, why, NULL, 0, false);
    (void)hsp_adoption_free(x);
}

/* All have answered that will: the core decides. */
static void decide(struct hsp_app *a, struct hsp_adoption *x)
{
    struct hsp_err err = {0};
    char text[HSP_TEXT_MAX];
    take_off(a, x);
    if (x->data == NULL) {
        hsp_str_printf(text, sizeof text,
                       "none of the %" PRIu32 " agents that keep job %" PRIu32
                       " has its papers (%s): submit it anew, init_from its last checkpoint",
                       x->n_asked, x->job, x->fault[0] != '\0' ? x->fault : "no answer");
        fail(a, x, HSP_ENOENT, text);
        return;
    }
    enum hsp_status st = hsp_adoption_read(x, &err);
    if (st != HSP_OK) {
        fail(a, x, st, err.msg);
        return;
    }
    struct hsp_admin_event ev = {
        .verb = HSP_ADMIN_ADOPT, .job = x->job, .papers = &x->papers, .force = x->force};
    hsp_app_admin_adopt(a, x->conn, x->request, x->actor, &ev, x);
}

static void one_less(struct hsp_app *a, struct hsp_adoption *x)
{
    if (--x->n_left == 0) {
        decide(a, x);
    }
}

/* True: @conn was asked for @x, and has not answered before. */
static bool strike(struct hsp_adoption *x, uint32_t conn)
{
    for (uint32_t i = 0; i < x->n_asked; i++) {
        if (x->asked[i] == conn && conn != 0) {
            x->asked[i] = 0;
            return true;
        }
    }
    return false;
}

void hsp_app_adopt_told(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m)
{
    struct hsp_adoption *x = a->adoptions, *next;
    bool answer = m->u.papers.what == HSP_PAPERS_TOLD || m->u.papers.what == HSP_PAPERS_NONE;
    for (; x != NULL && answer; x = next) {
        struct hsp_err err = {0};
        next = x->next;
        if (x->job != m->u.papers.job || !strike(x, conn)) {
            continue;
        }
        const struct hsp_caller *c = hsp_app_client(a, conn);
        bool told = m->u.papers.what == HSP_PAPERS_TOLD && m->blob_len > 0;
        if (!told || hsp_adoption_consider(x, m->blob, m->blob_len, &err) != HSP_OK) {
            hsp_str_printf(x->fault, sizeof x->fault, "%s: %s",
                           c != NULL ? hsp_net_name(a->net, conn) : "an agent",
                           told ? err.msg : m->u.papers.reason);
        }
        one_less(a, x);
    }
}

void hsp_app_adopt_gone(struct hsp_app *a, uint32_t conn)
{
    struct hsp_adoption *x = a->adoptions, *next;
    for (; x != NULL; x = next) {
        next = x->next;
        if (strike(x, conn)) {
            one_less(a, x);
        }
    }
}

void hsp_app_adopt_check(struct hsp_app *a)
{
    struct hsp_adoption *x = a->adoptions, *next;
    for (; x != NULL; x = next) {
        next = x->next;
        if (hsp_app_now() >= x->end_ms) {
            decide(a, x);
        }
    }
}

hsp_msec hsp_app_adopt_deadline(const struct hsp_app *a)
{
    hsp_msec best = UINT64_MAX;
    for (const struct hsp_adoption *x = a->adoptions; x != NULL; x = x->next) {
        best = x->end_ms < best ? x->end_ms : best;
    }
    return best;
}

/* ---- which job ---- */

struct found {
    uint32_t n;   /* different jobs */
    uint32_t job; /* the first of them */
    struct hsp_digest cluster;
    char all[320]; /* their numbers */
};

static bool is_it(const char *what, uint32_t id, const char *name)
{
    uint64_t number;
    return strcmp(what, name) == 0 || (hsp_parse_u64(what, &number) && number == id);
}

static void find(struct found *f, uint32_t id, struct hsp_digest cluster)
{
    char hex[HSP_DIGEST_HEX], one[64];
    if (f->n > 0 && f->job == id && hsp_digest_equal(f->cluster, cluster)) {
        return;
    }
    hsp_digest_hex(cluster, hex);
    (void)snprintf(one, sizeof one, "%s%" PRIu32 " of cluster %.8s", f->n > 0 ? ", " : "", id, hex);
    size_t used = strlen(f->all);
    if (strstr(f->all, one) == NULL && used + strlen(one) < sizeof f->all) {
        (void)snprintf(f->all + used, sizeof f->all - used, "%s", one);
        f->n++;
    }
    if (f->n == 1) {
        f->job = id;
        f->cluster = cluster;
    }
}

/* Whose a job of ours that is BEHIND is to the agents. */
static struct hsp_digest known_as(const struct hsp_app *a, const struct hsp_job *j)
{
    return hsp_ci_not_adopted(j) ? j->from : a->cluster->id;
}

/* Member @n keeps state of @j, which is BEHIND. It may have said so before @j was. */
static bool keeps(const struct hsp_app *a, const struct hsp_cluster_node *n,
                  const struct hsp_job *j)
{
    const struct hsp_job_mark *k = hsp_ci_marked(j, hsp_ci_index_of(a->cluster, n));
    bool has = k != NULL && k->keeps;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        has = has || n->dev[d].job == j->id;
    }
    return j->state == HSP_JOB_BEHIND && n->conn != 0 && has;
}

static struct found find_job(const struct hsp_app *a, const char *what)
{
    const struct hsp_cluster *c = a->cluster;
    struct found f = {0};
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        if (j->state == HSP_JOB_BEHIND && is_it(what, j->id, j->name)) {
            find(&f, j->id, known_as(a, j));
        }
    }
    for (uint32_t i = 0; i < c->n_parked; i++) {
        for (uint32_t k = 0; k < c->parked[i].n_jobs; k++) {
            const struct hsp_parked_job *p = &c->parked[i].jobs[k];
            if (is_it(what, p->job, p->name)) {
                find(&f, p->job, p->cluster);
            }
        }
    }
    return f;
}

/* Asks the agents that keep the job. */
static bool ask_agents(struct hsp_app *a, struct hsp_adoption *x)
{
    const struct hsp_cluster *c = a->cluster;
    x->asked = calloc((size_t)c->n_parked + c->n_nodes + 1, sizeof *x->asked);
    for (uint32_t i = 0; x->asked != NULL && i < c->n_parked; i++) {
        for (uint32_t k = 0; k < c->parked[i].n_jobs; k++) {
            const struct hsp_parked_job *p = &c->parked[i].jobs[k];
            if (p->job == x->job && hsp_digest_equal(p->cluster, x->cluster)) {
                x->asked[x->n_asked++] = c->parked[i].conn;
                break;
            }
        }
    }
    const struct hsp_job *j = hsp_cluster_job(c, x->job);
    for (uint32_t i = 0; x->asked != NULL && j != NULL && i < c->n_nodes; i++) {
        if (keeps(a, &c->nodes[i], j)) {
            x->asked[x->n_asked++] = c->nodes[i].conn;
        }
    }
    x->n_left = x->n_asked;
    for (uint32_t i = 0; i < x->n_asked; i++) {
        struct hsp_msg m = {
            .type = HSP_MSG_PAPERS,
            .u.papers = {
                .job = x->job, .what = HSP_PAPERS_ASK, .cluster = x->cluster, .reason = ""}};
        hsp_app_send(a, x->asked[i], &m);
    }
    return x->asked != NULL;
}

static void refuse(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                   enum hsp_status st, const char *why)
{
    hsp_app_reply(a, cl->conn, m->request, st, why, NULL, 0, false);
}

static void no_such_job(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m,
                        const struct found *f)
{
    const char *what = m->u.adopt.job;
    const struct hsp_job *j = NULL;
    char text[HSP_TEXT_MAX];
    (void)hsp_cluster_job_called(a->cluster, what, &j, NULL);
    if (f->n > 1) {
        hsp_str_printf(text, sizeof text, "several jobs are %s: %s; give the number", what, f->all);
    } else if (j != NULL) {
        hsp_str_printf(text, sizeof text,
                       "job %s is on record here, and %s: there is nothing to "
                       "adopt",
                       what, hsp_job_state_name(j->state));
    } else {
        hsp_str_printf(text, sizeof text,
                       "no agent here keeps a job %s that is not on record; hspmdctl status shows "
                       "what they keep",
                       what);
    }
    refuse(a, cl, m, j != NULL || f->n > 1 ? HSP_ESTATE : HSP_ENOENT, text);
}

static void adopt_job(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m)
{
    struct found f = find_job(a, m->u.adopt.job);
    uint32_t n = 0;
    for (const struct hsp_adoption *x = a->adoptions; x != NULL; x = x->next) {
        n++;
    }
    if (f.n != 1) {
        no_such_job(a, cl, m, &f);
        return;
    }
    struct hsp_adoption *x = n < HSP_ADOPTIONS ? calloc(1, sizeof *x) : NULL;
    if (x == NULL) {
        refuse(a, cl, m, HSP_ELIMIT, "too many adoptions at a time; try again");
        return;
    }
    *x = (struct hsp_adoption){.next = a->adoptions,
                               .conn = cl->conn,
                               .request = m->request,
                               .job = f.job,
                               .cluster = f.cluster,
                               .force = m->u.adopt.force,
                               .end_ms = hsp_app_now() + WAIT_MS};
    (void)snprintf(x->actor, sizeof x->actor, "%s", cl->name);
    a->adoptions = x;
    if (!ask_agents(a, x) || x->n_asked == 0) {
        take_off(a, x);
        fail(a, x, HSP_ESTATE, "no agent that keeps the job is connected: start them");
    }
}

/* ---- what a node keeps is given up ---- */

struct discarding {
    bool force, told;
    uint32_t n;                      /* jobs that are given up */
    uint32_t n_recorded;             /* of them: on record here */
    char recorded[4 * HSP_NAME_MAX]; /* their names */
};

/* @known: its name, if it is on record; NULL: it is not. */
static void discard_one(struct hsp_app *a, struct discarding *x, uint32_t conn, uint32_t job,
                        struct hsp_digest cluster, const char *known)
{
    struct hsp_msg m = {
        .type = HSP_MSG_PAPERS,
        .u.papers = {.job = job, .what = HSP_PAPERS_DISCARD, .cluster = cluster, .reason = ""}};
    size_t used = strlen(x->recorded);
    if (known != NULL && strlen(known) + used + 3 < sizeof x->recorded) {
        (void)snprintf(x->recorded + used, sizeof x->recorded - used, "%s%s", used > 0 ? ", " : "",
                       known);
    }
    x->n++;
    x->n_recorded += known != NULL;
    if (x->told) {
        hsp_app_send(a, conn, &m);
    }
}

/* A parked agent is one for jobs that are not known here. The state of others is left to them, but for
 * those of which it keeps more than is on record. */
static void discard_parked(struct hsp_app *a, struct discarding *x, const struct hsp_parked *p)
{
    for (uint32_t k = 0; k < p->n_jobs; k++) {
        enum hsp_standing how = hsp_ci_parked_standing(a->cluster, &p->jobs[k]);
        const struct hsp_job *j = hsp_cluster_job(a->cluster, p->jobs[k].job);
        bool recorded =
            (how == HSP_STANDS_KNOWN || how == HSP_STANDS_NEWER) && j != NULL && !j->unrecorded;
        if (how != HSP_STANDS_KNOWN || !recorded || x->force) {
            discard_one(a, x, p->conn, p->jobs[k].job, p->jobs[k].cluster,
                        recorded ? j->name : NULL);
        }
    }
}

/* Goes over what agents of this name keep, members too: jobs that are behind here, or not adopted. */
static void discard_all(struct hsp_app *a, struct discarding *x, const char *node)
{
    const struct hsp_cluster *c = a->cluster;
    const struct hsp_cluster_node *n = hsp_cluster_node_by_name(c, node);
    for (uint32_t i = 0; i < c->n_parked; i++) {
        if (strcmp(c->parked[i].name, node) == 0) {
            discard_parked(a, x, &c->parked[i]);
        }
    }
    for (uint32_t i = 0; n != NULL && i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        if (keeps(a, n, j)) {
            discard_one(a, x, n->conn, j->id, known_as(a, j), j->unrecorded ? NULL : j->name);
        }
    }
}

static void discard_node(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m)
{
    const char *node = m->u.adopt.node;
    char text[HSP_TEXT_MAX];
    struct discarding would = {.force = m->u.adopt.force}, x = {.force = would.force, .told = true};
    discard_all(a, &would, node);
    if (would.n_recorded > 0 && !would.force) {
        hsp_str_printf(
            text, sizeof text,
            "node %s keeps state of jobs that are on record here, which would be lost: %s; "
            "hspmdctl cancel gives a job up, --force deletes all that the node keeps",
            node, would.recorded);
        refuse(a, cl, m, HSP_ESTATE, text);
        return;
    }
    discard_all(a, &x, node);
    if (x.n == 0) {
        hsp_str_printf(text, sizeof text,
                       "no agent of node %s is connected that keeps state which is not on record "
                       "here; hspmdctl node list shows all",
                       node);
        refuse(a, cl, m, HSP_ENOENT, text);
        return;
    }
    (void)snprintf(text, sizeof text,
                   "state of %" PRIu32 " jobs, %" PRIu32 " of them on record here", x.n,
                   x.n_recorded);
    struct hsp_fact f = {.type = "admin.discard",
                         .severity = HSP_SEV_NOTICE,
                         .node = node,
                         .reason = text,
                         .cause = "",
                         .actor = cl->name};
    hsp_app_fact(a, &f);
    refuse(a, cl, m, HSP_OK, "");
}

void hsp_app_adopt(struct hsp_app *a, struct hsp_caller *cl, const struct hsp_msg *m)
{
    if (m->u.adopt.discard) {
        discard_node(a, cl, m);
    } else if (m->u.adopt.job[0] == '\0') {
        refuse(a, cl, m, HSP_EINVAL, "which job?");
    } else {
        adopt_job(a, cl, m);
    }
}
