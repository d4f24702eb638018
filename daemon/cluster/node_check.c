#include "daemon/cluster/node_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/measure.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"
#include "proto/op/op.h"

#define AT_A_TIME  16u   /* orders; more would be measured through the switch between them */
#define COMPUTE_MS 30000 /* sixteen devices of different kinds take ten seconds */
#define LINK_MS    20000 /* 3 MiB over a link of 2 Mbit/s, both ways */
#define CONNECT_MS 5000

static void reply(struct hsp_cluster *c, uint64_t request, enum hsp_status st, const char *text)
{
    struct hsp_action *r = hsp_ci_emit(c, HSP_ACT_REPLY);
    r->request = request;
    r->status = st;
    r->text = hsp_ci_printf(c, "%s", text);
}

static struct hsp_cluster_node *node_of(const struct hsp_cluster *c, const struct hsp_check_node *k)
{
    return &c->nodes[k->node];
}

/* The job that the node executes, 0: none. */
static uint32_t job_of(const struct hsp_cluster_node *n)
{
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        if (n->dev[d].job != 0) {
            return n->dev[d].job;
        }
    }
    return 0;
}

/* ---- orders ---- */

static void order(struct hsp_cluster *c, const struct hsp_check_node *k,
                  const struct hsp_m_check *what)
{
    const struct hsp_cluster_node *n = node_of(c, k);
    struct hsp_msg m = {.type = HSP_MSG_CHECK, .u.check = *what};
    if (n->conn == 0 || n->incarnation != k->incarnation) {
        return;
    }
    m.u.check.check = c->check.number;
    m.u.check.peer = what->peer != NULL ? what->peer : "";
    m.u.check.peer_address = what->peer_address != NULL ? what->peer_address : "";
    hsp_ci_send(c, n->conn, &m);
    if (!c->failed) {
        c->actions[c->n_actions - 1].type = HSP_ACT_CHECK;
    }
}

static void give_up(struct hsp_cluster *c, struct hsp_check_node *k)
{
    order(c, k, &(struct hsp_m_check){.seq = k->seq, .what = HSP_CHECK_STOP});
    k->seq = 0;
}

/* Why nothing can be asked of the node; NULL: it can. */
static const char *away(struct hsp_cluster *c, const struct hsp_check_node *k)
{
    const struct hsp_cluster_node *n = node_of(c, k);
    if (n->conn != 0 && n->incarnation == k->incarnation) {
        return NULL;
    }
    return hsp_ci_node_gone(n)
               ? hsp_ci_printf(c, "%s is %s: %s", n->name, hsp_node_state_name(n->state), n->reason)
               : hsp_ci_printf(c, "%s is not connected", n->name);
}

static const char *occupied(struct hsp_cluster *c, const struct hsp_check_node *k)
{
    const struct hsp_job *j = hsp_ci_job(c, job_of(node_of(c, k)));
    return j == NULL || c->check.terms.busy
               ? NULL
               : hsp_ci_printf(c, "%s executes job %s", node_of(c, k)->name, j->name);
}

/* Another order is under way on the node or its host. */
static bool taken(const struct hsp_cluster *c, const struct hsp_check_node *k)
{
    for (uint32_t i = 0; i < c->check.n_nodes; i++) {
        const struct hsp_check_node *o = &c->check.nodes[i];
        if (o->seq != 0 && (o == k || hsp_cluster_one_host(node_of(c, o), node_of(c, k)))) {
            return true;
        }
    }
    return false;
}

/* The orders that wait may begin where this one was: all are looked at again. */
static void end_node(struct hsp_cluster *c, struct hsp_check_node *k, enum hsp_check_state to,
                     const char *why)
{
    c->dirty = true;
    k->state = to;
    k->seq = 0;
    hsp_str_printf(k->why, sizeof(k->why), "%s", why); /* cut on purpose */
}

static void end_pair(struct hsp_cluster *c, struct hsp_check_pair *p, enum hsp_check_state to,
                     const char *why)
{
    struct hsp_check_node *ends[2] = {&c->check.nodes[p->a], &c->check.nodes[p->b]};
    for (uint32_t i = 0; i < 2; i++) {
        bool under_way = ends[i]->seq == p->seq && p->seq != 0;
        if (under_way && p->end[i].said) {
            ends[i]->seq = 0;
        } else if (under_way) {
            give_up(c, ends[i]);
        }
    }
    c->dirty = true;
    p->state = to;
    hsp_str_printf(p->why, sizeof(p->why), "%s", why);
}

