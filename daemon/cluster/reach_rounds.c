#include "daemon/cluster/reach_rounds.h"

#include <stdlib.h>

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/hash.h"

#define WITHIN_MS 750u /* a fifth of it, the last call's time, is a long way there and back */
#define SLACK_MS  250u /* for the question and the answer */

static uint64_t listener_of(const struct hsp_node_device *v)
{
    return v->up ? hsp_hash_str(v->address) : 0;
}

/* ---- questions ---- */

/* Devices of @node whose listeners are called: one for each of its cards. */
static void add_targets(const struct hsp_cluster *c, struct hsp_reach_node *asks, uint32_t at,
                        uint32_t node)
{
    const struct hsp_cluster_node *n = &c->nodes[node];
    uint32_t cards = 0;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        const struct hsp_node_device *v = &n->dev[d];
        uint32_t card = v->profile.card < HSP_NODE_CARDS ? 1u << v->profile.card : 1u;
        bool can = v->present && v->up && v->address[0] != '\0' && (cards & card) == 0;
        if (can && asks->n_targets < HSP_REACH_TARGETS) {
            cards |= card;
            asks->target[asks->n_targets++] =
                (struct hsp_reach_target){(uint8_t)at, HSP_DEVICE(node, d), listener_of(v)};
        }
    }
}

static void ask(struct hsp_cluster *c, struct hsp_reach_round *r, uint32_t at)
{
    struct hsp_reach_node *asks = &r->node[at];
    struct hsp_msg m = {.type = HSP_MSG_REACH,
                        .u.reach = {.round = r->number, .within_ms = WITHIN_MS}};
    for (uint32_t i = 0; i < r->n; i++) {
        if (i != at) {
            add_targets(c, asks, i, r->node[i].node);
        }
    }
    m.u.reach.targets = hsp_ci_alloc(c, asks->n_targets, sizeof(*m.u.reach.targets));
    for (uint32_t i = 0; m.u.reach.targets != NULL && i < asks->n_targets; i++) {
        m.u.reach.targets[m.u.reach.n_targets++].address =
            hsp_ci_device(c, asks->target[i].device)->address;
    }
    asks->waits = asks->n_targets > 0;
    if (asks->waits) {
        hsp_ci_send(c, c->nodes[asks->node].conn, &m);
    }
}

static bool has_suspects(const struct hsp_cluster *c, uint32_t job)
{
    bool any = false;
    for (uint32_t i = 0; i < c->n_pairs && !any; i++) {
        any = c->pairs[i].job == job && c->pairs[i].suspects > 0;
    }
    return any;
}

/* 0: it cannot be begun. */
static uint32_t begin(struct hsp_cluster *c, uint32_t job, const uint32_t *node, uint32_t n)
{
    uint32_t slot = 0;
    while (slot < HSP_REACH_ROUNDS && c->round[slot] != NULL) {
        slot++;
    }
    if (slot == HSP_REACH_ROUNDS) {
        return 0;
    }
    struct hsp_reach_round *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        c->failed = true;
        return 0;
    }
    c->next_round = c->next_round < UINT32_MAX ? c->next_round + 1 : 1;
    r->number = c->next_round;
    r->job = job;
    r->suspects = job != 0 && has_suspects(c, job);
    r->deadline_ms = c->now_ms + WITHIN_MS + SLACK_MS;
    for (uint32_t i = 0; i < n; i++) {
        r->node[r->n++] =
            (struct hsp_reach_node){.node = node[i], .incarnation = c->nodes[node[i]].incarnation};
    }
    for (uint32_t i = 0; i < r->n; i++) {
        ask(c, r, i);
    }
    c->round[slot] = r;
    c->dirty = true;
    return r->number;
}

/* ---- the nodes of a job ---- */

struct list {
    uint32_t node[HSP_REACH_NODES], n;
};

static void add_node(const struct hsp_cluster *c, struct list *l, uint32_t node)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->node[i] == node) {
            return;
        }
    }
    if (l->n < HSP_REACH_NODES && c->nodes[node].conn != 0) {
        l->node[l->n++] = node;
    }
}

