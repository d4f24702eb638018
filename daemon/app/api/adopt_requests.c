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
#define SAID_MAX      (4u * HSP_TEXT_MAX)
#define FOUND         8u /* different jobs that may be meant; more are not told */
#define DIGITS        8  /* of the id of a cluster, or as many as tell two apart */

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

/* Writes the agents' answers, which do not agree, to the feed in full: @why is cut in a message. */
static void refuse_papers(struct hsp_app *a, struct hsp_adoption *x, const char *why)
{
    char text[HSP_TEXT_MAX + 1];
    hsp_str_printf(text, sizeof text, "%s", why);
    struct hsp_fact f = {.type = "adopt.refused",
                         .severity = HSP_SEV_WARN,
                         .node = "",
                         .reason = text,
                         .cause = "",
                         .actor = x->actor};
    hsp_app_fact(a, &f);
    fail(a, x, HSP_ESTATE, text);
}

/* Gives the newest job record, which @whose have sent, to the core, which decides on it. */
static void propose(struct hsp_app *a, struct hsp_adoption *x, const char *whose)
{
    struct hsp_err err = {0};
    enum hsp_status st = hsp_adoption_read(x, a->cluster, &err);
    if (st != HSP_OK) {
        char text[HSP_TEXT_MAX + 1];
        hsp_str_printf(text, sizeof text, "%s; it is the job record of %s", err.msg, whose);
        fail(a, x, st, text);
        return;
    }
    uint32_t *agent = hsp_adoption_agents(x);
    if (agent == NULL) {
        fail(a, x, HSP_ENOMEM, "out of memory");
        return;
    }
    struct hsp_admin_event ev = {.verb = HSP_ADMIN_ADOPT,
                                 .job = x->job,
                                 .papers = &x->papers,
                                 .n_agents = x->n_taken,
                                 .agent = agent,
                                 .node = x->from,
                                 .reason = whose,
                                 .force = x->force};
    hsp_app_admin_adopt(a, x->conn, x->request, x->actor, &ev, x); /* the event has a copy */
    free(agent);
}

/* Called when every agent that will answer has answered. */
static void decide(struct hsp_app *a, struct hsp_adoption *x)
{
    char text[HSP_TEXT_MAX];
    struct hsp_buf said;
    take_off(a, x);
    if (x->data == NULL) {
        hsp_str_printf(text, sizeof text,
                       "none of the %" PRIu32 " agents that store job %" PRIu32
                       " has its job record (%s): start the agent of another node that stores it, "
                       "or put back a backup that knows the job (hspmdd --restore)",
                       x->n_asked, x->job, x->fault[0] != '\0' ? x->fault : "no answer");
        fail(a, x, HSP_ESTATE, text);
        return;
    }
    hsp_buf_init(&said, SAID_MAX);
    if (hsp_adoption_judge(x, &said) == HSP_OK) {
        propose(a, x, hsp_buf_cstr(&said));
    } else {
        refuse_papers(a, x, hsp_buf_cstr(&said));
    }
    hsp_buf_fini(&said);
}

static void one_less(struct hsp_app *a, struct hsp_adoption *x)
{
    if (--x->n_left == 0) {
        decide(a, x);
    }
}

/* Returns the agent on @conn that was asked for @x and has not answered yet; NULL: none. */
static struct hsp_adoption_holder *strike(struct hsp_adoption *x, uint32_t conn)
{
    for (uint32_t i = 0; i < x->n_asked; i++) {
        if (x->holder[i].conn == conn && conn != 0) {
            x->holder[i].conn = 0;
            return &x->holder[i];
        }
    }
    return NULL;
}

