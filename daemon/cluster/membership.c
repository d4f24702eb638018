#include "daemon/cluster/membership.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/behind.h"
#include "daemon/cluster/ckpt_look.h"
#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/crowd.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/device_requests.h"
#include "daemon/cluster/doubt.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/forget.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/measure.h"
#include "daemon/cluster/namesake.h"
#include "daemon/cluster/node_loss.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/cluster_papers.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/paths.h"
#include "daemon/cluster/reconcile.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/same_node.h"
#include "daemon/cluster/standing.h"
#include "daemon/cluster/try_anew.h"
#include "proto/base/str.h"
#include "proto/op/gemm_class.h"
#include "proto/wire/identity.h"

/* Speeds beyond these are no card's; figures that planning derives from those within are finite. */
#define LEAST_GBIT 1e-6
#define MOST_GBIT  1e6

static void refuse(struct hsp_cluster *c, uint32_t conn, const char *why)
{
    struct hsp_msg m = {.type = HSP_MSG_FENCED, .u.fenced = {.cluster = c->id, .reason = why}};
    hsp_ci_send(c, conn, &m);
    hsp_ci_close(c, conn, why);
}

/* The agent of @d has told other figures: plans made with the old ones are asked for again. */
static void profile_changed(struct hsp_cluster *c, hsp_device_id d)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        if (!hsp_job_terminal(j->state) && j->id == hsp_ci_device(c, d)->job) {
            j->retune = true;
            (void)snprintf(j->cause, sizeof(j->cause), "new figures of %s",
                           hsp_ci_device_name(c, d));
        }
        j->asked_valid = false;
    }
}

static bool name_of_card(const char *s)
{
    bool good = s[0] != '\0';
    for (; *s != '\0'; s++) {
        good = good && *s > ' ' && *s <= '~';
    }
    return good;
}

/* Takes in the network cards; impossible figures count as no cards: planning then takes the node
 * for one with a single card. */
static void take_cards(struct hsp_cluster *c, struct hsp_cluster_node *n,
                       const struct hsp_m_hello *m)
{
    bool good = true;
    n->n_cards = 0;
    for (uint32_t i = 0; i < m->n_cards; i++) {
        double speed = m->cards[i].gbit_per_s;
        good = good && name_of_card(m->cards[i].name) && isfinite(speed) && speed >= 0 &&
               (speed <= 0 || (speed >= LEAST_GBIT && speed <= MOST_GBIT));
        (void)snprintf(n->card[i].name, sizeof(n->card[i].name), "%s", m->cards[i].name);
        n->card[i].gbit_per_s = speed;
    }
    for (uint32_t i = 0; i < m->n_devices; i++) {
        good = good && (m->n_cards == 0 || m->devices[i].card < m->n_cards);
    }
    if (good) {
        n->n_cards = m->n_cards;
    } else {
        hsp_ci_fact(c, "node.cards", HSP_SEV_WARN, NULL, n, "its network cards make no sense");
    }
}

static void take_devices(struct hsp_cluster *c, struct hsp_cluster_node *n,
                         const struct hsp_m_hello *m)
{
    uint32_t at = hsp_ci_index_of(c, n);
    bool seen[HSP_NODE_DEVICES] = {false}, gone = false;
    for (uint32_t i = 0; i < m->n_devices; i++) {
        const struct hsp_m_device *p = &m->devices[i];
        struct hsp_node_device *d = &n->dev[p->index];
        seen[p->index] = true;
        if (d->present && d->up && (!p->up || strcmp(d->address, p->address) != 0)) {
            hsp_ci_device_lost(
                c, HSP_DEVICE(at, p->index),
                hsp_ci_printf(c, "executor %s/%u: another one since", n->name, p->index));
        }
        if (d->present && (d->profile.speed != p->speed || d->profile.mem_bytes != p->mem_bytes)) {
            profile_changed(c, HSP_DEVICE(at, p->index));
            d->speed = 1;
        }
        d->profile = *p;
        d->profile.kind = d->profile.address = NULL;
        d->profile.model = d->profile.uuid = d->profile.cpus = d->profile.why = NULL;
        d->profile.gemm_parts = NULL;
        d->profile.n_gemm_parts = 0;
        for (uint32_t k = 0; k < HSP_GEMM_PARTS; k++) {
            d->gemm_part[k] = k < p->n_gemm_parts ? hsp_gemm_part(p->gemm_parts[k]) : 0;
        }
        (void)snprintf(d->kind, sizeof(d->kind), "%s", p->kind);
        d->replica_holder = strcmp(p->kind, HSP_KIND_REPLICA_HOLDER) == 0;
        (void)snprintf(d->address, sizeof(d->address), "%s", p->address);
        d->present = true;
        d->up = p->up;
        d->restart_ms = p->up ? 0 : c->now_ms;
        if (!p->up) {
            hsp_ci_await(c, HSP_DEVICE(at, p->index));
        }
        d->asked = false; /* the device is asked again, and has no more time for that */
        d->ending = 0;
        d->speed = d->speed > 0 ? d->speed : 1;
        hsp_ci_take_note(c, n, p);
    }
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        if (!seen[d] && n->dev[d].present) {
            n->dev[d].present = false;
            n->dev[d].up = false;
            hsp_ci_device_lost(c, HSP_DEVICE(at, d),
                               hsp_ci_printf(c, "%s/%u: device is gone", n->name, d));
            hsp_ci_lease(c, HSP_DEVICE(at, d), 0);
            n->dev[d].ask = HSP_ASK_NONE;
            gone = true;
        }
    }
    if (gone) {
        hsp_ci_store_all_leases(c);
    }
}