static void add_peers(const struct hsp_cluster *c, struct list *l, const struct hsp_cl_epoch *e)
{
    for (uint32_t i = 0; i < e->n_peers; i++) {
        add_node(c, l, HSP_DEVICE_NODE(e->peers[i].device));
    }
}

static void list_nodes(struct hsp_cluster *c, const struct hsp_job *j, struct list *l)
{
    hsp_device_id *dev;
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        if (c->pairs[i].job == j->id && c->pairs[i].suspects > 0) {
            add_node(c, l, c->pairs[i].a);
            add_node(c, l, c->pairs[i].b);
        }
    }
    add_peers(c, l, &j->att);
    add_peers(c, l, &j->cur);
    uint32_t n = hsp_ci_available(c, j, &dev);
    for (uint32_t i = 0; i < n; i++) {
        add_node(c, l, HSP_DEVICE_NODE(dev[i]));
    }
}

/* A loss that names nobody leaves places to those that name a pair. */
static bool has_place(const struct hsp_cluster *c, uint32_t job)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < HSP_REACH_ROUNDS; i++) {
        n += c->round[i] == NULL;
    }
    return n > (has_suspects(c, job) ? 0 : HSP_REACH_ROUNDS / 2);
}

/* Nobody can be asked: each suspicion is believed. */
static void believe(struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; i < c->n_pairs; i++) {
        if (c->pairs[i].job == j->id) {
            hsp_ci_pair_unmeasured(c, c->pairs[i].a, c->pairs[i].b);
        }
    }
}

void hsp_ci_round_of_job(struct hsp_cluster *c, struct hsp_job *j)
{
    struct list l = {.n = 0};
    if (!j->wants_round || j->round != 0) {
        return;
    }
    j->wants_round = false;
    j->round_upto = j->seal_upto;
    if (hsp_ci_at_rest(j)) {
        return;
    }
    list_nodes(c, j, &l);
    j->round = l.n > 1 && has_place(c, j->id) ? begin(c, j->id, l.node, l.n) : 0;
    if (j->round == 0) {
        believe(c, j);
    }
}

/* ---- answers ---- */

static struct hsp_reach_round *round_of(const struct hsp_cluster *c, uint32_t number)
{
    for (uint32_t i = 0; i < HSP_REACH_ROUNDS; i++) {
        if (c->round[i] != NULL && c->round[i]->number == number) {
            return c->round[i];
        }
    }
    return NULL;
}

bool hsp_ci_round_covers(const struct hsp_cluster *c, const struct hsp_job *j, uint32_t a,
                         uint32_t b)
{
    const struct hsp_reach_round *r = j->round != 0 ? round_of(c, j->round) : NULL;
    uint32_t found = 0;
    for (uint32_t i = 0; r != NULL && i < r->n; i++) {
        found += r->node[i].node == a || r->node[i].node == b;
    }
    return found == 2;
}

/* An executor that has ended meanwhile is refused by right. */
static bool counts(const struct hsp_cluster *c, const struct hsp_reach_target *t, bool refused)
{
    return !refused || listener_of(hsp_ci_device(c, t->device)) == t->listener;
}

void hsp_ci_reached(struct hsp_cluster *c, struct hsp_cluster_node *n,
                    const struct hsp_m_reached *m)
{
    struct hsp_reach_round *r = round_of(c, m->round);
    uint32_t at = 0;
    while (r != NULL && at < r->n && r->node[at].node != hsp_ci_index_of(c, n)) {
        at++;
    }
    if (r == NULL || at == r->n || !r->node[at].waits ||
        r->node[at].incarnation != n->incarnation) {
        return;
    }
    struct hsp_reach_node *a = &r->node[at];
    a->waits = false;
    a->answered = true;
    for (uint32_t i = 0; i < m->n_deaf; i++) {
        const struct hsp_m_deaf *d = &m->deaf[i];
        if (d->target < a->n_targets && counts(c, &a->target[d->target], d->refused)) {
            a->deaf |= UINT64_C(1) << a->target[d->target].at;
            a->refused |= (uint64_t)d->refused << a->target[d->target].at;
        }
    }
    c->dirty = true;
}

