#include "daemon/cluster/jobs.h"

#include <stdio.h>

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/apart.h"
#include "daemon/cluster/attempt_advance.h"
#include "daemon/cluster/attempt_begin.h"
#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/ckpt_look.h"
#include "daemon/cluster/ckpt_which.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/device_requests.h"
#include "daemon/cluster/doubt.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/finishing.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/replica_holders.h"
#include "daemon/cluster/kept_state.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/link_probe.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/node_fault.h"
#include "daemon/cluster/node_loss.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/past_epochs.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/plan_results.h"
#include "daemon/cluster/progress.h"
#include "daemon/cluster/reach_rounds.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/state_damage.h"
#include "daemon/cluster/suspend.h"
#include "proto/base/str.h"

#define REFUSED_MS 1000u /* after a switch that could not connect */

/* ---- ends ---- */

void hsp_ci_job_unreadable(struct hsp_cluster *c, const struct hsp_unreadable_event *ev)
{
    struct hsp_job *j = hsp_ci_job(c, ev->job);
    if (!c->behind && j != NULL && !hsp_ci_at_rest(j) && j->state != HSP_JOB_BEHIND) {
        hsp_ci_job_set_aside(c, j, ev->why);
    }
}

/* ---- loss ---- */

static bool same_plan(const struct hsp_job *j, const hsp_device_id *dev, uint32_t n)
{
    const struct hsp_job_plan *p = j->cur.epoch != 0 ? hsp_ci_plan(j, j->cur.plan) : NULL;
    /* three times in vain: the plan itself may be the trouble */
    if (p == NULL || p->other_shape || (j->failures >= 3 && j->failures % 3 == 0)) {
        return false;
    }
    /* a layout begun later may hold versions too: numbers must stay in the order of beginning */
    for (uint32_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].started && j->plans[i].plan > p->plan) {
            return false;
        }
    }
    for (uint32_t i = 0; i < p->info.n_ranks; i++) {
        if (!hsp_ci_has(dev, n, p->info.device[i])) {
            return false;
        }
    }
    return true;
}

static void advance_sealing(struct hsp_cluster *c, struct hsp_job *j)
{
    hsp_device_id *dev;
    if (!hsp_ci_seal_marked(c, j)) {
        j->sealed_ms = c->now_ms;
        if (c->n_faults > 0 && hsp_ci_available(c, j, &dev) < j->min) {
            hsp_ci_node_faults_retry(c, j);
        }
        hsp_ci_job_move(c, j, HSP_JOB_RECOVERING);
        return;
    }
    if (j->round != 0 || c->n_broken > 0) {
        return; /* which nodes go on depends on the state that each of them has */
    }
    uint32_t n = hsp_ci_available(c, j, &dev);
    if (j->ticket == 0 && !j->have_result && !hsp_ci_in_doubt(j) && c->now_ms >= j->retry_ms &&
        n >= j->min && !same_plan(j, dev, n)) {
        hsp_ci_start_plan(c, j, dev, n, true); /* while the nodes seal */
    }
}

/* ---- not running: from which state, on which devices, by which plan ---- */

/* True when each layout that was begun has a witness (recover.h). All are asked, not the newest
 * alone: it may have gone on from a version of an older layout that is out of reach now. */
static bool has_witness(const struct hsp_cluster *c, const struct hsp_job *j)
{
    bool any = false, all = true;
    hsp_device_id w;
    for (uint32_t i = 0; i < j->n_plans; i++) {
        any = any || j->plans[i].started;
        all = all && (!j->plans[i].started || hsp_ci_witness(c, &j->plans[i], &w));
    }
    return any && all;
}

/* A job that works on the device of piece @h of @j; NULL: none does, or the node of it
 * cannot be asked. */
static const struct hsp_job *works_at(const struct hsp_cluster *c, const struct hsp_job *j,
                                      const struct hsp_state_piece *h)
{
    const struct hsp_node_device *d = hsp_ci_device(c, h->device);
    const struct hsp_job *o = d->job != j->id ? hsp_ci_job(c, d->job) : NULL;
    const struct hsp_job_mark *m = hsp_ci_marked(j, HSP_DEVICE_NODE(h->device));
    bool runs = o != NULL && (hsp_ci_job_runs(o) || o->state == HSP_JOB_BEHIND);
    bool here = hsp_ci_node(c, h->device)->conn != 0 && (m == NULL || !m->cut_off);
    return runs && here ? o : NULL;
}