static const struct hsp_m_kept *kept_of(const struct hsp_m_hello *m, uint32_t job)
{
    for (uint32_t i = 0; i < m->n_kept; i++) {
        if (m->kept[i].job == job) {
            return &m->kept[i];
        }
    }
    return NULL;
}

/* Decides about one piece of state that a HELLO offers. A job that may still need the piece
 * gets the device leased. A job on record that does not need the piece tells the agent to
 * release its layout. */
static void take_piece(struct hsp_cluster *c, struct hsp_cluster_node *n,
                       const struct hsp_m_holding *h, const struct hsp_m_kept *k)
{
    struct hsp_job *j = hsp_ci_job(c, h->job);
    struct hsp_node_device *d = &n->dev[h->device];
    if (hsp_ci_standing(c, k) == HSP_STANDS_OVER) {
        return; /* hsp_ci_end_over has it deleted */
    }
    if (j == NULL || j->state == HSP_JOB_BEHIND) {
        if (j != NULL && !hsp_ci_not_adopted(j) && d->present && d->job == 0) {
            hsp_ci_lease(c, HSP_DEVICE(hsp_ci_index_of(c, n), h->device), j->id);
        }
        return;
    }
    if (hsp_ci_plan(j, h->plan) != NULL) {
        if (!hsp_ci_may_hold(c, j, n, h) || hsp_ci_at_rest(j)) {
            return; /* not by its layout, or of a failed job: neither used nor deleted */
        }
        struct hsp_state_piece p = {.device = HSP_DEVICE(hsp_ci_index_of(c, n), h->device),
                                    .plan = h->plan,
                                    .version = h->version,
                                    .rank = h->rank,
                                    .owner = h->owner};
        hsp_ci_held_add(c, j, &p);
        if (c->now_ms >= j->state_deadline_ms) {
            j->state_deadline_ms = 0; /* the others may be coming, too: the wait begins anew */
        }
        bool needs = !j->cur.settled || j->state == HSP_JOB_SEALING ||
                     j->state == HSP_JOB_RECOVERING || j->state == HSP_JOB_PAUSED;
        if (d->present && d->job == 0 && needs && j->state != HSP_JOB_PENDING) {
            hsp_ci_lease(c, p.device, j->id);
        }
        return;
    }
    uint64_t keep = j->n_plans > 0 ? j->plans[0].plan : j->next_plan;
    struct hsp_msg m = {
        .type = HSP_MSG_RELEASE,
        .u.release = {
            .job = h->job, .device = h->device, .keep_plan = keep, .known = j->next_epoch - 1}};
    if (h->plan < keep) { /* else of an attempt dropped: PREPARE of its successor voids it */
        hsp_ci_send(c, n->conn, &m);
    }
}

static void welcome(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    struct hsp_msg m = {.type = HSP_MSG_WELCOME,
                        .u.welcome = {.protocol = n->protocol,
                                      .cluster = c->id,
                                      .generation = c->generation,
                                      .term = c->term,
                                      .incarnation = n->secret,
                                      .heartbeat_ms = c->cfg.heartbeat_ms,
                                      .dead_ms = c->cfg.dead_ms,
                                      .address = c->cfg.address != NULL ? c->cfg.address : ""}};
    hsp_ci_send(c, n->conn, &m);
    if (n->draining) {
        struct hsp_msg d = {.type = HSP_MSG_DRAIN_NOTICE, .u.text.reason = n->reason};
        hsp_ci_send(c, n->conn, &d);
    }
}

