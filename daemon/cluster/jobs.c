/* Jobs: what each does next, given the facts (decisions D8, D9). The diagram is in
 * cluster_state.h. */
#include "daemon/cluster/jobs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epochs.h"
#include "daemon/cluster/finishing.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/keepers.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/membership.h"
#include "daemon/cluster/plans.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/suspend.h"
#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

#define MAX_PAUSE_MS 5000u /* between attempts */

#define BIT(s) (1u << HSP_JOB_##s)
static const struct {
    const char *name;
    uint32_t next; /* states that may follow */
} job_states[] = {
    [HSP_JOB_PENDING] = {"pending", BIT(STARTING) | BIT(CANCELLED) | BIT(FAILED) | BIT(SUSPENDED)},
    [HSP_JOB_STARTING] = {"starting", BIT(PENDING) | BIT(RUNNING) | BIT(SEALING) | BIT(DONE) |
                                          BIT(CANCELLED) | BIT(FAILED) | BIT(SUSPENDED)},
    [HSP_JOB_RUNNING] = {"running", BIT(SWITCHING) | BIT(SEALING) | BIT(FINISHING) | BIT(DONE) |
                                        BIT(CANCELLED) | BIT(FAILED) | BIT(SUSPENDED)},
    [HSP_JOB_SWITCHING] = {"switching", BIT(RUNNING) | BIT(SEALING) | BIT(FINISHING) | BIT(DONE) |
                                            BIT(CANCELLED) | BIT(FAILED) | BIT(SUSPENDED)},
    [HSP_JOB_SEALING] = {"sealing", BIT(RECOVERING) | BIT(DONE) | BIT(CANCELLED) | BIT(FAILED)},
    [HSP_JOB_RECOVERING] = {"recovering", BIT(RUNNING) | BIT(SEALING) | BIT(PAUSED) | BIT(DONE) |
                                              BIT(CANCELLED) | BIT(FAILED)},
    [HSP_JOB_PAUSED] = {"paused",
                        BIT(RECOVERING) | BIT(SEALING) | BIT(DONE) | BIT(CANCELLED) | BIT(FAILED)},
    [HSP_JOB_FINISHING] = {"finishing",
                           BIT(DONE) | BIT(RUNNING) | BIT(SEALING) | BIT(CANCELLED) | BIT(FAILED)},
    [HSP_JOB_DONE] = {"done", 0},
    [HSP_JOB_FAILED] = {"failed", BIT(PENDING)}, /* resume */
    [HSP_JOB_CANCELLED] = {"cancelled", BIT(PENDING)},
    [HSP_JOB_SUSPENDED] = {"suspended", BIT(PENDING) | BIT(CANCELLED)},
};
_Static_assert(HSP_ARRAY_LEN(job_states) == HSP_JOB_SUSPENDED + 1, "a row per state");

const char *hsp_job_state_name(enum hsp_job_state s)
{
    return job_states[s].name;
}

bool hsp_job_terminal(enum hsp_job_state s)
{
    return s == HSP_JOB_DONE || s == HSP_JOB_FAILED || s == HSP_JOB_CANCELLED;
}

bool hsp_ci_at_rest(const struct hsp_job *j)
{
    return hsp_job_terminal(j->state) || j->state == HSP_JOB_SUSPENDED;
}

struct hsp_job *hsp_ci_job(const struct hsp_cluster *c, uint32_t id)
{
    if (id != 0 && id <= c->n_jobs && c->jobs[id - 1]->id == id) {
        return c->jobs[id - 1];
    }
    for (uint32_t i = 0; id != 0 && i < c->n_jobs; i++) {
        if (c->jobs[i]->id == id) {
            return c->jobs[i];
        }
    }
    return NULL;
}

const struct hsp_job *hsp_cluster_job(const struct hsp_cluster *c, uint32_t id)
{
    return hsp_ci_job(c, id);
}

const struct hsp_job *hsp_cluster_job_by_name(const struct hsp_cluster *c, const char *name)
{
    const struct hsp_job *best = NULL; /* the live one, else the last submitted */
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        const struct hsp_job *j = c->jobs[i];
        if (strcmp(j->name, name) == 0 && (best == NULL || hsp_job_terminal(best->state))) {
            best = j;
        }
    }
    return best;
}