/* A job that works on devices which also have state of @j: version @least or a later one of layout
 * @from, or any of a later layout, that is whole with the pieces of these devices, so it is not
 * lost. NULL: there is none; a version that is not whole even with them is waited for as if nobody
 * had it. */
static const struct hsp_job *in_the_way(struct hsp_cluster *c, const struct hsp_job *j,
                                        uint64_t from, uint64_t least)
{
    struct hsp_state_piece *held = hsp_ci_alloc(c, (size_t)j->n_held + 1, sizeof(*held));
    for (uint32_t i = j->n_plans; held != NULL && i-- > 0;) {
        const struct hsp_job_plan *p = &j->plans[i];
        const struct hsp_job *by = NULL;
        uint32_t n = 0;
        uint64_t version;
        for (uint32_t k = 0; k < j->n_held && p->started && p->plan >= from; k++) {
            const struct hsp_state_piece *h = &j->held[k];
            const struct hsp_job *o = works_at(c, j, h);
            bool counts = h->plan == p->plan && (p->plan > from || h->version >= least) &&
                          hsp_ci_holder(&p->info, h->rank) == h->device;
            if (counts && (o != NULL || hsp_ci_reachable(c, j, h))) {
                held[n++] = *h;
                by = o != NULL ? o : by;
            }
        }
        if (by != NULL && hsp_recover_version(&p->info, held, n, &version)) {
            return by;
        }
    }
    return NULL;
}

/* The wait for state ends in @ms, if it does not before. */
static void end_wait_in(struct hsp_cluster *c, struct hsp_job *j, uint32_t ms)
{
    hsp_msec at = c->now_ms + ms;
    if (j->state_deadline_ms == 0 || at < j->state_deadline_ms) {
        j->state_deadline_ms = at;
        j->state_until_s = c->unix_s != 0 ? c->unix_s + ms / 1000 : 0;
    }
}

/* The wait for state ends as it did before a moment began, for a node that may have it has gone. A
 * moment that is over has ended the wait. */
static void end_moment(struct hsp_cluster *c, struct hsp_job *j)
{
    const hsp_msec was = j->state_before_ms;
    if (c->now_ms < j->state_deadline_ms && j->state_deadline_ms == j->state_moment_ms) {
        j->state_deadline_ms = 0;
        if (was != 0) {
            end_wait_in(c, j, was > c->now_ms ? (uint32_t)(was - c->now_ms) : 0);
        }
    }
}

/* True where nodes may have gone further than @best: this hspmdd has not heard all that they
 * told. */
static bool is_unheard(const struct hsp_job *j, uint64_t best)
{
    return j->unheard && j->origin == HSP_MODE_FRESH && best <= j->origin_step;
}

/* Names the next step of the job after a wait for @version in vain. @whole: an older version can be
 * had. */
static const char *what_then(const struct hsp_job *j, uint64_t version, bool whole)
{
    uint64_t newest;
    bool begins = version <= j->origin_step && !is_unheard(j, version);
    return whole || begins || hsp_ci_ckpt_newest(j, &newest) ? "it continues without"
           : hsp_ci_ckpt_may_have(j)                         ? "it looks for a checkpoint on disk"
                                                             : "it fails, as it has no checkpoint";
}

/* True while nodes that may bring @version are worth waiting for, or devices that have state of
 * layout @from, of version @least on, or of a later layout, work for another job. */