void hsp_ci_welcome_all(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        if (c->nodes[i].conn != 0) {
            welcome(c, &c->nodes[i]);
        }
    }
}

void hsp_ci_reconfigure(struct hsp_cluster *c, const struct hsp_cluster_config *cfg)
{
    bool told = cfg->heartbeat_ms != c->cfg.heartbeat_ms || cfg->dead_ms != c->cfg.dead_ms;
    c->cfg = *cfg;
    c->forget_ms = HSP_NEVER;
    hsp_ci_forget_later(c);
    if (told) {
        hsp_ci_welcome_all(c);
    }
}

static uint32_t n_computing(const struct hsp_cluster_node *n)
{
    uint32_t k = 0;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        k += n->dev[d].present && !n->dev[d].replica_holder;
    }
    return k;
}

/* The agent that said hello as a member on @conn is no member any more. */
static void park(struct hsp_cluster *c, uint32_t conn, const struct hsp_m_hello *m,
                 const struct hsp_park_cause *cause)
{
    struct hsp_cluster_node *was = hsp_ci_node_of_conn(c, conn);
    if (was != NULL) {
        hsp_ci_node_conn(c, was, 0);
        hsp_ci_node_state(c, was, HSP_NODE_SUSPECT);
    }
    hsp_ci_park(c, conn, m, cause);
    hsp_ci_doubt_parked(c, conn);
}

/* The same, with the consequences where it is @proven to be a node of the store. */
static void park_for(struct hsp_cluster *c, uint32_t conn, const struct hsp_m_hello *m,
                     const struct hsp_park_cause *cause, bool proven)
{
    park(c, conn, m, cause);
    if (cause->ahead && proven) {
        hsp_ci_generation_seen(c, m->generation);
        hsp_ci_behind(c, m->node, m->generation, cause->why);
    }
}

/* The agent of @ev is not @n, which is NULL where there is no node of the name. */
static void refuse_name(struct hsp_cluster *c, const struct hsp_event *ev,
                        struct hsp_cluster_node *n, const char *why)
{
    if (n != NULL && n->state == HSP_NODE_LIVE && n->conn != 0 && n->conn != ev->conn) {
        hsp_ci_namesake(c, n, ev->peer);
    }
    refuse(c, ev->conn, why);
}

/* The member that says hello; NULL: parked or refused, and told. */
static struct hsp_cluster_node *identify(struct hsp_cluster *c, const struct hsp_event *ev,
                                         const struct hsp_m_hello *m)
{
    struct hsp_err err;
    uint32_t common, at, conn = ev->conn;
    if (hsp_protocol_agree(m->protocol_oldest, m->protocol, "the agent", "hspmdd", &common, &err) !=
        /* the frame says something else: the agent is not fenced, which would cost its state */
        HSP_OK) {
        hsp_ci_close(c, conn, hsp_ci_printf(c, "%s", err.msg));
        return NULL;
    }
    if (!hsp_name_valid(m->node)) {
        hsp_ci_close(c, conn, "not a node name");
        return NULL;
    }
    struct hsp_cluster_node *n = hsp_map_get(&c->by_name, m->node, &at) ? &c->nodes[at] : NULL;
    struct hsp_park_cause cause = hsp_ci_must_park(c, n, m);
    cause.source = ev->source;
    cause.protocol = common;
    const char *no =
        n != NULL ? hsp_ci_not_it(c, conn, n, m)
        : hsp_digest_is_zero(hsp_ci_incarnation_shown(c, m))
            ? NULL
            : hsp_ci_printf(c, "node %s is not known here any more; it connects again by itself",
                            m->node);
    bool it = n != NULL && no == NULL &&
              (!hsp_digest_is_zero(hsp_ci_incarnation_shown(c, m)) || hsp_ci_proves(n, m) ||
               hsp_ci_from_before(c, n, m) || hsp_ci_comes_back(n, m) != NULL);
    if (cause.why == NULL && n != NULL && !it && hsp_ci_knows_more(c, n, m)) {
        cause.why = /* this store may be too old to know it, and it need not be dead */
            hsp_ci_printf(c,
                          "it stores more than hspmdd knows, and does not prove that it is node %s",
                          n->name);
    }
    if (cause.ahead && it && hsp_ci_raise_over_twin(c, m->node, m->generation)) {
        hsp_ci_welcome_all(c);
        hsp_ci_judge_again(c);
        return identify(c, ev, m); /* which is older now */
    }
    if (cause.why != NULL) {
        if (cause.as == HSP_PARKED_UNPROVEN && m->n_devices > 0 && (it || hsp_ci_was_it(c, n, m))) {
            cause.as = HSP_PARKED_AHEAD;
        }
        park_for(c, conn, m, &cause, it);
        return NULL;
    }
    if (no != NULL) {
        refuse_name(c, ev, n, no);
        return NULL;
    }
    if (n == NULL && c->n_nodes - c->n_vacant == HSP_MAX_NODES) {
        hsp_ci_close(c, conn, "too many nodes");
        return NULL;
    }
    n = n != NULL ? n : hsp_ci_node_new(c, m->node);
    if (n != NULL) {
        n->protocol = common;
        n->source = ev->source;
    }
    return n;
}