void hsp_app_adopt_told(struct hsp_app *a, uint32_t conn, const struct hsp_msg *m)
{
    struct hsp_adoption *x = a->adoptions, *next;
    bool answer = m->u.papers.what == HSP_PAPERS_TOLD || m->u.papers.what == HSP_PAPERS_NONE;
    for (; x != NULL && answer; x = next) {
        struct hsp_err err = {0};
        next = x->next;
        struct hsp_adoption_holder *h = x->job == m->u.papers.job ? strike(x, conn) : NULL;
        if (h == NULL) {
            continue;
        }
        bool told = m->u.papers.what == HSP_PAPERS_TOLD && m->blob_len > 0;
        if (!told || hsp_adoption_consider(x, h, m->blob, m->blob_len, &err) != HSP_OK) {
            hsp_str_printf(x->fault, sizeof x->fault, "%s: %s", h->name,
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
        if (strike(x, conn) != NULL) {
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

struct found { /* different jobs that may be meant */
    uint32_t n;
    uint32_t job[FOUND];
    struct hsp_digest cluster[FOUND];
};

/* @what: its name, its number, or NUMBER@CLUSTER with the first digits of the cluster's id. A
 * number is no name here either, though an agent may call its job so. */
static bool is_it(const char *what, uint32_t id, const char *name, struct hsp_digest cluster)
{
    const char *at = strchr(what, '@');
    char number[16], hex[HSP_DIGEST_HEX];
    uint64_t n;
    size_t len = at != NULL ? (size_t)(at - what) : strlen(what);
    if (at == NULL && strcmp(what, name) == 0 && !hsp_parse_u64(what, &n)) {
        return true;
    }
    if (len >= sizeof number) {
        return false;
    }
    hsp_digest_hex(cluster, hex);
    (void)snprintf(number, sizeof number, "%.*s", (int)len, what);
    return hsp_parse_u64(number, &n) && n == id &&
           (at == NULL || (at[1] != '\0' && strncmp(hex, at + 1, strlen(at + 1)) == 0));
}

static void find(struct found *f, uint32_t id, struct hsp_digest cluster)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->job[i] == id && hsp_digest_equal(f->cluster[i], cluster)) {
            return;
        }
    }
    if (f->n < FOUND) {
        f->job[f->n] = id;
        f->cluster[f->n++] = cluster;
    }
}

/* Appends NUMBER@CLUSTER of each job, with enough digits of CLUSTER to tell the jobs apart. */
static void put_found(const struct found *f, struct hsp_buf *out)
{
    char hex[FOUND][HSP_DIGEST_HEX];
    int digits = DIGITS;
    for (uint32_t i = 0; i < f->n; i++) {
        hsp_digest_hex(f->cluster[i], hex[i]);
        for (uint32_t k = 0; k < i; k++) {
            while (f->job[i] == f->job[k] && strncmp(hex[i], hex[k], (size_t)digits) == 0) {
                digits++; /* the two digits are different */
            }
        }
    }
    for (uint32_t i = 0; i < f->n; i++) {
        hsp_buf_printf(out, "%s%" PRIu32 "@%.*s", i > 0 ? ", " : "", f->job[i], digits, hex[i]);
    }
}

/* Whose a job of ours that is BEHIND is to the agents. */
static struct hsp_digest known_as(const struct hsp_app *a, const struct hsp_job *j)
{
    return hsp_ci_not_adopted(j) ? j->from : a->cluster->id;
}

/* True when member @n keeps state of @j, which is BEHIND. The node may have said so before @j
 * was. */
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
        struct hsp_digest cluster = known_as(a, j);
        if (j->state == HSP_JOB_BEHIND && is_it(what, j->id, j->name, cluster)) {
            find(&f, j->id, cluster);
        }
    }
    for (uint32_t i = 0; i < c->n_parked; i++) {
        for (uint32_t k = 0; k < c->parked[i].n_jobs; k++) {
            const struct hsp_parked_job *p = &c->parked[i].jobs[k];
            if (is_it(what, p->job, p->name, p->cluster)) {
                find(&f, p->job, p->cluster);
            }
        }
    }
    return f;
}

static const char *address_of(struct hsp_app *a, uint32_t conn)
{
    const struct hsp_caller *c = hsp_app_client(a, conn);
    return c != NULL ? c->name : "gone";
}