static bool waits_for_state(struct hsp_cluster *c, struct hsp_job *j, uint64_t version,
                            uint64_t from, uint64_t least)
{
    const struct hsp_job *o = in_the_way(c, j, from, least);
    if (o != NULL) {
        j->state_deadline_ms = 0;
        hsp_ci_job_blocked(c, j, "its state is on devices that job %s has: waiting for those",
                           o->name);
        return true;
    }
    const char *who = hsp_ci_awaited(c, j, from, least);
    if (who != NULL) {
        end_moment(c, j);
    }
    if (j->state_deadline_ms == 0 || who == NULL) { /* one may just be coming back, as another */
        const hsp_msec before = j->state_deadline_ms;
        end_wait_in(c, j, who != NULL ? c->cfg.state_wait_ms : c->cfg.dead_ms);
        if (who == NULL && j->state_deadline_ms != before) {
            j->state_moment_ms = j->state_deadline_ms;
            j->state_before_ms = before;
        }
    }
    if (c->now_ms >= j->state_deadline_ms) {
        j->tries.waited = j->tries.waited || who != NULL; /* longer than for a moment */
        return false;
    }
    const char *what = who == NULL      ? "all nodes that had it are back without it; the job waits"
                       : who[0] == '\0' ? "waiting for more,"
                                        : hsp_ci_printf(c, "waiting for more, on %s,", who);
    hsp_ci_job_blocked(
        c, j, "version %llu of the state is not complete on the connected nodes%s: %s %s, then %s",
        (unsigned long long)version, hsp_ci_apart_why(c, j), what,
        who != NULL ? hsp_ci_until(c, j->state_until_s) : "for a moment",
        what_then(j, version, least > 0));
    return true;
}

/* Nothing whole can be reached. True: begin at the origin. Behind a restore no witness counts: the
 * job may have ended since, and with it went the state. @few: the @n devices are too few to begin
 * with; then its checkpoints are not judged, which may be on nodes that are still away. */
static bool without_state(struct hsp_cluster *c, struct hsp_job *j, bool few, uint32_t n)
{
    uint64_t best = hsp_ci_best_known(j), newest;
    if (best <= j->origin_step && !j->ran_unknown && has_witness(c, j)) {
        hsp_ci_begin_as_before(c, j); /* nothing was committed beyond it */
        return true;
    }
    if (waits_for_state(c, j, best, 0, 0)) {
        return false;
    }
    if (few && hsp_ci_ckpt_may_have(j)) {
        hsp_ci_job_blocked(c, j, "waits for %s", hsp_ci_too_few(c, j, j->min, n));
        return false;
    }
    if (!hsp_ci_ckpt_looked(c, j)) {
        return false;
    }
    bool any = hsp_ci_ckpt_newest(j, &newest);
    best = any && newest > best ? newest : best;
    if (!any && is_unheard(j, best)) {
        hsp_ci_job_set_aside(
            c, j,
            "its state is lost, its newest step is not known here, and there is no checkpoint: "
            "resume waits for its nodes once more; cancel, then resume --from 0, starts again");
        return false;
    }
    if (best > j->origin_step && !any) {
        hsp_ci_job_end(
            c, j, HSP_JOB_FAILED,
            hsp_ci_printf(c, "the state of version %llu is lost and there is no checkpoint%s%s",
                          (unsigned long long)best, j->damage[0] != '\0' ? "; " : "", j->damage));
        return false;
    }
    if (!hsp_ci_ckpt_ready(c, j)) {
        return false;
    }
    hsp_ci_state_lost(c, j, best, j->origin_step);
    j->stable = j->origin_step;
    hsp_ci_back_to_origin(c, j);
    return true;
}

static bool waits_for_node(struct hsp_cluster *c, struct hsp_job *j)
{
    const struct hsp_cluster_node *n = hsp_ci_silent_node(c, j);
    if (n != NULL) {
        (void)snprintf(j->reason, sizeof(j->reason), "waiting for node %s: connection closed",
                       n->name);
    }
    return n != NULL;
}

/* True while devices stop their work for @j from before it was resumed: they may still write its
 * checkpoints. */
static bool waits_for_stop(struct hsp_cluster *c, struct hsp_job *j)
{
    bool stops = false;
    for (uint32_t i = 0; i < j->n_leases; i++) {
        stops = stops || hsp_ci_device(c, j->leases[i])->ask == HSP_ASK_STOP;
    }
    if (stops) {
        hsp_ci_job_blocked(c, j, "waits until its devices have stopped their previous work");
    }
    return stops;
}

/* The same question, asked each second, changes nothing that is told of @j before its answer
 * does. */
