#include "daemon/cluster/attempt_advance.h"

#include <stdlib.h>

#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/ckpt_cuts.h"
#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/replica_holders.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/live_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/cluster_papers.h"
#include "daemon/cluster/rows.h"
#include "proto/wire/protocol.h"

static const struct hsp_prepare_action *prepare_action(struct hsp_cluster *c, struct hsp_job *j)
{
    const struct hsp_cl_epoch *e = &j->att;
    struct hsp_prepare_action *p = hsp_ci_alloc(c, 1, sizeof(*p));
    struct hsp_prepare_peer *peers = hsp_ci_alloc(c, e->n_peers, sizeof(*peers));
    if (c->failed) {
        return p;
    }
    for (uint32_t i = 0; i < e->n_peers; i++) {
        peers[i].device = e->peers[i].device;
        peers[i].address = hsp_ci_printf(c, "%s", hsp_ci_device(c, peers[i].device)->address);
    }
    *p = (struct hsp_prepare_action){e->n_peers,           peers,      e->n_sources, e->sources,
                                     e->n_replica_holders, e->n_apart, e->apart,     e->buckets};
    return p;
}

/* All nodes that write into one folder must use the same names for unfinished checkpoints. */
static bool old_name(const struct hsp_cluster *c, const struct hsp_job *j)
{
    bool old = false;
    for (uint32_t i = 0; i < j->att.n_ranks && j->checkpoint_shared; i++) {
        uint32_t protocol = hsp_ci_node(c, j->att.peers[i].device)->protocol;
        old = old || (protocol != 0 && protocol < HSP_PROTO_ATTEMPTS);
    }
    return old;
}

/* Whether the agents of the first @n peers all speak protocol @least. Executors of older ones would
 * not answer notes of steps, and could not read bindings with buckets. */
static bool all_speak(struct hsp_cluster *c, const struct hsp_cl_epoch *e, uint32_t n,
                      uint32_t least)
{
    bool all = true;
    for (uint32_t i = 0; all && i < n; i++) {
        all = hsp_ci_node(c, e->peers[i].device)->protocol >= least;
    }
    return all;
}

static void send_prepare(struct hsp_cluster *c, struct hsp_job *j, uint32_t rank,
                         const struct hsp_prepare_action *shared)
{
    struct hsp_cl_epoch *e = &j->att;
    const struct hsp_ckpt_mark none = {0};
    const struct hsp_ckpt_mark *ckpt = e->mode == HSP_MODE_RESTORE ? &j->origin_ckpt : &none;
    struct hsp_ckpt_cuts cuts;
    hsp_ci_cuts_of(j, e, &cuts);
    struct hsp_msg m = {.type = HSP_MSG_PREPARE,
                        .epoch = e->epoch,
                        .u.prepare = {.job = j->id,
                                      .job_name = j->name,
                                      .cluster = c->id,
                                      .generation = c->generation,
                                      .device = HSP_DEVICE_INDEX(e->peers[rank].device),
                                      .rank = rank,
                                      .n_ranks = e->n_ranks,
                                      .n_keepers = e->n_replica_holders,
                                      .n_peers = e->n_peers,
                                      .mode = e->mode,
                                      .plan = e->plan,
                                      .from_plan = e->from_plan,
                                      .step = e->mode == HSP_MODE_SWITCH ? 0 : e->step,
                                      .void_from = hsp_ci_plan(j, e->plan)->void_from,
                                      .base_epoch = e->base_epoch,
                                      .steps = j->steps,
                                      .checkpoint_every = j->checkpoint_every,
                                      .data_path = j->data_path,
                                      .checkpoint_path = j->checkpoint_path,
                                      .checkpoint_shared = j->checkpoint_shared,
                                      .ckpt_term = ckpt->term,
                                      .ckpt_epoch = ckpt->epoch,
                                      .ckpt_content = ckpt->content,
                                      .ckpt_cluster = hsp_ci_ckpt_cluster(c, j),
                                      .n_cuts = cuts.n,
                                      .cuts = cuts.cut,
                                      .ckpt_old_name = e->old_name,
                                      .data_tls = e->data_tls,
                                      .trusted_network = e->trusted,
                                      .silent_ms = c->cfg.dead_ms,
                                      .share_notes = e->share_notes,
                                      .due_every = e->due ? HSP_DUE_AUTO : 0,
                                      .live = e->live,
                                      .keeps = e->keeps,
                                      .keep = e->keep}};
    hsp_ci_send(c, hsp_ci_node(c, e->peers[rank].device)->conn, &m);
    if (c->failed) {
        return;
    }
    struct hsp_action *a = &c->actions[c->n_actions - 1];
    a->type = HSP_ACT_PREPARE;
    a->job = j->id;
    a->plan_no = e->plan;
    a->u.prepare = shared;
    e->peers[rank].prepare_sent = true;
}

