#include "daemon/cluster/epoch_messages.h"

#include <string.h>

#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/behind.h"
#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/ckpt_look.h"
#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/replica_holders.h"
#include "daemon/cluster/kept_state.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/node_fault.h"
#include "daemon/cluster/node_loss.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/progress.h"
#include "daemon/cluster/reach_rounds.h"
#include "daemon/cluster/reconcile.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/slow.h"
#include "daemon/cluster/state_damage.h"
#include "daemon/cluster/suspend.h"
#include "proto/base/str.h"

#define SHAPE_MS 30000u /* between looks whether state fits hspmdd again: people must act */

/* ---- preparing and starting ---- */

/* READY of an attempt that was begun before a restart; the HELLO came too early to tell of it.
 * Without DROP no other job could use the device. */
static void not_begun(struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    struct hsp_msg drop = {
        .type = HSP_MSG_DROP, .epoch = m->epoch, .u.devref = {j->id, m->u.ready.device}};
    hsp_ci_send(c, n->conn, &drop);
}

static void ready(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                  const struct hsp_msg *m)
{
    const struct hsp_m_ready *r = &m->u.ready;
    hsp_device_id d = HSP_DEVICE(hsp_ci_index_of(c, n), r->device);
    struct hsp_epoch_peer *p = hsp_ci_peer(&j->att, d);
    if (m->epoch != j->att.epoch || j->att.phase != HSP_ATT_PREPARING || p == NULL) {
        return;
    }
    p->data_bytes = r->data_bytes;
    p->data_tokens = r->data_tokens;
    p->data_digest = r->data_digest;
    p->links = (struct hsp_links){r->links_shm, r->links_unix, r->links_tls, r->links_tcp};
    p->ready = true;
}

/* Nodes whose ranks have lost each other, or cannot connect. */
struct pair {
    uint64_t epoch; /* 0: there are no two */
    uint32_t a, b;
};

static struct pair pair_of(const struct hsp_cl_epoch *e, uint64_t epoch, uint32_t by, uint32_t peer)
{
    struct pair p = {.epoch = 0};
    if (e->epoch == epoch && by < e->n_peers && peer < e->n_peers) {
        p.a = HSP_DEVICE_NODE(e->peers[by].device);
        p.b = HSP_DEVICE_NODE(e->peers[peer].device);
        p.epoch = p.a != p.b ? epoch : 0;
    }
    return p;
}

/* The job goes on when its nodes have called each other: other nodes, or none, may tell which pair
 * is broken. Where the cause is known, the job goes on at once: the pair is broken, or one of the
 * two is dead. */
static void suspect(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                    struct pair p, bool silent)
{
    uint32_t at = hsp_ci_index_of(c, n);
    if (p.epoch == 0 || hsp_ci_apart(c, p.a, p.b) || hsp_ci_node_gone(&c->nodes[p.a]) ||
        hsp_ci_node_gone(&c->nodes[p.b])) {
        return;
    }
    if (silent) {
        hsp_ci_pair_suspect(c, j, p.epoch, p.a, p.b, at == p.a || at == p.b);
    }
    /* silence has lasted longer than the round */
    j->wants_round = j->wants_round || !silent || !hsp_ci_round_covers(c, j, p.a, p.b);
}

/* The attempt ended for the first report of a peer, whose cause was no failure of the job. */
static void forgive(struct hsp_job *j, uint64_t epoch)
{
    if (j->over.epoch == epoch && j->over_counts) {
        j->over_counts = false;
        j->failures -= j->failures > 0;
    }
}

/* A member keeps sealed state that this hspmdd would lay out otherwise: no epoch may write over
 * it. */
static void other_shape(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_m_failed *f,
                        const char *why)
{
    struct hsp_job_plan *p = hsp_ci_plan(j, j->att.plan);
    if (p != NULL && f->amount == 0) {
        p->other_shape = true;
    }
    hsp_ci_attempt_refused(c, j, why);
    if (f->amount != 0) { /* until somebody has mended the fault that @why names */
        j->retry_ms = c->now_ms + SHAPE_MS;
    }
}