/* Notes that the agent of @conn, which calls itself @name, keeps the job. */
static void add_holder(struct hsp_app *a, struct hsp_adoption *x, uint32_t conn, const char *name)
{
    const char *address = address_of(a, conn);
    if (x->from[0] != '\0' && strcmp(x->from, name) != 0 && strcmp(x->from, address) != 0) {
        return;
    }
    struct hsp_adoption_holder *h = &x->holder[x->n_asked++];
    h->conn = h->agent = conn;
    (void)snprintf(h->name, sizeof h->name, "%s (%s)", name, address);
}

/* Asks the agents that keep the job, or those that the administrator believes. */
static bool ask_agents(struct hsp_app *a, struct hsp_adoption *x)
{
    const struct hsp_cluster *c = a->cluster;
    x->holder = calloc((size_t)c->n_parked + c->n_nodes + 1, sizeof *x->holder);
    for (uint32_t i = 0; x->holder != NULL && i < c->n_parked; i++) {
        for (uint32_t k = 0; k < c->parked[i].n_jobs; k++) {
            const struct hsp_parked_job *p = &c->parked[i].jobs[k];
            if (p->job == x->job && hsp_digest_equal(p->cluster, x->cluster)) {
                add_holder(a, x, c->parked[i].conn, c->parked[i].name);
                break;
            }
        }
    }
    const struct hsp_job *j = hsp_cluster_job(c, x->job);
    for (uint32_t i = 0; x->holder != NULL && j != NULL && i < c->n_nodes; i++) {
        if (keeps(a, &c->nodes[i], j)) {
            add_holder(a, x, c->nodes[i].conn, c->nodes[i].name);
        }
    }
    x->n_left = x->n_asked;
    for (uint32_t i = 0; i < x->n_asked; i++) {
        struct hsp_msg m = {
            .type = HSP_MSG_PAPERS,
            .u.papers = {
                .job = x->job, .what = HSP_PAPERS_ASK, .cluster = x->cluster, .reason = ""}};
        hsp_app_send(a, x->holder[i].conn, &m);
    }
    return x->holder != NULL;
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
        struct hsp_buf all;
        hsp_buf_init(&all, SAID_MAX);
        put_found(f, &all);
        hsp_str_printf(text, sizeof text, "several jobs are %s; give NUMBER@CLUSTER: %s", what,
                       hsp_buf_cstr(&all));
        hsp_buf_fini(&all);
    } else if (j != NULL) {
        hsp_str_printf(text, sizeof text, "job %s is known here, and %s: there is nothing to adopt",
                       what, hsp_job_state_name(j->state));
    } else {
        hsp_str_printf(text, sizeof text,
                       "no connected agent stores a job %s that is unknown here; hspmdctl node "
                       "list shows the jobs of each node",
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
                               .job = f.job[0],
                               .cluster = f.cluster[0],
                               .force = m->u.adopt.force,
                               .end_ms = hsp_app_now() + WAIT_MS};
    (void)snprintf(x->actor, sizeof x->actor, "%s", cl->name);
    (void)snprintf(x->from, sizeof x->from, "%s", m->u.adopt.node);
    a->adoptions = x;
    if (!ask_agents(a, x) || x->n_asked == 0) {
        take_off(a, x);
        fail(a, x, HSP_ENODEV, /* devices may come */
             x->from[0] != '\0' ? "no agent of this node or address stores the job"
                                : "no agent that stores the job is connected: start one");
    }
}

/* ---- state of a node is given up ---- */

struct discarding {
    bool force, told;
    uint32_t n;                      /* jobs that are given up */
    uint32_t n_recorded;             /* of them: on record here */
    char recorded[4 * HSP_NAME_MAX]; /* their names */
    uint32_t n_meant;                /* agents of that name, or at that address */
    uint32_t n_agents;               /* of which something is given up */
    char agents[4 * HSP_NAME_MAX];   /* their addresses */
};

/* Discards the state of one job on one agent. @known is the name of the job if it is on record,
 * else NULL. */
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

/* Tells a parked agent (connected, but no member of the cluster) to discard state. The agent
 * discards the state of each job that is not on record here, and of each job on record of which the
 * agent keeps more than the store records. State of other jobs on record is discarded only with
 * --force. */
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