/* ---- devices ---- */

static void advance_node(struct hsp_cluster *c, uint32_t at, uint32_t *running)
{
    struct hsp_check_node *k = &c->check.nodes[at];
    const char *gone = away(c, k), *job = occupied(c, k);
    if (k->state == HSP_CHECK_RUNS && gone != NULL) {
        end_node(c, k, HSP_CHECK_FAILED, gone);
    } else if (k->state == HSP_CHECK_RUNS && c->now_ms >= c->check.deadline_ms[at]) {
        give_up(c, k);
        end_node(c, k, HSP_CHECK_FAILED,
                 hsp_ci_printf(c, "%s did not answer within %u s", node_of(c, k)->name,
                               COMPUTE_MS / 1000));
    } else if (k->state == HSP_CHECK_WAITS && (gone != NULL || job != NULL)) {
        end_node(c, k, gone != NULL ? HSP_CHECK_FAILED : HSP_CHECK_SKIPPED,
                 gone != NULL ? gone : job);
    } else if (k->state == HSP_CHECK_WAITS && *running < AT_A_TIME && !taken(c, k)) {
        k->state = HSP_CHECK_RUNS;
        k->seq = c->check.next_seq++;
        c->check.deadline_ms[at] = c->now_ms + COMPUTE_MS;
        order(c, k, &(struct hsp_m_check){.seq = k->seq, .what = HSP_CHECK_COMPUTE});
    }
    *running += k->state == HSP_CHECK_RUNS;
}

/* ---- links ---- */

static void begin_pair(struct hsp_cluster *c, struct hsp_check_pair *p)
{
    p->state = HSP_CHECK_RUNS;
    p->seq = c->check.next_seq++;
    p->deadline_ms = c->now_ms + LINK_MS;
    for (uint32_t i = 0; i < 2; i++) {
        struct hsp_check_node *k = &c->check.nodes[i == 0 ? p->a : p->b];
        const struct hsp_check_node *o = &c->check.nodes[i == 0 ? p->b : p->a];
        k->seq = p->seq;
        order(c, k,
              &(struct hsp_m_check){.seq = p->seq,
                                    .what = HSP_CHECK_LINK,
                                    .rank = i,
                                    .peer = node_of(c, o)->name,
                                    .peer_address = o->address,
                                    .within_ms = CONNECT_MS,
                                    .tls = c->cfg.data_tls});
    }
}

static void advance_pair(struct hsp_cluster *c, struct hsp_check_pair *p, uint32_t *running)
{
    struct hsp_check_node *a = &c->check.nodes[p->a], *b = &c->check.nodes[p->b];
    const struct hsp_check_node *bad = a->state != HSP_CHECK_DONE ? a : b;
    const char *gone = away(c, a), *job = occupied(c, a);
    gone = gone != NULL ? gone : away(c, b);
    job = job != NULL ? job : occupied(c, b);
    if (p->state == HSP_CHECK_RUNS && gone != NULL) {
        end_pair(c, p, HSP_CHECK_FAILED, gone);
    } else if (p->state == HSP_CHECK_RUNS && c->now_ms >= p->deadline_ms) {
        const struct hsp_check_node *mute = p->end[0].said ? b : a;
        end_pair(c, p, HSP_CHECK_FAILED,
                 hsp_ci_printf(c, "%s did not answer within %u s", node_of(c, mute)->name,
                               LINK_MS / 1000));
    } else if (p->state == HSP_CHECK_WAITS && bad->state != HSP_CHECK_DONE) {
        end_pair(c, p, bad->state, bad->why);
    } else if (p->state == HSP_CHECK_WAITS && (gone != NULL || job != NULL)) {
        end_pair(c, p, gone != NULL ? HSP_CHECK_FAILED : HSP_CHECK_SKIPPED,
                 gone != NULL ? gone : job);
    } else if (p->state == HSP_CHECK_WAITS && *running < AT_A_TIME && !taken(c, a) &&
               !taken(c, b)) {
        begin_pair(c, p);
    }
    *running += p->state == HSP_CHECK_RUNS;
}

/* ---- the whole ---- */

static void finish(struct hsp_cluster *c, enum hsp_status st, const char *text)
{
    struct hsp_check *k = &c->check;
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        order(c, &k->nodes[i], &(struct hsp_m_check){.what = HSP_CHECK_END});
        k->nodes[i].seq = 0;
    }
    k->active = false;
    c->dirty = true; /* links that hspmdd measures for itself have waited (link_probe.h) */
    reply(c, k->request, st, text);
}