static void prepare_failed(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                           const struct hsp_msg *m)
{
    const struct hsp_m_failed *f = &m->u.failed;
    hsp_device_id d = HSP_DEVICE(hsp_ci_index_of(c, n), f->device);
    const char *why = hsp_ci_printf(c, "%s: %s", hsp_ci_device_name(c, d), f->reason);
    bool data = f->fact == HSP_FACT_NO_DATA;
    if (data) { /* also when another node has ended the attempt: one that has no text has none */
        hsp_ci_data_refuse(c, j, d, f->fact, why, NULL);
    }
    if (f->fact == HSP_FACT_CANNOT_CONNECT) { /* the same: it may not have known the pair */
        const struct hsp_cl_epoch *e = m->epoch == j->att.epoch ? &j->att : &j->over;
        suspect(c, j, n, pair_of(e, m->epoch, f->by, f->peer), f->silent);
    }
    bool folder = hsp_ci_is_folder_fault(f);
    if (folder) { /* the same: of use to no job */
        hsp_ci_node_fault(c, n, why);
        forgive(j, m->epoch);
    }
    if (m->epoch != j->att.epoch || j->att.phase != HSP_ATT_PREPARING) {
        return;
    }
    if (data || folder) {
        hsp_ci_attempt_refused(c, j, why);
        return;
    }
    if (f->fact == HSP_FACT_STATE_SHAPE) {
        other_shape(c, j, f, why);
        return;
    }
    /* as the device says itself */
    bool lacks = f->fact == HSP_FACT_NO_STATE && f->peer >= HSP_MSG_RANKS;
    if (lacks && hsp_ci_state_missing(c, j, d)) {
        hsp_ci_attempt_refused(c, j, why); /* others have it, or another version is chosen */
        return;
    }
    hsp_device_id peer = f->peer < j->att.n_peers ? j->att.peers[f->peer].device : d;
    if (hsp_ci_refuse_replica_holder(c, j, d, why) ||
        hsp_ci_refuse_replica_holder(c, j, peer, why)) {
        hsp_ci_attempt_refused(c, j, why); /* the job can do without */
        return;
    }
    if (HSP_DEVICE_NODE(d) == HSP_DEVICE_NODE(peer)) { /* else it is a fact about nodes */
        const struct hsp_plan_fact fact = {f->fact, d, peer, f->amount, 0};
        hsp_ci_learn(c, j, &fact, 0, f->reason);
    }
    hsp_ci_attempt_fail(c, j, why);
}

static void started(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                    const struct hsp_msg *m)
{
    const struct hsp_m_started *s = &m->u.started;
    struct hsp_epoch_peer *p = hsp_ci_peer(&j->att, HSP_DEVICE(hsp_ci_index_of(c, n), s->device));
    struct hsp_epoch_peer *late =
        hsp_ci_peer(&j->cur, HSP_DEVICE(hsp_ci_index_of(c, n), s->device));
    if (hsp_ci_job_runs(j) && m->epoch == j->cur.epoch && late != NULL) {
        late->started = true; /* a source: ranks have, the first vote says so */
    } else if (hsp_ci_attempt_gone(j) && m->epoch == j->att.epoch && p != NULL) {
        p->started = true;
        if (p == &j->att.peers[0] && j->att.mode == HSP_MODE_SWITCH) {
            j->att.step = s->step; /* else START said it */
        }
        j->att.trace.transfer_bytes += s->transfer_bytes;
        j->att.trace.passed_on_bytes += s->passed_on_bytes;
        if (s->transfer_ms > j->att.trace.transfer_ms) {
            j->att.trace.transfer_ms = s->transfer_ms;
        }
    }
}

/* ---- steps and the end ---- */

/* Its first vote passed: the state is whole and copied in the layout of this epoch, older ones may
 * go. */