/* Each connection is told of by both of its ends. */
static struct hsp_links links_of(const struct hsp_cl_epoch *e)
{
    struct hsp_links n = {0};
    for (uint32_t i = 0; i < e->n_peers; i++) {
        n.shm += e->peers[i].links.shm;
        n.local += e->peers[i].links.local;
        n.tls += e->peers[i].links.tls;
        n.tcp += e->peers[i].links.tcp;
    }
    return (struct hsp_links){n.shm / 2, n.local / 2, n.tls / 2, n.tcp / 2};
}

/* Notes the holder of each piece from now on: only these nodes are believed to have the pieces. */
static void note_holders(struct hsp_cluster *c, struct hsp_job_plan *p,
                         const struct hsp_cl_epoch *e)
{
    uint32_t n = hsp_ci_participants(e);
    p->holder = p->holder != NULL ? p->holder : calloc(n, sizeof(*p->holder));
    for (uint32_t i = 0; p->holder != NULL && i < n; i++) {
        p->holder[i] = e->peers[i].incarnation;
    }
    c->failed = c->failed || p->holder == NULL;
}

/* Versions beyond the one that the attempt goes on from are made again, also stable ones. */
static void go_back(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->att.mode != HSP_MODE_RECOVER || j->att.step >= j->stable) {
        return;
    }
    hsp_ci_state_lost(c, j, j->stable, j->att.step);
    j->stable = j->att.step;
}

/* Notes the version of which @e makes its first one, after a loss alone. Every rank that leaves a
 * layout by a switch has voted for the version; a loss may leave a version that no vote has
 * compared. */
static void note_made_of(struct hsp_job_plan *p, const struct hsp_cl_epoch *e)
{
    if (e->mode == HSP_MODE_RECOVER && e->from_plan == e->plan) {
        return; /* its versions come from the same version as before */
    }
    bool recovers = e->mode == HSP_MODE_RECOVER;
    p->from_plan = recovers ? e->from_plan : 0;
    p->from_step = recovers ? e->step : 0;
}

static void go(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_cl_epoch *e = &j->att;
    struct hsp_job_plan *p = hsp_ci_plan(j, e->plan);
    e->links = links_of(e);
    e->phase = HSP_ATT_GO;
    e->deadline_ms = HSP_NEVER;
    e->trace.go_ms = c->now_ms;

    /* A layout used before may have versions; nodes that joined since know none of them. */
    if (!p->started) {
        p->since = c->next_incarnation;
    }
    p->started = true;
    p->epoch = e->epoch;
    p->void_from = UINT64_MAX;   /* every READY says that the versions given up are deleted there */
    p->damaged = p->awaited = 0; /* later versions than the first one are made again */
    note_made_of(p, e);
    note_holders(c, p, e);
    go_back(c, j);
    hsp_ci_mark_ran(c, j, e);
    j->anew = j->unheard = false;
    hsp_ci_store_plan(c, j, p);
    hsp_ci_store_job(c, j);
    struct hsp_fact *f =
        hsp_ci_fact(c, "switch.phase", HSP_SEV_INFO, j, NULL, "epoch %llu %s",
                    (unsigned long long)e->epoch, e->mode == HSP_MODE_SWITCH ? "armed" : "starts");
    if (f != NULL) {
        f->epoch = e->epoch;
    }
}

static void send_go(struct hsp_cluster *c, struct hsp_job *j, struct hsp_epoch_peer *p)
{
    struct hsp_msg m = {.epoch = j->att.epoch};
    if (j->att.mode == HSP_MODE_SWITCH) {
        m.type = HSP_MSG_ARM;
        m.u.devref.job = j->id;
        m.u.devref.device = HSP_DEVICE_INDEX(p->device);
    } else {
        m.type = HSP_MSG_START;
        m.u.start = (struct hsp_m_start){j->id, HSP_DEVICE_INDEX(p->device), j->att.step};
    }
    hsp_ci_send(c, hsp_ci_node(c, p->device)->conn, &m);
    p->go_sent = true;
}