static void ask_for_plan(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                         uint32_t n, bool urgent)
{
    if (!hsp_ci_waits_for_plan(j, dev, n)) {
        if (j->state == HSP_JOB_PAUSED) {
            hsp_ci_job_move(c, j, HSP_JOB_RECOVERING);
        }
        j->reason[0] = '\0';
    }
    hsp_ci_start_plan(c, j, dev, n, urgent);
}

static void advance_idle(struct hsp_cluster *c, struct hsp_job *j)
{
    enum hsp_epoch_mode mode = j->origin;
    uint64_t from = 0, version = j->origin_step;
    bool started = false;
    if (c->now_ms < j->retry_ms || j->round != 0 || waits_for_node(c, j) || waits_for_stop(c, j)) {
        return;
    }
    hsp_ci_void_heirs(c, j);
    hsp_device_id *dev;
    uint32_t n = hsp_ci_usable(c, j, &dev); /* the nodes left out decide which state can be had */
    for (uint32_t i = 0; i < j->n_plans; i++) {
        started = started || j->plans[i].started;
    }
    bool few = n == 0 || (n < j->min && j->origin_step < j->steps);
    bool lost = started || j->stable > j->origin_step; /* its layouts went with a node */
    enum hsp_status found = started ? hsp_ci_choose(c, j, &from, &version) : HSP_ENOENT;
    if (found == HSP_AGAIN && waits_for_state(c, j, version + 1, from, version + 1)) {
        return;
    }
    if (found != HSP_ENOENT) {
        mode = HSP_MODE_RECOVER;
        j->state_deadline_ms = found == HSP_OK ? 0 : j->state_deadline_ms;
    } else if ((lost && !without_state(c, j, few, n)) || (!few && !hsp_ci_ckpt_ready(c, j))) {
        return;
    } else {
        mode = j->origin;
        version = j->origin_step;
        j->stable = j->stable < version ? j->stable : version;
    }
    uint32_t need = version < j->steps ? j->min : 1; /* for the final model alone */
    if (n < need || n == 0) {
        hsp_ci_cancel_plan(c, j);
        hsp_ci_job_blocked(c, j, "waits for %s%s%s%s", hsp_ci_too_few(c, j, need, n),
                           hsp_ci_data_why(c, j), hsp_ci_unhealthy(c), hsp_ci_apart_why(c, j));
        return;
    }
    if (j->have_result && !hsp_ci_all_in(j->result.device, j->result.n_ranks, dev, n)) {
        hsp_ci_cancel_plan(c, j);
    }
    if (j->ticket != 0 && !hsp_ci_all_in(j->asked, j->n_asked, dev, n)) {
        hsp_ci_cancel_plan(c, j);
    }
    if (same_plan(j, dev, n)) {
        hsp_ci_cancel_plan(c, j);
        hsp_ci_attempt_begin(c, j, hsp_ci_with_replica_holders(c, j, j->cur.plan), mode, from,
                             version);
    } else if (j->have_result) {
        hsp_ci_attempt_begin(c, j, hsp_ci_adopt_result(c, j), mode, from, version);
    } else if (j->ticket == 0) {
        j->detect_ms = started ? j->detect_ms : c->now_ms; /* the job may have waited for devices */
        ask_for_plan(c, j, dev, n, started);
    }
}

/* ---- running: is there something better? ---- */

static void name_cause(struct hsp_cluster *c, struct hsp_job *j, const char *what, hsp_device_id d)
{
    (void)snprintf(j->cause, sizeof(j->cause), "%s %s", what, hsp_ci_device_name(c, d));
}

/* The devices of the job and those it may use differ: true, with the cause. */
static bool wants_plan(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                       uint32_t n)
{
    for (uint32_t i = 0; i < j->cur.n_ranks; i++) {
        hsp_device_id d = j->cur.peers[i].device;
        const struct hsp_cluster_node *node = hsp_ci_node(c, d);
        if (hsp_ci_has(dev, n, d) || node->conn == 0 || !hsp_ci_device(c, d)->up) {
            continue; /* silent or restarting is not leaving */
        }
        if (hsp_ci_to_leave(c, d) != NULL) {
            hsp_str_printf(j->cause, sizeof(j->cause), "%s", hsp_ci_leave_cause(c, d));
        } else {
            bool many = j->cur.n_ranks > j->max; /* since `scale` */
            name_cause(c, j, many ? "the maximum of the job leaves out" : "another job gets", d);
        }
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (hsp_ci_was_asked(j, dev[i])) {
            continue;
        }
        const struct hsp_epoch_peer *p = hsp_ci_peer(&j->cur, dev[i]);
        if (p == NULL || (uint32_t)(p - j->cur.peers) >= j->cur.n_ranks) {
            name_cause(c, j, "join of", dev[i]);
            return true;
        }
    }
    return j->retune;
}