static void settle(struct hsp_cluster *c, struct hsp_job *j)
{
    j->cur.settled = true;
    j->cur.trace.first_step_ms = c->now_ms;
    hsp_ci_job_dirty(c, j);
    for (uint32_t i = 0; i < j->n_leases; i++) {
        if (hsp_ci_device(c, j->leases[i])->ask == HSP_ASK_NONE) {
            hsp_ci_ask(c, j->leases[i], HSP_ASK_RELEASE);
        }
    }
    struct hsp_epoch_trace *t = hsp_ci_alloc(c, 1, sizeof(*t));
    struct hsp_fact *f =
        hsp_ci_fact(c, "switch.end", HSP_SEV_NOTICE, j, NULL, "epoch %llu runs from step %llu",
                    (unsigned long long)j->cur.epoch, (unsigned long long)j->cur.step);
    if (f != NULL && t != NULL) {
        *t = j->cur.trace;
        f->trace = t;
        f->cause = hsp_ci_printf(c, "%s", j->cur.cause);
        f->step = j->cur.step;
        f->lost_steps = j->lost_from > j->cur.step ? j->lost_from - j->cur.step : 0;
    }
    j->cause[0] = j->damage[0] = '\0';
    j->detect_ms = j->sealed_ms = j->planned_ms = 0;
    hsp_ci_store_job(c, j);
    while (j->n_plans > 0 && j->plans[0].plan < j->cur.plan) {
        hsp_ci_drop_plan(c, j, j->plans[0].plan);
    }
}

/* Appends the line of the metrics, also for an epoch that is over: after a reconnect agents repeat
 * lines that may have been lost on the way. */
static bool record_step(struct hsp_cluster *c, const struct hsp_job *j, const struct hsp_msg *m)
{
    struct hsp_msg *copy = hsp_ci_alloc(c, 1, sizeof(*copy));
    if (copy == NULL || hsp_msg_clone(m, c->arena, copy, NULL) != HSP_OK) {
        c->failed = true;
        return false;
    }
    struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_METRIC);
    a->job = j->id;
    a->msg = copy;
    return true;
}

/* @j does not run: @s is told by the successor of rank 0, or again behind a restart of hspmdd, or
 * its vote passed before the executors stopped. */
static void step_told_late(struct hsp_job *j, const struct hsp_m_step *s)
{
    uint64_t made = s->final ? s->step : s->step + 1;
    j->lost_from = made > j->lost_from ? made : j->lost_from;
}

/* STEP of a job that HELLO may have ended. The row is stored when the leases go. */
static void step_at_rest(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_msg *m)
{
    bool last = j->n_past > 0 && j->past[j->n_past - 1].epoch == m->epoch;
    if (record_step(c, j, m) && last) {
        step_told_late(j, &m->u.step);
    }
}

/* STEP of rank 0, or repeated by its successor: the word of the successor is kept, and moves
 * nothing. */
static void step_done(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                      const struct hsp_msg *m)
{
    const struct hsp_m_step *s = &m->u.step;
    bool first = hsp_ci_first_of(c, j, n, m->epoch) != NULL;
    if (first && m->epoch == j->att.epoch) {
        if (j->att.mode == HSP_MODE_SWITCH && j->att.step == 0) {
            j->att.step = s->step;
        }
        hsp_ci_job_dirty(c, j);
        hsp_ci_promote(c, j); /* a vote passed: all have started, also where STARTED was lost */
    }
    if (!record_step(c, j, m) || m->epoch != j->cur.epoch) {
        return;
    }
    if (!hsp_ci_job_runs(j)) {
        step_told_late(j, s);
        return;
    }
    uint64_t stable = s->step > s->ahead ? s->step - s->ahead : 0;
    bool heard = j->passed > j->cur.step; /* else `stable` may be an old one of the store */
    if (heard && stable > j->stable && j->stable >= j->cur.step) {
        j->cur.due_steps = stable - j->stable;
    }
    j->passed = s->step > j->passed ? s->step : j->passed;
    j->failures = stable > j->stable ? 0 : j->failures;
    j->stable = stable > j->stable ? stable : j->stable;
    if (!first) {
        return;
    }
    j->suspend_unheard = false;
    if (!j->cur.settled) {
        settle(c, j);
    }
    hsp_ci_watch_step(c, j, s);
    hsp_ci_progress_vote(c, j, s);
    if (s->final || j->retune) {
        hsp_ci_job_dirty(c, j);
    }
    if (s->final && j->state == HSP_JOB_RUNNING) {
        hsp_ci_job_move(c, j, HSP_JOB_FINISHING);
        hsp_ci_store_job(c, j);
    } else if (s->final && j->state == HSP_JOB_SWITCHING && !hsp_ci_attempt_gone(j)) {
        hsp_ci_attempt_drop(c, j, "the last step is done");
        hsp_ci_job_move(c, j, HSP_JOB_FINISHING);
        hsp_ci_store_job(c, j);
    }
}