/* Counts an agent that would discard something, and lists its address, quoted for a shell. */
static void discard_counts(struct hsp_app *a, struct discarding *x, uint32_t conn, uint32_t before)
{
    const char *address = address_of(a, conn), *quote = strchr(address, ' ') != NULL ? "'" : "";
    size_t used = strlen(x->agents);
    if (x->n == before) {
        return;
    }
    x->n_agents++;
    if (used + strlen(address) + 5 < sizeof x->agents) {
        (void)snprintf(x->agents + used, sizeof x->agents - used, "%s%s%s%s", used > 0 ? ", " : "",
                       quote, address, quote);
    }
}

/* Returns true if @node names the agent of @conn, which calls itself @name. */
static bool is_meant(struct hsp_app *a, uint32_t conn, const char *name, const char *node)
{
    const struct hsp_caller *c = hsp_app_client(a, conn);
    return c != NULL && (strcmp(name, node) == 0 || strcmp(c->name, node) == 0);
}

static void discard_member(struct hsp_app *a, struct discarding *x,
                           const struct hsp_cluster_node *n)
{
    for (uint32_t i = 0; i < a->cluster->n_jobs; i++) {
        const struct hsp_job *j = a->cluster->jobs[i];
        if (keeps(a, n, j)) {
            discard_one(a, x, n->conn, j->id, known_as(a, j), j->unrecorded ? NULL : j->name);
        }
    }
}

/* Goes over the state that agents of this name, or the one at this address, keep, members too: jobs
 * that are behind here, or not adopted. */
static void discard_all(struct hsp_app *a, struct discarding *x, const char *node)
{
    const struct hsp_cluster *c = a->cluster;
    for (uint32_t i = 0; i < c->n_parked; i++) {
        const struct hsp_parked *p = &c->parked[i];
        uint32_t before = x->n;
        if (is_meant(a, p->conn, p->name, node)) {
            x->n_meant++;
            discard_parked(a, x, p);
            discard_counts(a, x, p->conn, before);
        }
    }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        uint32_t before = x->n;
        if (is_meant(a, n->conn, n->name, node)) {
            x->n_meant++;
            discard_member(a, x, n);
            discard_counts(a, x, n->conn, before);
        }
    }
}

static void discard_node(struct hsp_app *a, const struct hsp_caller *cl, const struct hsp_msg *m)
{
    const char *node = m->u.adopt.node;
    char text[HSP_TEXT_MAX];
    struct discarding would = {.force = m->u.adopt.force}, x = {.force = would.force, .told = true};
    discard_all(a, &would, node);
    if (would.n_agents > 1) {
        hsp_str_printf(text, sizeof text,
                       "%u agents store state under this name or address; hspmdctl node discard "
                       "ADDRESS names one, or stop the others: %s",
                       would.n_agents, would.agents);
        refuse(a, cl, m, HSP_ESTATE, text);
        return;
    }
    if (would.n_recorded > 0 && !would.force) {
        hsp_str_printf(text, sizeof text,
                       "node %s stores state of jobs that are known here, which would be lost: %s; "
                       "hspmdctl cancel gives a job up, --force deletes all state on the node",
                       node, would.recorded);
        refuse(a, cl, m, HSP_ESTATE, text);
        return;
    }
    discard_all(a, &x, node);
    if (x.n == 0) {
        bool any = x.n_meant > 0 || hsp_cluster_node_by_name(a->cluster, node) != NULL;
        hsp_str_printf(text, sizeof text,
                       any ? "no connected agent of node %s stores state that is unknown here; "
                             "hspmdctl node list shows all"
                           : "no node %s; hspmdctl node list shows all",
                       node);
        refuse(a, cl, m, HSP_ENOENT, text);
        return;
    }
    (void)snprintf(text, sizeof text, "state of %" PRIu32 " job%s, %" PRIu32 " of them known here",
                   x.n, hsp_s(x.n), x.n_recorded);
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