/* Peer @d holds the attempt up. */
static void missed(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d, const char *why)
{
    if (hsp_ci_refuse_replica_holder(c, j, d, why)) {
        hsp_ci_attempt_refused(c, j, why); /* the job can do without the replica holder */
    } else {
        hsp_ci_attempt_fail(c, j, why);
    }
}

static void wait_up(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_cl_epoch *e = &j->att;
    for (uint32_t i = 0; i < e->n_peers; i++) {
        const struct hsp_cluster_node *n = hsp_ci_node(c, e->peers[i].device);
        if (n->conn == 0 || !hsp_ci_device(c, e->peers[i].device)->up) {
            if (c->now_ms >= e->deadline_ms) {
                missed(c, j, e->peers[i].device,
                       hsp_ci_printf(c, "%s did not come up",
                                     hsp_ci_device_name(c, e->peers[i].device)));
            }
            return;
        }
    }
    e->share_notes = all_speak(c, e, e->n_peers, HSP_PROTO_NOTES);
    e->buckets = all_speak(c, e, e->n_ranks, HSP_PROTO_BUCKETS);
    e->due = all_speak(c, e, e->n_peers, HSP_PROTO_DUE);
    e->live = j->copies >= 2 && all_speak(c, e, e->n_peers, HSP_PROTO_LIVE) &&
              hsp_ci_replicated(&hsp_ci_plan(j, e->plan)->info);
    e->old_name = old_name(c, j);
    e->phase = HSP_ATT_PREPARING;
    e->deadline_ms = c->now_ms + c->cfg.prepare_ms;
    e->trace.prepare_ms = c->now_ms;
}

static void timed_out(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_plan_fact fact = {HSP_FACT_TIMEOUT, d, d, 0, 0};
    const char *why = hsp_ci_printf(c, "did not get ready within %u ms", c->cfg.prepare_ms);
    if (!hsp_ci_device(c, d)->replica_holder) {
        hsp_ci_learn(c, j, &fact, 0, why);
    }
    missed(c, j, d, hsp_ci_printf(c, "%s %s", hsp_ci_device_name(c, d), why));
}

static void papers_again(struct hsp_cluster *c, const struct hsp_job *j)
{
    struct hsp_papers_round papers = {0};
    for (uint32_t i = 0; i < j->att.n_peers; i++) {
        hsp_ci_papers_send(c, j, HSP_DEVICE_NODE(j->att.peers[i].device), &papers);
    }
}

void hsp_ci_attempt_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_cl_epoch *e = &j->att;
    if (e->phase == HSP_ATT_WAIT_UP) {
        wait_up(c, j);
    }
    if (e->epoch != 0 && e->phase == HSP_ATT_PREPARING) {
        const struct hsp_prepare_action *shared = NULL;
        struct hsp_papers_round papers = {0};
        bool ready = true;
        for (uint32_t i = 0; i < e->n_peers; i++) {
            struct hsp_epoch_peer *p = &e->peers[i];
            if (!p->ready && c->now_ms >= e->deadline_ms) {
                timed_out(c, j, p->device);
                return;
            }
            if (!p->prepare_sent && hsp_ci_node(c, p->device)->conn != 0) {
                shared = shared != NULL ? shared : prepare_action(c, j);
                hsp_ci_papers_send(c, j, HSP_DEVICE_NODE(p->device), &papers);
                send_prepare(c, j, i, shared);
            }
            ready = ready && p->ready;
        }
        bool news = !j->data_known || hsp_ci_plan(j, e->plan)->void_from != UINT64_MAX;
        if (ready && hsp_ci_data_agrees(c, j)) {
            e->trace.ready_ms = c->now_ms;
            go(c, j);
            if (news) { /* the papers were made before */
                papers_again(c, j);
            }
        }
    }
    if (e->epoch != 0 && e->phase == HSP_ATT_GO) {
        bool all = true;
        for (uint32_t i = 0; i < e->n_peers; i++) {
            struct hsp_epoch_peer *p = &e->peers[i];
            if (!p->go_sent && !p->started && hsp_ci_node(c, p->device)->conn != 0) {
                send_go(c, j, p);
            }
            all = all && p->started;
        }
        if (all) {
            hsp_ci_promote(c, j);
        }
    }
}