static void finished(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                     const struct hsp_msg *m)
{
    uint64_t epoch = m->epoch;
    const char *damage = m->u.finished.damage, *lacking = m->u.finished.lacking;
    if (hsp_ci_attempt_gone(j) && epoch == j->att.epoch) {
        hsp_ci_promote(c, j);
    }
    /* outputs are written: done, also where something broke meanwhile */
    if (epoch == j->cur.epoch) {
        j->stable = j->steps;
        if (m->blob_len > 0) {
            (void)record_step(c, j, m);
        }
        if (damage != NULL && damage[0] != '\0') {
            hsp_ci_fact(c, "metrics.damaged", HSP_SEV_WARN, j, n, "%s", damage);
        }
        if (lacking != NULL && lacking[0] != '\0') {
            hsp_ci_fact(c, "metrics.gap", HSP_SEV_WARN, j, n,
                        "final/metrics.jsonl has no line of %s; hspmdctl metrics shows the lines "
                        "that hspmdd received",
                        lacking);
        }
        hsp_ci_job_done(c, j, n);
    }
}

/* ---- losses ---- */

/* How much @cause explains: a rank aborted by another does not know why; a rank that names a lost
 * peer may have lost it for the cause that the peer itself tells. */
static int explains(const char *cause)
{
    return strstr(cause, ": aborted by rank ") != NULL ? 0
           : strstr(cause, " lost peer ") != NULL      ? 1
                                                       : 2;
}

/* Takes over the cause from the rank that aborted the epoch: its message comes behind those of
 * ranks that have only noticed the abort. */
static void cause_known(struct hsp_job *j, const char *cause)
{
    if (j->cause_open && explains(cause) > explains(j->cause)) {
        if (strncmp(j->reason, j->cause, strlen(j->cause)) == 0) {
            hsp_str_printf(j->reason, sizeof(j->reason), "%s", cause);
        }
        hsp_str_printf(j->cause, sizeof(j->cause), "%s", cause);
    }
}

static void peer_lost(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                      const struct hsp_msg *m)
{
    const struct hsp_m_lost *l = &m->u.lost;
    bool cur = hsp_ci_job_runs(j) && m->epoch == j->cur.epoch;
    bool att = j->att.epoch != 0 && m->epoch == j->att.epoch;
    bool sealing = j->state == HSP_JOB_SEALING && m->epoch <= j->seal_upto && m->epoch != 0;
    if (!cur && !att && !sealing) {
        return;
    }
    const struct hsp_cl_epoch *e = att ? &j->att : &j->cur;
    struct hsp_cluster_node *blamed = NULL;
    if (e->epoch == m->epoch && l->peer < e->n_peers) {
        blamed = hsp_ci_node(c, e->peers[l->peer].device);
        blamed = blamed == n ? NULL : blamed;
    }
    const char *cause =
        l->peer >= HSP_MSG_RANKS
            ? hsp_ci_printf(c, "%s/%u: %s", n->name, l->device, l->reason) /* its own trouble */
            : hsp_ci_printf(c, "%s/%u lost peer %u%s%s: %s", n->name, l->device, l->peer,
                            blamed != NULL ? " on " : "", blamed != NULL ? blamed->name : "",
                            l->reason);
    struct pair pair = l->silent ? pair_of(e, m->epoch, l->by, l->peer) : (struct pair){0};
    if (att && !hsp_ci_attempt_gone(j)) {
        hsp_ci_attempt_fail(c, j, cause);
    } else if (cur || att) {
        hsp_ci_job_loss(c, j, cause);
        j->cause_open = explains(j->cause) == 0;
    } else {
        cause_known(j, cause);
    }
    if (blamed != NULL && !hsp_ci_node_gone(blamed) && !(att && l->before_start)) {
        hsp_ci_mark(c, j, hsp_ci_index_of(c, blamed))->blamed = true;
        if (blamed->conn == 0 && blamed->state == HSP_NODE_SUSPECT) {
            hsp_ci_node_dead(c, blamed, "connection closed, and a peer lost it too");
        }
    }
    suspect(c, j, n, pair, true);
}