/* All members of the running epoch are peers of a switch, and two of them cannot connect anew. The
 * connection that they have still works: the job trains on. */
static void stays_as_it_is(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                           uint32_t n, const char *why)
{
    if (j->have_result) {
        hsp_ci_cancel_plan(c, j);
        j->asked_valid = false;
    }
    if (wants_plan(c, j, dev, n) || hsp_ci_wants_replica_holders(c, j)) {
        hsp_ci_job_blocked(c, j, "%s: cannot be done while %s", j->cause, why);
    } else {
        j->reason[0] = '\0';
    }
}

static void advance_running(struct hsp_cluster *c, struct hsp_job *j)
{
    hsp_device_id *dev;
    const char *why;
    if (j->suspending || !j->cur.settled || j->ticket != 0 || c->now_ms < j->retry_ms ||
        c->now_ms < j->switch_retry_ms || hsp_ci_releasing(c, j) || j->round != 0) {
        return;
    }
    if (hsp_ci_silent_node(c, j) != NULL) {
        return; /* a closed connection alone changes no plan, nor does a restart of hspmdd */
    }
    uint32_t n = hsp_ci_usable(c, j, &dev);
    if (hsp_ci_members_apart(c, j, &why)) {
        stays_as_it_is(c, j, dev, n, why);
        return;
    }
    if (j->have_result) {
        if (hsp_ci_all_in(j->result.device, j->result.n_ranks, dev, n)) {
            hsp_ci_attempt_begin(c, j, hsp_ci_adopt_result(c, j), HSP_MODE_SWITCH, j->cur.plan, 0);
            return;
        }
        hsp_ci_cancel_plan(c, j);
        j->asked_valid = false;
    }
    bool wanted = wants_plan(c, j, dev, n), few = n < j->min || n == 0;
    if (wanted && !few && c->now_ms >= j->plan_retry_ms) {
        j->detect_ms = c->now_ms;
        hsp_ci_start_plan(c, j, dev, n, false);
        return;
    }
    if (wanted && few) {
        hsp_ci_job_blocked(c, j, "%s: cannot be done: needs %s%s", j->cause,
                           hsp_ci_too_few(c, j, j->min, n), hsp_ci_apart_why(c, j));
    }
    bool replica_holders = hsp_ci_wants_replica_holders(c, j);
    if (replica_holders && !hsp_ci_replica_holders_fit(c, j, &why)) {
        if (!wanted && why != NULL) {
            hsp_ci_job_blocked(c, j, "%s: cannot be done: %s", j->cause, why);
        }
        return;
    }
    if (!wanted) {
        j->reason[0] = '\0';
    }
    if (replica_holders) {
        j->detect_ms = j->planned_ms = c->now_ms;
        uint64_t plan = hsp_ci_with_replica_holders(c, j, j->cur.plan);
        hsp_ci_attempt_begin(c, j, plan, HSP_MODE_SWITCH, j->cur.plan, 0);
    }
}

/* Ends an attempt two of whose nodes are known not to connect, before its executors find out. */
static void drop_apart(struct hsp_cluster *c, struct hsp_job *j)
{
    const char *why;
    if (j->att.epoch != 0 && !hsp_ci_attempt_gone(j) && hsp_ci_attempt_apart(c, j, &why)) {
        hsp_ci_attempt_refused(c, j, why);
        j->plan_retry_ms = c->now_ms + REFUSED_MS; /* the next plan may be as bad */
    }
}