/* Brings the mark that @j has of a node that says hello up to date. */
static void marks_hello(struct hsp_cluster *c, struct hsp_job *j, uint32_t node, bool anew)
{
    struct hsp_job_mark *k = hsp_ci_marked(j, node);
    if (j->att.epoch == 0 && (j->ran_unknown || (k != NULL && k->ran))) {
        hsp_ci_ckpt_hello(c, j);
    }
    if (j->tries.until_ms != 0) {
        k = hsp_ci_mark(c, j, node);
        hsp_ci_ckpt_hurry(c, j, k);
    }
    if (k != NULL) {
        k->blamed = false;
        k->seal = !anew && k->seal == 2 ? 3 : k->seal; /* the answer may have been lost */
    }
}

/* State of adopted jobs on the node is this cluster's: the node is told so, before it may be asked
 * to delete any of it. Papers that are damaged are replaced in the same way. */
static void tell_adopted(struct hsp_cluster *c, uint32_t at, const struct hsp_m_hello *m)
{
    for (uint32_t i = 0; i < m->n_kept; i++) {
        const struct hsp_m_kept *k = &m->kept[i];
        const struct hsp_job *j = hsp_ci_job(c, k->job);
        bool own = hsp_digest_equal(k->cluster, c->id), none = hsp_cluster_none(k->cluster);
        bool taken = j != NULL && !own && !none && hsp_digest_equal(k->cluster, j->from);
        bool mend = j != NULL && own && k->papers_damaged && j->n_plans > 0;
        if ((taken || mend) && j->state != HSP_JOB_BEHIND) {
            struct hsp_papers_round r = {.from = j->from};
            hsp_ci_papers_send(c, j, at, &r);
        }
    }
}

/* Devices of node @at that are leased to a job which is behind, and of which the node says nothing
 * any more; or which is not adopted, and does not run there. */
static void free_behind(struct hsp_cluster *c, uint32_t at, const struct hsp_m_hello *m)
{
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        const struct hsp_job *j = hsp_ci_job(c, c->nodes[at].dev[d].job);
        if (j != NULL && j->state == HSP_JOB_BEHIND &&
            (kept_of(m, j->id) == NULL ||
             (hsp_ci_not_adopted(j) && !hsp_ci_hello_runs(m, j->id, d)))) {
            hsp_ci_lease(c, HSP_DEVICE(at, d), 0);
        }
    }
}

/* Tells of damaged papers in the state folder of an agent, which a coordinator that has lost its
 * rows could not use: one line for all of them. @n: the member that the agent is; NULL: none, and
 * the name that it gives proves nothing. */