/* An epoch that runs broke, and the first to say so may not know why: another has aborted it, or
 * its communicator does not tell. The nodes call each other once, at the price of a round trip
 * where all answer; an attempt over a broken pair takes as long as silence does. */
static void lost_nobody(struct hsp_job *j)
{
    bool had = j->round != 0 || j->round_upto == j->seal_upto;
    j->wants_round = j->wants_round || (j->state == HSP_JOB_SEALING && !had);
}

/* Also the first attempt, when its beginning is wrong: it is so on every try. Also an epoch that
 * another rank has reported as broken before: the failed rank took it down. A member that does not
 * train can only be lost. */
static void job_failed(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                       const struct hsp_msg *m)
{
    const struct hsp_m_jobfail *f = &m->u.jobfail;
    const struct hsp_cl_epoch *e = m->epoch == j->cur.epoch ? &j->cur : &j->att;
    const struct hsp_epoch_peer *p = hsp_ci_peer(e, HSP_DEVICE(hsp_ci_index_of(c, n), f->device));
    bool first = j->att.mode == HSP_MODE_FRESH || j->att.mode == HSP_MODE_RESTORE;
    bool recovers = j->state == HSP_JOB_SEALING || j->state == HSP_JOB_RECOVERING;
    if ((uint32_t)(p - e->peers) >= e->n_ranks) {
        struct hsp_msg lost = {
            .type = HSP_MSG_PEER_LOST,
            .epoch = m->epoch,
            .u.lost = {
                .job = j->id, .device = f->device, .peer = HSP_MSG_RANKS, .reason = f->reason}};
        peer_lost(c, j, n, &lost);
    } else if (e == &j->cur ? hsp_ci_job_runs(j) || recovers : first) {
        hsp_ci_job_end(c, j, HSP_JOB_FAILED, f->reason);
    }
}

static void sealed(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                   const struct hsp_msg *m)
{
    uint32_t at = hsp_ci_index_of(c, n);
    struct hsp_job_mark *k = hsp_ci_marked(j, at);
    bool sealing = j->state == HSP_JOB_SEALING || j->state == HSP_JOB_FAILED;
    if (!sealing || m->epoch != j->seal_upto || k == NULL || k->seal == 0) {
        return;
    }
    k->seal = 0;
    if (j->state == HSP_JOB_FAILED) {
        hsp_ci_replica_holder_sealed(c, j, n);
        return;
    }
    hsp_ci_held_drop_node(c, j, at);
    for (uint32_t i = 0; i < m->u.sealed.n_holdings; i++) {
        const struct hsp_m_holding *h = &m->u.sealed.holdings[i];
        if (h->job == j->id && hsp_ci_may_hold(c, j, n, h)) {
            struct hsp_state_piece p = {HSP_DEVICE(at, h->device), h->plan, h->version, h->rank,
                                        h->owner};
            hsp_ci_held_add(c, j, &p);
        }
    }
}

/* STOPPED and RELEASED. */
static void let_go(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                   const struct hsp_msg *m)
{
    struct hsp_node_device *v = &n->dev[m->u.devref.device];
    hsp_device_id d = HSP_DEVICE(hsp_ci_index_of(c, n), m->u.devref.device);
    enum hsp_device_ask ask = m->type == HSP_MSG_STOPPED ? HSP_ASK_STOP : HSP_ASK_RELEASE;
    if (v->job != j->id || v->ask != ask || !v->asked) {
        return;
    }
    v->ask = HSP_ASK_NONE;
    const struct hsp_epoch_peer *p = hsp_ci_peer(&j->cur, d);
    if (ask == HSP_ASK_STOP || p == NULL ||
        (uint32_t)(p - j->cur.peers) >= hsp_ci_participants(&j->cur)) {
        hsp_ci_lease(c, d, 0);
    }
    if (!hsp_ci_releasing(c, j)) { /* the last one: a row for each would be many */
        hsp_ci_store_leases(c, j);
    }
    hsp_ci_node_dirty(c, n);
    hsp_ci_jobs_dirty(c);
}