/* An agent may be a member that keeps a newer epoch of @j. */
static bool held_back(struct hsp_cluster *c, struct hsp_job *j)
{
    const struct hsp_cluster_node *by = hsp_ci_claimed(c, j);
    hsp_msec before = j->claim_ms;
    j->claim_ms = by != NULL ? by->claim_ms : 0;
    if (by != NULL) {
        hsp_ci_job_blocked(c, j,
                           "an agent that does not prove to be node %s reports a newer epoch of "
                           "it: waiting %u s for that node; node remove %s ends that",
                           by->name, c->cfg.state_wait_ms / 1000, by->name);
    } else if (before != 0) {
        j->reason[0] = '\0';
    }
    return by != NULL;
}

static void advance_state(struct hsp_cluster *c, struct hsp_job *j)
{
    hsp_ci_round_of_job(c, j);
    drop_apart(c, j);
    switch (j->state) {
    case HSP_JOB_SEALING: advance_sealing(c, j); break;
    case HSP_JOB_PENDING:
    case HSP_JOB_STARTING:
    case HSP_JOB_RECOVERING:
    case HSP_JOB_PAUSED:
        if (j->att.epoch != 0) {
            hsp_ci_attempt_advance(c, j);
        } else {
            advance_idle(c, j);
        }
        break;
    case HSP_JOB_RUNNING: advance_running(c, j); break;
    case HSP_JOB_SWITCHING: hsp_ci_attempt_advance(c, j); break;
    case HSP_JOB_FINISHING: hsp_ci_finishing_advance(c, j); break;
    case HSP_JOB_FAILED: (void)hsp_ci_seal_marked(c, j); break;
    case HSP_JOB_DONE:
    case HSP_JOB_CANCELLED:
    case HSP_JOB_SUSPENDED:
    case HSP_JOB_BEHIND: break;
    }
}

/* True while @j begins nothing new, because the store may be older than agents. Nodes of the store
 * that have not come back since the start have their time for it first. */
static bool waits_for_agents(struct hsp_cluster *c, struct hsp_job *j)
{
    bool begins = j->att.epoch == 0 && j->state != HSP_JOB_SEALING && j->state != HSP_JOB_BEHIND &&
                  !hsp_ci_at_rest(j);
    if (begins && c->n_away > 0 && hsp_ci_in_doubt(j)) { /* the doubt itself is told later */
        hsp_str_printf(j->reason, sizeof(j->reason),
                       "an older store was put back: waiting for %s to come back, or to be dead",
                       c->n_away > 1 ? hsp_ci_printf(c, "%u nodes", c->n_away) : "a node");
    }
    return begins && (c->n_away > 0 || held_back(c, j) || hsp_ci_held_in_doubt(c, j));
}

static void advance_job(struct hsp_cluster *c, struct hsp_job *j)
{
    if (!waits_for_agents(c, j)) {
        advance_state(c, j);
    }
    hsp_ci_suspend_advance(c, j);
}

void hsp_ci_advance(struct hsp_cluster *c)
{
    /* A job goes through at most a few states without outside help, and devices that it gives back
     * may let another job go on. The bound ends a cycle that would be an error of ours; the next
     * event goes on. */
    for (uint32_t pass = 0; c->dirty && pass < 16 && !c->failed && !c->behind; pass++) {
        hsp_ci_rounds_advance(c);
        hsp_ci_node_faults_advance(c);
        hsp_ci_probe_advance(c);
        bool all = c->look_jobs;
        c->dirty = c->look_jobs = false;
        for (uint32_t i = 0; i < c->n_jobs; i++) {
            struct hsp_job *j = c->jobs[i];
            if (!all && !j->look) {
                continue;
            }
            j->look = false;
            hsp_ci_data_advance(c, j);
            hsp_ci_replica_holders_advance(c, j);
            hsp_ci_learnt_advance(c, j);
            enum hsp_job_state state = j->state;
            uint64_t epoch = j->att.epoch, ticket = j->ticket;
            enum hsp_attempt_phase phase = j->att.phase;
            advance_job(c, j);
            hsp_ci_progress_advance(c, j);
            if (state != j->state || epoch != j->att.epoch || phase != j->att.phase ||
                ticket != j->ticket) {
                hsp_ci_jobs_dirty(c);
            }
        }
        hsp_ci_nodes_advance(c);
    }
}