static void tell_damaged(struct hsp_cluster *c, const struct hsp_event *ev,
                         const struct hsp_m_hello *m, const struct hsp_cluster_node *n)
{
    const struct hsp_m_kept *first = NULL;
    uint32_t n_damaged = 0;
    for (uint32_t i = 0; i < m->n_kept; i++) {
        first = m->kept[i].papers_damaged && first == NULL ? &m->kept[i] : first;
        n_damaged += m->kept[i].papers_damaged;
    }
    if (first == NULL || !hsp_ci_may_complain(c, c->damaged, ev->source)) {
        return;
    }
    const struct hsp_job *j = hsp_ci_job(c, first->job);
    const char *job = j != NULL                     ? j->name
                      : hsp_name_valid(first->name) ? first->name
                                                    : hsp_ci_printf(c, "number %u", first->job);
    const char *where =
        n != NULL ? hsp_ci_printf(c, "node %s", n->name)
                  : hsp_ci_printf(c, "an agent at %s that calls itself %s",
                                  ev->peer != NULL ? ev->peer : "an unknown address", m->node);
    struct hsp_fact *f = hsp_ci_fact(
        c, "papers.damaged", HSP_SEV_WARN, NULL, NULL,
        "job-%u.papers in the state folder of %s is damaged: job %s cannot be adopted from it%s",
        first->job, where, job,
        n_damaged > 1 ? hsp_ci_printf(c, ", nor can %u more", n_damaged - 1) : "");
    if (f != NULL && n != NULL) {
        f->node = hsp_ci_printf(c, "%s", n->name);
    }
}

/* Jobs that are behind, or all others. */
static void reconcile(struct hsp_cluster *c, struct hsp_cluster_node *n,
                      const struct hsp_m_hello *m, bool behind)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        if ((c->jobs[i]->state == HSP_JOB_BEHIND) == behind) {
            hsp_ci_reconcile(c, c->jobs[i], n, m);
        }
    }
}

static void take_links(struct hsp_cluster_node *n, const struct hsp_m_hello *m)
{
    n->gone_s = 0;
    n->leaving = false; /* the node says so again */
    n->bye_sent = false;
    (void)snprintf(n->address, sizeof(n->address), "%s", m->address);
    n->same_latency_us = m->same_latency_us;
    n->same_us_per_byte = m->same_us_per_byte;
    n->cross_latency_us = m->cross_latency_us;
    n->cross_us_per_byte = m->cross_us_per_byte;
    n->folder_free = n->folder_seen = m->folder_free;
}

/* @same: its agent has proven to be the one before it; @back: to be that of an older line. A node
 * that was adopted and has not joined yet has none before it here. */
static void new_incarnation(struct hsp_cluster *c, struct hsp_cluster_node *n, bool same,
                            struct hsp_node_line *back, struct hsp_digest before,
                            struct hsp_digest secret)
{
    bool first = n->incarnation == 0;
    if (!same && !first) {
        hsp_ci_change_line(c, n, back);
    }
    n->incarnation = c->next_incarnation++;
    n->same_since = first || (!same && back == NULL) ? n->incarnation : n->same_since;
    n->before = before;
    n->secret = secret;
    hsp_ci_try_anew(c, n);
    hsp_ci_notes_free(n);
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        n->dev[d] = (struct hsp_node_device){.speed = 1};
    }
    hsp_ci_store_term(c);
}

static void take_conn(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t conn, bool anew)
{
    if (anew && !hsp_ci_node_gone(n)) {
        if (n->conn == conn) { /* the connection is not closed: the new agent speaks on it */
            hsp_ci_node_conn(c, n, 0);
        }
        hsp_ci_node_dead(c, n, "a new agent took its place");
    }
    if (n->conn != 0 && n->conn != conn) {
        hsp_ci_close(c, n->conn, "the agent connected again");
    }
    hsp_ci_node_conn(c, n, conn);
    hsp_ci_node_heard(c, n);
    hsp_ci_node_reason(n, "");
}

/* Jobs forget the earlier words of node @at. */
static void jobs_hello(struct hsp_cluster *c, uint32_t at, const struct hsp_m_hello *m, bool anew)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        hsp_ci_held_drop_node(c, j, at);
        marks_hello(c, j, at, anew);
        hsp_ci_doubt_hello(c, j, at, kept_of(m, j->id));
        hsp_ci_behind_hello(c, j, at, kept_of(m, j->id));
        if (j->cur.n_ranks != 0 && HSP_DEVICE_NODE(j->cur.peers[0].device) == at) {
            j->suspend_epoch = 0; /* the message may be lost; a second checkpoint does no harm */
        }
    }
}

/* Tells of @n, which is here. Of a new agent that a job knows by its name alone the event names the
 * likely fault; not of one from @before: the store may be too old to know its folder. @empty: its
 * folder holds no incarnation. */