void hsp_ci_check_advance(struct hsp_cluster *c)
{
    struct hsp_check *k = &c->check;
    uint32_t running = 0;
    if (!k->active) {
        return;
    }
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        advance_node(c, i, &running);
    }
    bool open = running > 0;
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        open = open || k->nodes[i].state == HSP_CHECK_WAITS;
    }
    for (uint32_t i = k->first_pair; !open && i < k->n_pairs; i++) {
        advance_pair(c, &k->pairs[i], &running);
    }
    while (!open && k->first_pair < k->n_pairs && k->pairs[k->first_pair].state >= HSP_CHECK_DONE) {
        k->first_pair++;
    }
    if (!open && k->first_pair == k->n_pairs) {
        finish(c, HSP_OK, "");
    }
}

/* ---- answers ---- */

static struct hsp_check_pair *pair_of(struct hsp_check *k, uint32_t seq)
{
    for (uint32_t i = k->first_pair; i < k->n_pairs; i++) {
        if (k->pairs[i].state == HSP_CHECK_RUNS && k->pairs[i].seq == seq) {
            return &k->pairs[i];
        }
    }
    return NULL;
}

static void devices_answer(struct hsp_cluster *c, struct hsp_check_node *k,
                           const struct hsp_m_checked *m)
{
    if (m->fault[0] != '\0') {
        end_node(c, k, HSP_CHECK_FAILED, m->fault);
        return;
    }
    end_node(c, k, HSP_CHECK_DONE, "");
    (void)snprintf(k->address, sizeof(k->address), "%s", m->address);
    k->n_devices = m->n_devices;
    memcpy(k->devices, m->devices, m->n_devices * sizeof(k->devices[0]));
}

/* A node is free when both have answered: the other may still measure with it. */
static void link_answer(struct hsp_cluster *c, const struct hsp_check_node *k,
                        struct hsp_check_pair *p, const struct hsp_m_checked *m)
{
    struct hsp_check_end *e = &p->end[k == &c->check.nodes[p->a] ? 0 : 1];
    *e = (struct hsp_check_end){true, m->latency_s, m->bytes_per_s};
    (void)snprintf(p->transport, sizeof(p->transport), "%s", m->transport);
    if (m->fault[0] != '\0') {
        end_pair(c, p, HSP_CHECK_FAILED, hsp_ci_printf(c, "%s: %s", node_of(c, k)->name, m->fault));
    } else if (p->end[0].said && p->end[1].said) {
        end_pair(c, p, HSP_CHECK_DONE, "");
    }
}

void hsp_ci_checked(struct hsp_cluster *c, struct hsp_cluster_node *n,
                    const struct hsp_m_checked *m)
{
    struct hsp_check *k = &c->check;
    for (uint32_t i = 0; k->active && m->check == k->number && i < k->n_nodes; i++) {
        struct hsp_check_node *x = &k->nodes[i];
        if (node_of(c, x) != n || x->seq == 0 || x->seq != m->seq) {
            continue; /* of an order that was given up */
        }
        struct hsp_check_pair *p = pair_of(k, m->seq);
        if (p != NULL) {
            link_answer(c, x, p, m);
        } else {
            devices_answer(c, x, m);
        }
    }
}

/* ---- begin and stop ---- */

static bool add_node(struct hsp_cluster *c, struct hsp_check *k, uint32_t at)
{
    for (uint32_t i = 0; i < k->n_nodes; i++) {
        if (k->nodes[i].node == at) {
            return true; /* named twice */
        }
    }
    if (k->n_nodes == HSP_CHECK_NODES) {
        return false;
    }
    k->nodes[k->n_nodes++] =
        (struct hsp_check_node){.node = at, .incarnation = c->nodes[at].incarnation};
    return true;
}

/* The nodes of a check. NULL: all are in; else why not, with *ret_status. */
static const char *choose(struct hsp_cluster *c, const struct hsp_check_terms *t,
                          struct hsp_check *k, enum hsp_status *ret_status)
{
    *ret_status = HSP_ENOENT;
    for (uint32_t i = 0; i < t->n_nodes; i++) {
        uint32_t at;
        if (!hsp_map_get(&c->by_name, t->node[i], &at)) {
            return hsp_ci_printf(c, "no node %s; hspmdctl node list shows all", t->node[i]);
        }
        (void)add_node(c, k, at); /* the caller names at most as many */
    }
    for (uint32_t i = 0; t->n_nodes == 0 && i < c->n_nodes; i++) {
        if (c->nodes[i].conn != 0 && !add_node(c, k, i)) {
            *ret_status = HSP_ELIMIT;
            return hsp_ci_printf(c, "more than %u nodes are connected: name those to be checked",
                                 HSP_CHECK_NODES);
        }
    }
    *ret_status = HSP_ESTATE;
    return k->n_nodes == 0 ? "no node is connected" : NULL;
}