/* ---- checkpoints ---- */

/* The node of the rank that the words of rank 0 begin with, "n1/0: ..." or "n1/0 and 2 more could
 * ..."; else @n, that of rank 0. */
static const struct hsp_cluster_node *blamed(struct hsp_cluster *c, const struct hsp_cl_epoch *e,
                                             const struct hsp_cluster_node *n, const char *reason)
{
    for (uint32_t r = 0; e->epoch != 0 && r < e->n_ranks; r++) {
        const char *name = hsp_ci_device_name(c, e->peers[r].device);
        size_t len = strlen(name);
        if (strncmp(reason, name, len) == 0 && (reason[len] == ':' || reason[len] == ' ')) {
            return hsp_ci_node(c, e->peers[r].device);
        }
    }
    return n;
}

/* A file that cannot be written stands in status until it can. No state ends by it: the trained
 * model stays in memory. Each checkpoint is tried once and told; the final model is tried until
 * it is written, and told once for each cause. */
static void unwritten(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                      uint64_t epoch, const struct hsp_m_ckpt *k)
{
    bool final = k->step == j->steps; /* no checkpoint is of that version */
    if (final && epoch != j->cur.epoch) {
        return; /* others try since */
    }
    char text[sizeof(j->problem)];
    hsp_str_printf(
        text, sizeof(text), "%s is not written: %s: %s", /* cut on purpose */
        final ? "the final model" : "a checkpoint", k->reason,
        final ? "it is tried again until it is; drain gives it to another node, cancel gives it up"
              : "the job continues");
    const struct hsp_cluster_node *who = blamed(c, &j->cur, n, k->reason);
    bool news = strcmp(text, j->problem) != 0;
    memcpy(j->problem, text, sizeof(text));
    j->unwritten = final ? epoch : j->unwritten;
    /* the job has come to its end: losses there do not count */
    j->failures = final ? 0 : j->failures;
    if (!final) {
        hsp_ci_fact_of_step(hsp_ci_fact(c, "ckpt.failed", HSP_SEV_WARN, j, who, "version %llu: %s",
                                        (unsigned long long)k->step, k->reason),
                            k->step);
    } else if (news) {
        hsp_ci_fact(c, "final.failed", HSP_SEV_WARN, j, who, "%s", text);
    }
}

/* True when the checkpoint is not on record yet: agents repeat the newest one at each hello. The
 * same version of a later epoch is news: its file has replaced the earlier one, and may be made
 * of other steps. */
static bool is_news(const struct hsp_job *j, const struct hsp_msg *m)
{
    uint64_t step = m->u.ckpt.step;
    return !j->has_ckpt || step > j->ckpt_step ||
           (step == j->ckpt_step && m->epoch > j->ckpt.epoch);
}

static void checkpointed(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n,
                         const struct hsp_msg *m)
{
    const struct hsp_m_ckpt *k = &m->u.ckpt;
    if (m->epoch < j->begun) {
        return; /* of steps that are made again since */
    }
    if (!k->complete) {
        unwritten(c, j, n, m->epoch, k);
    } else if (is_news(j, m)) {
        hsp_ci_fact_of_step(hsp_ci_fact(c, "ckpt.complete", HSP_SEV_INFO, j, NULL,
                                        "version %llu, %llu bytes%s%s", (unsigned long long)k->step,
                                        (unsigned long long)k->bytes,
                                        k->reason[0] != '\0' ? ": " : "", k->reason),
                            k->step);
        j->problem[0] = '\0';
        uint64_t before = j->has_ckpt ? j->ckpt_step : 0;
        const struct hsp_ckpt_mark mark = {k->term, m->epoch, k->content};
        hsp_ci_ckpt_record(j, k->step, &mark);
        j->ran_unknown = false; /* nodes that are known have it; older ones are of less use */
        hsp_ci_disk_forget(j);  /* the disk has changed */
        hsp_ci_suspend_recorded(c, j, before);
        hsp_ci_store_job(c, j);
    }
    /* Also a known checkpoint: it may have been written for the suspension. */
    hsp_ci_suspend_checkpointed(c, j, m->epoch, k);
}