static void tell_joined(struct hsp_cluster *c, const struct hsp_cluster_node *n, bool anew,
                        bool before, bool empty)
{
    const struct hsp_job *j = NULL;
    for (uint32_t i = 0; i < c->n_jobs && j == NULL && anew && !before; i++) {
        const struct hsp_job *k = c->jobs[i];
        bool lacks = hsp_ci_is_member(c, k, n) && !hsp_ci_proven_member(c, k, n);
        j = lacks && !hsp_job_terminal(k->state) ? k : NULL;
    }
    const char *amiss =
        j == NULL
            ? ""
            : hsp_ci_printf(c,
                            "; its state folder is %s: where state_dir is mistyped, start it with "
                            "the right one, which still has the state of job %s",
                            empty ? "empty, as after a reboot" : "not that of this node", j->name);
    const bool odd = j != NULL && !empty; /* a reboot is no fault: the job names its lack */
    hsp_ci_fact(c, anew ? "node.joined" : "node.adopted", odd ? HSP_SEV_WARN : HSP_SEV_NOTICE, NULL,
                n, "incarnation %llu, %u device%s%s", (unsigned long long)n->incarnation,
                n_computing(n), hsp_s(n_computing(n)), amiss);
}

void hsp_ci_hello(struct hsp_cluster *c, const struct hsp_event *ev)
{
    const struct hsp_m_hello *said = &ev->u.msg->u.hello;
    struct hsp_m_hello full = *said;
    const struct hsp_m_hello *m = &full;
    uint32_t conn = ev->conn;
    (void)hsp_ci_unpark(c, conn);
    full.kept = hsp_ci_kept(c, said, &full.n_kept);
    if (full.kept == NULL) {
        return;
    }
    if (full.n_kept > HSP_MSG_KEPT) {
        hsp_ci_close(c, conn, hsp_ci_printf(c, "it names more than %u jobs", HSP_MSG_KEPT));
        return;
    }
    struct hsp_cluster_node *n = identify(c, ev, m);
    if (hsp_name_valid(m->node)) {
        tell_damaged(c, ev, m, n);
    }
    if (n == NULL) {
        return;
    }
    uint32_t at = hsp_ci_index_of(c, n);
    hsp_ci_take_evidence(c, n, m);
    struct hsp_digest told = hsp_ci_incarnation_shown(c, m);
    bool same = hsp_ci_proves(n, m), before = hsp_ci_from_before(c, n, m);
    struct hsp_node_line *back = same ? NULL : hsp_ci_comes_back(n, m);
    bool anew =
        hsp_digest_is_zero(told) || !hsp_digest_equal(told, n->secret) || hsp_ci_node_gone(n);
    bool first = n->generation != c->generation; /* hello of it in this generation */
    n->unheard = false;
    n->generation = c->generation;
    take_conn(c, n, conn, anew);
    take_links(n, m);
    hsp_ci_measure_hello(c, n, anew);
    if (anew) {
        /* WELCOME may be lost, again and again: then the agent shows the same one as now. */
        struct hsp_digest shown =
            same || before || back != NULL ? m->was : (struct hsp_digest){0, 0};
        new_incarnation(c, n, same, back, shown,
                        before && !hsp_digest_is_zero(told) ? told : ev->random);
    }
    if (anew || first) {
        hsp_ci_store_node(c, n);
    }
    take_cards(c, n, m);
    take_devices(c, n, m);
    hsp_ci_take_paths(c, n, m);
    jobs_hello(c, at, m, anew);
    free_behind(c, at, m);
    welcome(c, n);
    tell_adopted(c, at, m);
    hsp_ci_end_over(c, n, m);
    tell_joined(c, n, anew, before, hsp_digest_is_zero(m->was));
    /* devices that run these jobs are theirs, also where other jobs have pieces there */
    reconcile(c, n, m, true);
    for (uint32_t i = 0; i < m->n_holdings; i++) {
        take_piece(c, n, &m->holdings[i], kept_of(m, m->holdings[i].job));
    }
    reconcile(c, n, m, false);
    hsp_ci_behind_tidy(c);
}