/* Whether @a has called @b, and told the result. */
static bool has_called(const struct hsp_reach_round *r, uint32_t a, uint32_t b)
{
    const struct hsp_reach_node *x = &r->node[a];
    bool called = false;
    for (uint32_t i = 0; i < x->n_targets && !called; i++) {
        called = x->answered && x->target[i].at == b;
    }
    return called;
}

/* @deaf: [2] it does not answer the other. */
static const char *why(struct hsp_cluster *c, const char *x, const char *y, const bool deaf[2],
                       bool refused)
{
    return deaf[0] && deaf[1]
               ? "neither answers calls of the other"
               : hsp_ci_printf(c, "%s %s calls of %s", deaf[0] ? x : y,
                               refused ? "refuses" : "does not answer", deaf[0] ? y : x);
}

static void judge(struct hsp_cluster *c, const struct hsp_reach_round *r, uint32_t a, uint32_t b)
{
    const struct hsp_reach_node *x = &r->node[a], *y = &r->node[b];
    const bool deaf[2] = {(y->deaf >> a & 1) != 0, (x->deaf >> b & 1) != 0};
    bool refused = ((x->refused >> b | y->refused >> a) & 1) != 0;
    if (deaf[0] || deaf[1]) {
        hsp_ci_pair_deaf(c, x->node, y->node,
                         why(c, c->nodes[x->node].name, c->nodes[y->node].name, deaf, refused));
    } else if (has_called(r, a, b) || has_called(r, b, a)) {
        hsp_ci_pair_answered(c, x->node, y->node);
    } else {
        hsp_ci_pair_unmeasured(c, x->node, y->node);
    }
}

static bool is_there(const struct hsp_cluster *c, const struct hsp_reach_node *x)
{
    return c->nodes[x->node].conn != 0 && c->nodes[x->node].incarnation == x->incarnation;
}

/* Also when all that was suspected is explained: one of each two nodes is dead. */
static bool is_over(const struct hsp_cluster *c, const struct hsp_reach_round *r)
{
    bool waits = false;
    for (uint32_t i = 0; i < r->n; i++) {
        waits = waits || (r->node[i].waits && is_there(c, &r->node[i]));
    }
    return !waits || c->now_ms >= r->deadline_ms || (r->suspects && !has_suspects(c, r->job));
}

static void end(struct hsp_cluster *c, struct hsp_reach_round *r)
{
    struct hsp_job *j = hsp_ci_job(c, r->job);
    for (uint32_t a = 0; a < r->n; a++) {
        for (uint32_t b = a + 1; b < r->n; b++) {
            if (is_there(c, &r->node[a]) && is_there(c, &r->node[b])) {
                judge(c, r, a, b);
            }
        }
    }
    if (j != NULL && j->round == r->number) {
        j->round = 0;
        hsp_ci_job_dirty(c, j);
    }
}

void hsp_ci_rounds_advance(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < HSP_REACH_ROUNDS; i++) {
        struct hsp_reach_round *r = c->round[i];
        if (r != NULL && is_over(c, r)) {
            c->round[i] = NULL;
            end(c, r);
            free(r);
        }
    }
    if (c->n_pairs > 0 && c->now_ms >= hsp_ci_pairs_due(c)) {
        uint32_t due[HSP_REACH_NODES], node[HSP_REACH_NODES], n = 0;
        uint32_t all = hsp_ci_pairs_due_nodes(c, due, HSP_REACH_NODES);
        for (uint32_t i = 0; i < all; i++) {
            if (c->nodes[due[i]].conn != 0) {
                node[n++] = due[i];
            }
        }
        if (n > 1) {
            (void)begin(c, 0, node, n); /* else at the next time */
        }
    }
}

hsp_msec hsp_ci_rounds_due(const struct hsp_cluster *c)
{
    hsp_msec best = hsp_ci_pairs_due(c);
    for (uint32_t i = 0; i < HSP_REACH_ROUNDS; i++) {
        if (c->round[i] != NULL && c->round[i]->deadline_ms < best) {
            best = c->round[i]->deadline_ms;
        }
    }
    return best;
}

void hsp_ci_rounds_fini(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < HSP_REACH_ROUNDS; i++) {
        free(c->round[i]);
    }
}