/* Takes over the nodes of @k. */
static bool make_pairs(struct hsp_check *k)
{
    uint32_t n = k->n_nodes;
    k->pairs = calloc((size_t)n * n, sizeof(*k->pairs)); /* more than enough, never 0 */
    for (uint32_t a = 0; k->pairs != NULL && a < n; a++) {
        for (uint32_t b = a + 1; b < n; b++) {
            k->pairs[k->n_pairs++] = (struct hsp_check_pair){.a = a, .b = b};
        }
    }
    return k->pairs != NULL;
}

/* Numbers of checks differ from term to term: an agent may answer now a question from before a
 * restart of hspmdd. */
static uint32_t next_number(const struct hsp_cluster *c)
{
    uint32_t n = c->check.number + 1;
    return n > 1 ? n : (uint32_t)(c->term << 16) + 1;
}

void hsp_ci_check_begin(struct hsp_cluster *c, const struct hsp_admin_event *a)
{
    struct hsp_check k = {.number = next_number(c),
                          .active = true,
                          .request = a->request,
                          .terms = a->check,
                          .next_seq = 1};
    enum hsp_status st = HSP_ESTATE;
    if (c->check.active) {
        reply(c, a->request, st,
              hsp_ci_printf(c, "a check by %s is under way; try again when it has ended",
                            c->check.actor));
        return;
    }
    k.terms.node = NULL;
    (void)snprintf(k.actor, sizeof(k.actor), "%s", a->actor != NULL ? a->actor : "");
    k.nodes = calloc(HSP_CHECK_NODES, sizeof(*k.nodes));
    const char *fault = k.nodes != NULL ? choose(c, &a->check, &k, &st) : NULL;
    if (k.nodes == NULL || (fault == NULL && !make_pairs(&k))) {
        free(k.nodes);
        c->failed = true;
        return;
    }
    if (fault != NULL) {
        reply(c, a->request, st, fault);
        free(k.nodes);
        return;
    }
    hsp_ci_check_fini(c);
    c->check = k;
    struct hsp_fact *f = hsp_ci_fact(
        c, "admin.check", HSP_SEV_NOTICE, NULL, NULL, "%u node%s, %u pair%s%s", k.n_nodes,
        hsp_s(k.n_nodes), k.n_pairs, hsp_s(k.n_pairs), k.terms.busy ? ", busy ones too" : "");
    if (f != NULL) {
        f->actor = hsp_ci_printf(c, "%s", k.actor);
    }
}

void hsp_ci_check_stop(struct hsp_cluster *c, uint64_t request)
{
    if (!c->check.active || c->check.request != request) {
        return;
    }
    struct hsp_fact *f =
        hsp_ci_fact(c, "check.stopped", HSP_SEV_NOTICE, NULL, NULL, "the caller has gone");
    if (f != NULL) {
        f->actor = hsp_ci_printf(c, "%s", c->check.actor);
    }
    finish(c, HSP_ECANCELED, "stopped");
}

void hsp_ci_check_fini(struct hsp_cluster *c)
{
    free(c->check.nodes);
    free(c->check.pairs);
    c->check.nodes = NULL;
    c->check.pairs = NULL;
}

hsp_msec hsp_ci_check_due(const struct hsp_cluster *c)
{
    const struct hsp_check *k = &c->check;
    hsp_msec best = HSP_NEVER;
    for (uint32_t i = 0; k->active && i < k->n_nodes; i++) {
        bool runs = k->nodes[i].state == HSP_CHECK_RUNS;
        best = runs && k->deadline_ms[i] < best ? k->deadline_ms[i] : best;
    }
    for (uint32_t i = k->first_pair; k->active && i < k->n_pairs; i++) {
        bool runs = k->pairs[i].state == HSP_CHECK_RUNS;
        best = runs && k->pairs[i].deadline_ms < best ? k->pairs[i].deadline_ms : best;
    }
    return best;
}