void hsp_ci_job_free(struct hsp_job *j)
{
    if (j == NULL) {
        return;
    }
    hsp_ci_epoch_fini(&j->cur);
    hsp_ci_epoch_fini(&j->att);
    for (uint32_t i = 0; i < j->n_plans; i++) {
        hsp_ci_info_fini(&j->plans[i].info);
    }
    hsp_ci_info_fini(&j->result);
    free(j->plans);
    free(j->held);
    free(j->asked);
    free(j->watch);
    free(j->leases);
    hsp_ci_marks_free(j);
    free(j->data_path);
    free(j->checkpoint_path);
    free(j);
}

void hsp_ci_job_move(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to)
{
    if (j->state == to) {
        return;
    }
    HSP_ASSERT((job_states[j->state].next >> to & 1) != 0);
    j->state = to;
    hsp_ci_look_jobs(c); /* shares depend on it */
    const char *type = hsp_ci_printf(c, "job.%s", job_states[to].name);
    struct hsp_fact *f = hsp_ci_fact(c, type, to == HSP_JOB_FAILED ? HSP_SEV_ERROR : HSP_SEV_NOTICE,
                                     j, NULL, "%s", j->reason);
    if (f != NULL) {
        f->cause = hsp_ci_printf(c, "%s", j->cause);
    }
}

void hsp_ci_job_blocked(struct hsp_cluster *c, struct hsp_job *j, const char *fmt, ...)
{
    char text[sizeof(j->reason)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* cut on purpose */
    va_end(ap);
    hsp_utf8_mend(text);
    bool news = strcmp(text, j->reason) != 0;
    (void)snprintf(j->reason, sizeof(j->reason), "%s", text);
    if (j->state == HSP_JOB_RECOVERING && j->att.epoch == 0) {
        hsp_ci_job_move(c, j, HSP_JOB_PAUSED);
        hsp_ci_store_job(c, j);
    } else if (news) {
        hsp_ci_fact(c, "job.blocked", HSP_SEV_INFO, j, NULL, "%s", text);
    }
}

/* ---- ends ---- */

void hsp_ci_job_end(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to,
                    const char *why)
{
    hsp_ci_cancel_plan(c, j);
    hsp_str_printf(j->reason, sizeof(j->reason), "%s", why);
    hsp_ci_job_move(c, j, to);
    for (uint32_t i = 0; i < j->n_leases; i++) {
        hsp_ci_ask(c, j->leases[i], HSP_ASK_STOP);
    }
    hsp_ci_epoch_fini(&j->cur);
    hsp_ci_epoch_fini(&j->att);
    j->n_held = 0;
    j->suspending = false;
    j->problem[0] = '\0';
    j->state_deadline_ms = 0;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].seal = 0;
    }
    hsp_ci_store_job(c, j);
    while (j->n_plans > 0) { /* behind the row that needs them no more */
        hsp_ci_drop_plan(c, j, j->plans[0].plan);
    }
}

void hsp_ci_job_unreadable(struct hsp_cluster *c, const struct hsp_unreadable_event *ev)
{
    struct hsp_job *j = hsp_ci_job(c, ev->job);
    if (j != NULL && !hsp_ci_at_rest(j)) {
        hsp_ci_job_end(c, j, HSP_JOB_FAILED, ev->why);
    }
}

void hsp_ci_job_failure(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    if (j->state == HSP_JOB_FINISHING) { /* it was to go elsewhere, and goes on here */
        j->retry_ms = c->now_ms + MAX_PAUSE_MS;
        return;
    }
    j->failures++;
    if (j->failures > c->cfg.max_failures) {
        hsp_ci_job_end(
            c, j, HSP_JOB_FAILED,
            hsp_ci_printf(c, "%u attempts without progress, the last: %s", j->failures - 1, why));
    } else if (j->failures > 2) {
        uint64_t pause = (uint64_t)c->cfg.backoff_ms
                         << (j->failures - 3 < 10 ? j->failures - 3 : 10);
        j->retry_ms = c->now_ms + (pause < MAX_PAUSE_MS ? pause : MAX_PAUSE_MS);
    }
}