/* ---- dispatch ---- */

static uint32_t job_of(const struct hsp_msg *m)
{
    uint32_t id; /* every one of these messages begins with it */
    memcpy(&id, &m->u, sizeof(id));
    return id;
}

void hsp_ci_job_msg(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    struct hsp_job *j = hsp_ci_job(c, job_of(m));
    if (m->type == HSP_MSG_STOPPED || m->type == HSP_MSG_SEALED) {
        hsp_ci_run_over(c, n, m);
    }
    if (j == NULL) {
        return;
    }
    if (m->type == HSP_MSG_STOPPED || m->type == HSP_MSG_RELEASED) {
        let_go(c, j, n, m);
        return;
    }
    if (j->state == HSP_JOB_BEHIND && m->type == HSP_MSG_FINISHED) {
        hsp_ci_behind_finished(c, j, n, m->epoch);
    }
    if (m->epoch == 0 || m->epoch >= j->next_epoch || j->state == HSP_JOB_BEHIND) {
        return; /* of an epoch that was never given here */
    }
    if (hsp_ci_at_rest(j)) { /* said before the STOP arrived */
        if (m->type == HSP_MSG_CHECKPOINTED && m->u.ckpt.complete && hsp_ci_may_say(c, j, n, m)) {
            checkpointed(c, j, n, m); /* with it, workers have deleted older ones */
        } else if (m->type == HSP_MSG_STEP && hsp_ci_may_say(c, j, n, m)) {
            step_at_rest(c, j, m);
        } else if (m->type == HSP_MSG_SEALED && hsp_ci_may_say(c, j, n, m)) {
            sealed(c, j, n, m);
        } else if (m->type == HSP_MSG_READY) {
            not_begun(c, j, n, m); /* hspmdd has restarted meanwhile, and HELLO brought no DROP */
        }
        return;
    }
    if (m->type == HSP_MSG_READY && m->epoch != j->att.epoch && m->epoch != j->cur.epoch) {
        not_begun(c, j, n, m);
        return;
    }
    if (!hsp_ci_may_say(c, j, n, m)) {
        return;
    }
    if (m->type != HSP_MSG_STEP) { /* STEP marks the job itself where something has changed */
        hsp_ci_job_dirty(c, j);
        hsp_ci_node_dirty(c, n);
    }
    switch (m->type) {
    case HSP_MSG_READY: ready(c, j, n, m); break;
    case HSP_MSG_PREPARE_FAILED: prepare_failed(c, j, n, m); break;
    case HSP_MSG_STARTED: started(c, j, n, m); break;
    case HSP_MSG_SEALED: sealed(c, j, n, m); break;
    case HSP_MSG_STEP: step_done(c, j, n, m); break;
    case HSP_MSG_PEER_LOST:
        peer_lost(c, j, n, m);
        if (m->u.lost.peer >= HSP_MSG_RANKS) {
            lost_nobody(j);
        }
        break;
    case HSP_MSG_CHECKPOINTED: checkpointed(c, j, n, m); break;
    case HSP_MSG_FINISHED: finished(c, j, n, m); break;
    case HSP_MSG_JOB_FAILED: job_failed(c, j, n, m); break;
    case HSP_MSG_STANDS: hsp_ci_stands(c, j, n, m); break;
    case HSP_MSG_CKPT_REFUSED:
        if (m->epoch == j->att.epoch && j->att.mode == HSP_MODE_RESTORE) {
            hsp_ci_ckpt_refused(c, j, n, &m->u.refused);
        }
        break;
    }
}