void hsp_ci_conn_closed(struct hsp_cluster *c, uint32_t conn)
{
    struct hsp_cluster_node *n = hsp_ci_node_of_conn(c, conn);
    if (hsp_ci_unpark(c, conn) || n == NULL) {
        return;
    }
    hsp_ci_node_conn(c, n, 0);
    if (c->behind) {
        hsp_ci_node_state(c, n, HSP_NODE_SUSPECT);
        return;
    }
    if (n->bye_sent) {
        hsp_ci_node_state(c, n, HSP_NODE_LEFT);
        hsp_ci_node_dead(c, n, "left as planned");
        return;
    }
    if (n->state == HSP_NODE_LIVE) {
        hsp_ci_node_state(c, n, HSP_NODE_SUSPECT);
        hsp_ci_fact(c, "node.suspect", HSP_SEV_INFO, NULL, n, "connection closed");
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job_mark *k = hsp_ci_marked(c->jobs[i], hsp_ci_index_of(c, n));
        if (k != NULL && k->blamed) {
            hsp_ci_node_dead(c, n, "connection closed, and a peer lost it too");
            return;
        }
    }
}

void hsp_ci_nodes_tick(struct hsp_cluster *c)
{
    if (c->behind) {
        return; /* a death would be a loss to act on */
    }
    for (uint32_t i = 0; c->n_away > 0 && c->now_ms >= c->grace_ms && i < c->n_nodes; i++) {
        struct hsp_cluster_node *n = &c->nodes[i];
        if (n->state == HSP_NODE_AWAY) {
            hsp_ci_node_dead(
                c, n,
                hsp_cluster_parked_by_name(c, n->name) != NULL
                    ? "did not come back after hspmdd began again; an agent of its name is "
                      "connected and not a member: its own line shows the reason"
                    : "did not come back after hspmdd began again; start its agent there");
        }
    }
    while (c->first_live != HSP_NO_NODE &&
           c->now_ms >= c->nodes[c->first_live].last_ms + c->cfg.suspect_ms) {
        struct hsp_cluster_node *n = &c->nodes[c->first_live];
        hsp_ci_node_state(c, n, HSP_NODE_SUSPECT);
        hsp_ci_fact(c, "node.suspect", HSP_SEV_INFO, NULL, n, "a heartbeat is missing");
    }
    while (c->oldest != HSP_NO_NODE && c->nodes[c->oldest].state == HSP_NODE_SUSPECT &&
           c->now_ms >= c->nodes[c->oldest].last_ms + c->cfg.dead_ms) {
        struct hsp_cluster_node *n = &c->nodes[c->oldest];
        hsp_ci_node_dead(
            c, n,
            hsp_ci_printf(c, "silent for %llu ms", (unsigned long long)(c->now_ms - n->last_ms)));
    }
    hsp_ci_answers_late(c);
}

void hsp_ci_executor_dead(struct hsp_cluster *c, struct hsp_cluster_node *n,
                          const struct hsp_m_dead *m)
{
    uint32_t at = hsp_ci_index_of(c, n);
    struct hsp_node_device *d = &n->dev[m->device];
    hsp_ci_node_dirty(c, n);
    hsp_ci_jobs_dirty(c);
    if (!d->present) {
        return;
    }
    d->up = false;
    d->ending = 0;
    d->restart_ms = c->now_ms + m->restart_ms;
    hsp_ci_await(c, HSP_DEVICE(at, m->device));
    const struct hsp_job *lease = hsp_ci_job(c, d->job);
    if (lease != NULL && hsp_ci_not_adopted(lease)) { /* its state is all that is left there */
        hsp_ci_lease(c, HSP_DEVICE(at, m->device), 0);
    }
    if (n->bye_sent) {
        return; /* the node was told to go: so it goes */
    }
    hsp_ci_fact(c, "node.executor_dead", HSP_SEV_WARN, hsp_ci_job(c, d->job), n, "%s/%u: %s",
                n->name, m->device, m->reason);
    hsp_ci_device_lost(c, HSP_DEVICE(at, m->device),
                       hsp_ci_printf(c, "executor %s/%u: %s", n->name, m->device, m->reason));
    struct hsp_job *j = hsp_ci_job(c, d->job);
    struct hsp_epoch_peer *p = j != NULL ? hsp_ci_peer(&j->cur, HSP_DEVICE(at, m->device)) : NULL;
    if (p != NULL) {
        p->started = true; /* a source that was on its way: there is nothing to wait for */
    }
}

void hsp_ci_executor_up(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_up *m)
{
    struct hsp_node_device *d = &n->dev[m->device];
    hsp_ci_node_dirty(c, n);
    hsp_ci_jobs_dirty(c);
    if (d->present) {
        d->up = true;
        (void)snprintf(d->address, sizeof(d->address), "%s", m->address);
    }
}