/* ---- loss ---- */

void hsp_ci_job_loss(struct hsp_cluster *c, struct hsp_job *j, const char *cause)
{
    if (hsp_ci_at_rest(j) || j->state == HSP_JOB_PENDING) {
        return;
    }
    uint64_t plan = j->att.epoch != 0 ? j->att.plan : 0;
    hsp_ci_epoch_fini(&j->att);
    const struct hsp_job_plan *p = hsp_ci_plan(j, plan);
    if (p != NULL && !p->started) {
        hsp_ci_drop_plan(c, j, plan);
    }
    hsp_ci_cancel_plan(c, j);
    j->asked_valid = false;
    hsp_str_printf(j->cause, sizeof(j->cause), "%s", cause);
    j->detect_ms = c->now_ms;
    j->sealed_ms = j->planned_ms = 0;
    j->lost_from = j->stable;
    j->seal_upto = j->next_epoch - 1;
    j->seal_deadline_ms = c->now_ms + c->cfg.seal_ms;
    j->reason[0] = '\0';
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].blamed = false;
        j->marks[i].seal = 0;
    }
    for (uint32_t i = 0; i < j->n_leases; i++) {
        hsp_device_id d = j->leases[i];
        hsp_ci_ask(c, d, HSP_ASK_NONE); /* the next epoch releases what is then not needed */
        if (!hsp_ci_node_gone(hsp_ci_node(c, d))) {
            hsp_ci_mark(c, j, HSP_DEVICE_NODE(d))->seal = 1;
            hsp_ci_held_drop_node(c, j, HSP_DEVICE_NODE(d));
        }
    }
    if (j->state != HSP_JOB_SEALING) {
        hsp_ci_job_move(c, j, HSP_JOB_SEALING);
    }
    hsp_ci_store_job(c, j);
    hsp_ci_job_failure(c, j, cause);
    if (!hsp_job_terminal(j->state) && c->now_ms < j->retry_ms) {
        hsp_str_printf(j->reason, sizeof(j->reason), "%s", cause); /* status says it until then */
    }
}

static bool same_plan(const struct hsp_job *j, const hsp_device_id *dev, uint32_t n)
{
    const struct hsp_job_plan *p = j->cur.epoch != 0 ? hsp_ci_plan(j, j->cur.plan) : NULL;
    /* three times in vain: the plan itself may be the trouble */
    if (p == NULL || (j->failures >= 3 && j->failures % 3 == 0)) {
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
    bool open = false;
    for (uint32_t i = 0; i < j->n_marks && j->state == HSP_JOB_SEALING; i++) {
        struct hsp_job_mark *k = &j->marks[i];
        struct hsp_cluster_node *n = &c->nodes[k->node];
        if (k->seal == 2 && n->conn != 0 && c->now_ms >= j->seal_deadline_ms) {
            hsp_ci_node_dead(c, n, "did not answer SEAL"); /* makes no marks */
        }
        if (k->seal == 1 && n->conn != 0) {
            struct hsp_msg m = {.type = HSP_MSG_SEAL, .epoch = j->seal_upto, .u.jobref.job = j->id};
            hsp_ci_send(c, n->conn, &m);
            k->seal = 2;
            j->seal_deadline_ms = c->now_ms + c->cfg.seal_ms;
        }
        open = open || k->seal != 0;
    }
    if (!open) {
        j->sealed_ms = c->now_ms;
        hsp_ci_job_move(c, j, HSP_JOB_RECOVERING);
        return;
    }
    hsp_device_id *dev;
    uint32_t n = hsp_ci_available(c, j, &dev);
    if (j->ticket == 0 && !j->have_result && c->now_ms >= j->retry_ms && n >= j->min &&
        !same_plan(j, dev, n)) {
        hsp_ci_start_plan(c, j, dev, n, true); /* while the nodes seal */
    }
}

/* ---- not running: from where, on what, by which plan ---- */

/* Of every layout that was begun somebody is here who knows how far it can have come: the newest may have
 * been begun to go on from what another committed, and that be out of reach now. */
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

/* True while nodes that may bring more are worth waiting for. */
static bool waits_for_state(struct hsp_cluster *c, struct hsp_job *j, uint64_t version)
{
    if (j->state_deadline_ms == 0) {
        j->state_deadline_ms = c->now_ms + c->cfg.state_wait_ms;
    }
    if (c->now_ms < j->state_deadline_ms) {
        hsp_ci_job_blocked(
            c, j, "version %llu of the state is not whole among the nodes here: waiting for more",
            (unsigned long long)version);
        return true;
    }
    return false;
}

static void back_to_origin(struct hsp_cluster *c, struct hsp_job *j)
{
    hsp_ci_epoch_fini(&j->cur);
    j->n_held = 0;
    j->state_deadline_ms = 0;
    hsp_ci_store_job(c, j);
    while (j->n_plans > 0) {
        hsp_ci_drop_plan(c, j, j->plans[0].plan);
    }
}

/* Nothing whole can be reached. True: begin at the origin. */
static bool without_state(struct hsp_cluster *c, struct hsp_job *j)
{
    uint64_t best = j->stable;
    for (uint32_t i = 0; i < j->n_held; i++) {
        best = j->held[i].version > best ? j->held[i].version : best;
    }
    if (best <= j->origin_step && has_witness(c, j)) {
        back_to_origin(c, j); /* nothing was committed beyond it */
        return true;
    }
    if (waits_for_state(c, j, best)) {
        return false;
    }
    if (best > j->origin_step && !j->has_ckpt) {
        hsp_ci_job_end(c, j, HSP_JOB_FAILED,
                       hsp_ci_printf(c,
                                     "the state of version %llu is lost and there is no checkpoint",
                                     (unsigned long long)best));
        return false;
    }
    if (j->has_ckpt) {
        j->origin = HSP_MODE_RESTORE;
        j->origin_step = j->ckpt_step;
        j->origin_ckpt = j->ckpt;
    }
    hsp_ci_fact(c, "state.lost", HSP_SEV_ERROR, j, NULL,
                "version %llu is lost, going back to version %llu", (unsigned long long)best,
                (unsigned long long)j->origin_step);
    j->stable = j->origin_step;
    back_to_origin(c, j);
    return true;
}

const struct hsp_cluster_node *hsp_ci_silent_node(const struct hsp_cluster *c,
                                                  const struct hsp_job *j)
{
    for (uint32_t i = 0; i < j->n_leases; i++) {
        const struct hsp_cluster_node *n = hsp_ci_node(c, j->leases[i]);
        if (n->conn == 0 && !hsp_ci_node_gone(n)) {
            return n;
        }
    }
    return NULL;
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

bool hsp_ci_all_in(const hsp_device_id *want, uint32_t n_want, const hsp_device_id *have,
                   uint32_t n_have)
{
    for (uint32_t i = 0; i < n_want; i++) {
        if (!hsp_ci_has(have, n_have, want[i])) {
            return false;
        }
    }
    return true;
}

static void advance_idle(struct hsp_cluster *c, struct hsp_job *j)
{
    enum hsp_epoch_mode mode = j->origin;
    uint64_t from = 0, version = j->origin_step;
    bool started = false;
    if (c->now_ms < j->retry_ms || waits_for_node(c, j)) {
        return;
    }
    for (uint32_t i = 0; i < j->n_plans; i++) {
        started = started || j->plans[i].started;
    }
    enum hsp_status found = started ? hsp_ci_choose(c, j, &from, &version) : HSP_ENOENT;
    if (found == HSP_AGAIN && waits_for_state(c, j, version + 1)) {
        return;
    }
    if (found != HSP_ENOENT) {
        mode = HSP_MODE_RECOVER;
        j->state_deadline_ms = found == HSP_OK ? 0 : j->state_deadline_ms;
    } else if (started && !without_state(c, j)) {
        return;
    } else if (started) {
        mode = j->origin;
        version = j->origin_step;
    }
    hsp_device_id *dev;
    uint32_t n = hsp_ci_available(c, j, &dev);
    uint32_t need = version < j->steps ? j->min : 1; /* for the final model alone */
    if (n < need || n == 0) {
        hsp_ci_cancel_plan(c, j);
        hsp_ci_job_blocked(c, j, "needs %u devices, %u can be had%s%s", need, n,
                           hsp_ci_data_why(c, j), hsp_ci_unwell(c));
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
        hsp_ci_attempt(c, j, hsp_ci_with_keepers(c, j, j->cur.plan), mode, from, version);
    } else if (j->have_result) {
        hsp_ci_attempt(c, j, hsp_ci_adopt_result(c, j), mode, from, version);
    } else if (j->ticket == 0) {
        if (j->state == HSP_JOB_PAUSED) {
            hsp_ci_job_move(c, j, HSP_JOB_RECOVERING);
        }
        j->reason[0] = '\0';
        hsp_ci_start_plan(c, j, dev, n, started);
    }
}

/* ---- running: is there something better? ---- */

bool hsp_ci_releasing(const struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; i < j->n_leases; i++) {
        if (hsp_ci_device(c, j->leases[i])->ask != HSP_ASK_NONE) {
            return true;
        }
    }
    return false;
}

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
            name_cause(c, j, "another job gets", d);
        }
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (j->asked_valid && hsp_ci_has(j->asked, j->n_asked, dev[i])) {
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

static void advance_running(struct hsp_cluster *c, struct hsp_job *j)
{
    hsp_device_id *dev;
    if (j->suspending || !j->cur.settled || j->ticket != 0 || c->now_ms < j->retry_ms ||
        hsp_ci_releasing(c, j)) {
        return;
    }
    if (hsp_ci_silent_node(c, j) != NULL) {
        return; /* a closed connection alone changes no plan, nor does a restart of hspmdd */
    }
    uint32_t n = hsp_ci_available(c, j, &dev);
    if (j->have_result) {
        if (hsp_ci_all_in(j->result.device, j->result.n_ranks, dev, n)) {
            hsp_ci_attempt(c, j, hsp_ci_adopt_result(c, j), HSP_MODE_SWITCH, j->cur.plan, 0);
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
        hsp_ci_job_blocked(c, j, "%s: cannot be done, needs %u devices, %u can be had", j->cause,
                           j->min, n);
    } else if (!wanted) {
        j->reason[0] = '\0';
    }
    if (hsp_ci_wants_keepers(c, j)) {
        j->detect_ms = j->planned_ms = c->now_ms;
        uint64_t plan = hsp_ci_with_keepers(c, j, j->cur.plan);
        hsp_ci_attempt(c, j, plan, HSP_MODE_SWITCH, j->cur.plan, 0);
    }
}

static void advance_job(struct hsp_cluster *c, struct hsp_job *j)
{
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
    case HSP_JOB_DONE:
    case HSP_JOB_FAILED:
    case HSP_JOB_CANCELLED:
    case HSP_JOB_SUSPENDED: break;
    }
    hsp_ci_suspend_advance(c, j);
}

void hsp_ci_advance(struct hsp_cluster *c)
{
    /* A job goes through at most a few states without outside help, and what it gives back may let
     * another go. The bound ends a cycle that would be an error of ours; the next event goes on. */
    for (uint32_t pass = 0; c->stir && pass < 16 && !c->failed; pass++) {
        bool all = c->look_jobs;
        c->stir = c->look_jobs = false;
        for (uint32_t i = 0; i < c->n_jobs; i++) {
            struct hsp_job *j = c->jobs[i];
            if (!all && !j->look) {
                continue;
            }
            j->look = false;
            hsp_ci_data_advance(c, j);
            hsp_ci_keepers_advance(c, j);
            enum hsp_job_state state = j->state;
            uint64_t epoch = j->att.epoch, ticket = j->ticket;
            enum hsp_attempt_phase phase = j->att.phase;
            advance_job(c, j);
            if (state != j->state || epoch != j->att.epoch || phase != j->att.phase ||
                ticket != j->ticket) {
                hsp_ci_look_jobs(c);
            }
        }
        hsp_ci_nodes_advance(c);
    }
}
