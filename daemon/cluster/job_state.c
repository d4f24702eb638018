#include "daemon/cluster/job_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/past_epochs.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "proto/base/check.h"
#include "proto/base/size.h"
#include "proto/base/str.h"

#define MAX_PAUSE_MS 5000u /* between attempts */

/* The states that may follow each state. */
#define BIT(s) (1u << HSP_JOB_##s)
static const uint32_t may_follow[] = {
    [HSP_JOB_PENDING] = BIT(STARTING) | BIT(CANCELLED) | BIT(FAILED) | BIT(SUSPENDED),
    [HSP_JOB_STARTING] = BIT(PENDING) | BIT(RUNNING) | BIT(SEALING) | BIT(DONE) | BIT(CANCELLED) |
                         BIT(FAILED) | BIT(SUSPENDED),
    [HSP_JOB_RUNNING] = BIT(SWITCHING) | BIT(SEALING) | BIT(FINISHING) | BIT(DONE) |
                        BIT(CANCELLED) | BIT(FAILED) | BIT(SUSPENDED),
    [HSP_JOB_SWITCHING] = BIT(RUNNING) | BIT(SEALING) | BIT(FINISHING) | BIT(DONE) |
                          BIT(CANCELLED) | BIT(FAILED) | BIT(SUSPENDED),
    [HSP_JOB_SEALING] = BIT(RECOVERING) | BIT(DONE) | BIT(CANCELLED) | BIT(FAILED),
    [HSP_JOB_RECOVERING] =
        BIT(RUNNING) | BIT(SEALING) | BIT(PAUSED) | BIT(DONE) | BIT(CANCELLED) | BIT(FAILED),
    [HSP_JOB_PAUSED] = BIT(RECOVERING) | BIT(SEALING) | BIT(DONE) | BIT(CANCELLED) | BIT(FAILED),
    [HSP_JOB_FINISHING] = BIT(DONE) | BIT(RUNNING) | BIT(SEALING) | BIT(CANCELLED) | BIT(FAILED),
    [HSP_JOB_DONE] = 0,
    [HSP_JOB_FAILED] = BIT(PENDING) | BIT(SEALING) | BIT(CANCELLED), /* resume; cancel */
    [HSP_JOB_CANCELLED] = BIT(PENDING),
    [HSP_JOB_SUSPENDED] = BIT(PENDING) | BIT(CANCELLED),
    [HSP_JOB_BEHIND] = BIT(CANCELLED),
};
_Static_assert(HSP_ARRAY_LEN(may_follow) == HSP_JOB_BEHIND + 1, "an entry per state");

/* @why: the reason, which the job has no room for in full. */
static void move(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to, const char *why)
{
    if (j->state == to) {
        return;
    }
    HSP_ASSERT(to == HSP_JOB_BEHIND || (may_follow[j->state] >> to & 1) != 0);
    j->state = to;
    hsp_ci_jobs_dirty(c); /* shares depend on it */
    const char *type = hsp_ci_printf(c, "job.%s", hsp_job_state_name(to));
    bool bad = to == HSP_JOB_FAILED || to == HSP_JOB_BEHIND;
    struct hsp_fact *f =
        hsp_ci_fact(c, type, bad ? HSP_SEV_ERROR : HSP_SEV_NOTICE, j, NULL, "%s", why);
    bool said = strncmp(j->reason, j->cause, strlen(j->cause)) == 0;
    if (f != NULL) {
        f->cause = said ? "" : hsp_ci_printf(c, "%s", j->cause);
    }
}

void hsp_ci_job_move(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to)
{
    move(c, j, to, j->reason);
}

void hsp_ci_job_blocked(struct hsp_cluster *c, struct hsp_job *j, const char *fmt, ...)
{
    char text[HSP_TEXT_MAX + 1], reason[sizeof(j->reason)];
    va_list ap;
    va_start(ap, fmt);
    hsp_str_vtell(text, sizeof(text), fmt, ap);
    va_end(ap);
    hsp_str_tell(reason, sizeof(reason), "%s", text);
    bool news = strcmp(reason, j->reason) != 0;
    (void)snprintf(j->reason, sizeof(j->reason), "%s", reason);
    if (j->state == HSP_JOB_RECOVERING && j->att.epoch == 0) {
        move(c, j, HSP_JOB_PAUSED, text);
        hsp_ci_store_job(c, j);
    } else if (news) {
        hsp_ci_fact(c, "job.blocked", HSP_SEV_INFO, j, NULL, "%s", text);
    }
}

static bool has_begun(const struct hsp_job *j)
{
    for (uint32_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].started) {
            return true;
        }
    }
    return false;
}

/* Its nodes may have a version beyond the one that it began with. */
static bool has_come_further(const struct hsp_job *j)
{
    uint64_t best = j->stable;
    for (uint32_t i = 0; i < j->n_held; i++) {
        best = j->held[i].version > best ? j->held[i].version : best;
    }
    return has_begun(j) && best > j->origin_step;
}

void hsp_ci_tell_holders(struct hsp_cluster *c, const struct hsp_job *j,
                         const struct hsp_job_plan *p)
{
    for (uint32_t k = 0; k < p->info.n_ranks + p->info.n_replica_holders; k++) {
        hsp_device_id d = hsp_ci_holder(&p->info, k);
        const struct hsp_cluster_node *n = hsp_ci_node(c, d);
        struct hsp_msg m = {.type = HSP_MSG_RELEASE,
                            .u.release = {.job = j->id,
                                          .device = HSP_DEVICE_INDEX(d),
                                          .keep_plan = j->next_plan, /* made after this */
                                          .known = j->next_epoch - 1}};
        if (n->conn != 0 && hsp_ci_device(c, d)->present && hsp_ci_device(c, d)->job != j->id) {
            hsp_ci_send(c, n->conn, &m);
        }
    }
}

/* @j stops: notes how many steps were made, for lost_steps. */
static void note_made(struct hsp_job *j)
{
    /* else the versions lost before are still lost */
    bool ran = hsp_ci_job_runs(j) && j->cur.settled;
    /* the step of the newest vote has been made, too; the last STEP is of no step */
    uint64_t made = j->passed + (ran && j->passed < j->steps ? 1 : 0);
    uint64_t had = made > j->stable ? made : j->stable;
    j->lost_from = ran || had > j->lost_from ? had : j->lost_from;
}

static void end(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to, const char *why,
                bool keeps)
{
    note_made(j);
    hsp_ci_cancel_plan(c, j);
    j->unrecorded = j->doubted = false;
    j->ahead[0] = '\0';
    hsp_str_tell(j->reason, sizeof(j->reason), "%s", why);
    move(c, j, to, why);
    hsp_ci_epoch_over(j, &j->cur);
    hsp_ci_epoch_over(j, &j->att);
    j->n_held = 0;
    j->suspending = j->ckpt_asked = false;
    j->problem[0] = j->no_plan[0] = '\0';
    j->state_deadline_ms = 0;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].seal = 0;
    }
    if (to == HSP_JOB_CANCELLED) {
        hsp_ci_give_up_ahead(c, j);
    }
    for (uint32_t i = 0; i < j->n_leases; i++) { /* kept_state.h */
        hsp_ci_ask(c, j->leases[i], keeps ? HSP_ASK_NONE : HSP_ASK_STOP);
        hsp_ci_mark(c, j, HSP_DEVICE_NODE(j->leases[i]))->seal = keeps;
    }
    j->seal_upto = j->next_epoch - 1;
    hsp_ci_store_job(c, j);
    hsp_ci_judge_job(c, j->id);
    for (uint32_t i = j->n_plans; i-- > 0;) { /* behind the row that needs them no more */
        if (!keeps || !j->plans[i].started) {
            if (!keeps) {
                hsp_ci_tell_holders(c, j, &j->plans[i]);
            }
            hsp_ci_drop_plan(c, j, j->plans[i].plan);
        }
    }
}

void hsp_ci_job_end(struct hsp_cluster *c, struct hsp_job *j, enum hsp_job_state to,
                    const char *why)
{
    end(c, j, to, why, to == HSP_JOB_FAILED && has_come_further(j));
}

void hsp_ci_job_done(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *by)
{
    hsp_ci_job_end(
        c, j, HSP_JOB_DONE,
        hsp_ci_printf(c, "all steps are done; %s has written the final model", by->name));
}

void hsp_ci_job_set_aside(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    end(c, j, HSP_JOB_FAILED, why, has_begun(j));
}

void hsp_ci_job_failure(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    if (j->state == HSP_JOB_FINISHING) { /* the job was to go elsewhere, and goes on here */
        j->retry_ms = c->now_ms + MAX_PAUSE_MS;
        return;
    }
    j->failures++;
    if (j->failures > c->cfg.max_failures) {
        const char *steps = j->passed > j->stable
                                ? hsp_ci_printf(c, ": no version later than %llu became stable",
                                                (unsigned long long)j->stable)
                                : "";
        hsp_ci_job_end(c, j, HSP_JOB_FAILED,
                       hsp_ci_printf(c, "%u attempts without progress%s, the last: %s",
                                     j->failures - 1, steps, why));
    } else if (j->failures > 2) {
        uint64_t pause = (uint64_t)c->cfg.backoff_ms
                         << (j->failures - 3 < 10 ? j->failures - 3 : 10);
        j->retry_ms = c->now_ms + (pause < MAX_PAUSE_MS ? pause : MAX_PAUSE_MS);
    }
}

void hsp_ci_switches_anew(struct hsp_job *j)
{
    j->vain = 0;
    j->switch_retry_ms = 0;
}

void hsp_ci_all_switches_anew(struct hsp_cluster *c)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        hsp_ci_switches_anew(c->jobs[i]);
    }
    hsp_ci_jobs_dirty(c);
}

void hsp_ci_job_loss(struct hsp_cluster *c, struct hsp_job *j, const char *cause)
{
    if (hsp_ci_at_rest(j) || j->state == HSP_JOB_PENDING || j->state == HSP_JOB_BEHIND) {
        return;
    }
    uint64_t plan = j->att.epoch != 0 ? j->att.plan : 0;
    hsp_ci_epoch_over(j, &j->att);
    const struct hsp_job_plan *p = hsp_ci_plan(j, plan);
    if (p != NULL && !p->started) {
        hsp_ci_drop_plan(c, j, plan);
    }
    hsp_ci_cancel_plan(c, j);
    hsp_ci_switches_anew(j);
    j->asked_valid = false;
    hsp_str_printf(j->cause, sizeof(j->cause), "%s", cause);
    j->detect_ms = c->now_ms;
    j->sealed_ms = j->planned_ms = 0;
    note_made(j);
    hsp_ci_disk_forget(j);
    j->seal_upto = j->next_epoch - 1;
    j->reason[0] = j->no_plan[0] = '\0';
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].blamed = false;
        j->marks[i].seal = 0;
    }
    for (uint32_t i = 0; i < j->n_leases; i++) {
        hsp_device_id d = j->leases[i];
        /* the next epoch releases the devices that it does not need */
        hsp_ci_ask(c, d, HSP_ASK_NONE);
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
        hsp_str_tell(j->reason, sizeof(j->reason), "%s", cause); /* status says it until then */
    }
}

void hsp_ci_state_lost(struct hsp_cluster *c, struct hsp_job *j, uint64_t had, uint64_t to)
{
    uint64_t made = had > j->lost_from ? had : j->lost_from;
    uint64_t lost = had > to ? made - to : 0;
    const char *what =
        lost > 0
            ? hsp_ci_printf(
                  c, "version %llu is lost, going back to version %llu: %llu step%s made again",
                  (unsigned long long)had, (unsigned long long)to, (unsigned long long)lost,
                  lost == 1 ? " is" : "s are")
            : hsp_ci_printf(c,
                            "its state is lost, and its newest step is not known here: it resumes "
                            "from version %llu",
                            (unsigned long long)to); /* which may be newer than all that is known */
    struct hsp_fact *f = hsp_ci_fact(c, "state.lost", HSP_SEV_ERROR, j, NULL, "%s%s%s", what,
                                     j->damage[0] != '\0' ? "; " : "", j->damage);
    if (f != NULL) {
        f->step = to;
        f->lost_steps = lost;
    }
    j->lost_from = had > j->lost_from ? had : j->lost_from;
}

uint64_t hsp_ci_best_known(const struct hsp_job *j)
{
    uint64_t best = j->stable > j->reached ? j->stable : j->reached;
    for (uint32_t i = 0; i < j->n_held; i++) {
        best = j->held[i].version > best ? j->held[i].version : best;
    }
    for (uint32_t i = 0; i < j->n_plans; i++) {
        best = j->plans[i].damaged > best ? j->plans[i].damaged : best;
    }
    return best;
}

void hsp_ci_back_to_origin(struct hsp_cluster *c, struct hsp_job *j)
{
    hsp_ci_epoch_over(j, &j->cur);
    j->n_held = 0;
    j->state_deadline_ms = 0;
    hsp_ci_store_job(c, j);
    while (j->n_plans > 0) {
        hsp_ci_drop_plan(c, j, j->plans[0].plan);
    }
}

void hsp_ci_begin_as_before(struct hsp_cluster *c, struct hsp_job *j)
{
    bool heard_all = !j->was_stored && !j->ran_unknown && j->tries.n == 0;
    if (j->origin == HSP_MODE_FRESH && heard_all) {
        j->anew = true;
        hsp_ci_mark_none_ran(j);
    }
    hsp_ci_back_to_origin(c, j);
}

void hsp_ci_layouts_over(struct hsp_cluster *c, struct hsp_job *j)
{
    const hsp_msec waited = j->state_deadline_ms;
    j->stable = hsp_ci_best_known(j); /* beyond its origin: the next begin tells that it was lost */
    hsp_ci_back_to_origin(c, j);
    j->state_deadline_ms = waited;
}

/* ---- devices of a job ---- */

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

bool hsp_ci_releasing(const struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; i < j->n_leases; i++) {
        if (hsp_ci_device(c, j->leases[i])->ask != HSP_ASK_NONE) {
            return true;
        }
    }
    return false;
}

hsp_device_id hsp_ci_leaver(const struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; i < hsp_ci_participants(&j->cur); i++) {
        if (hsp_ci_to_leave(c, j->cur.peers[i].device) != NULL) {
            return j->cur.peers[i].device;
        }
    }
    return HSP_NO_DEVICE;
}

/* ---- a job that is finishing ---- */

bool hsp_ci_moves(const struct hsp_cluster *c, const struct hsp_job *j)
{
    return j->state == HSP_JOB_FINISHING && j->unwritten == j->cur.epoch &&
           hsp_ci_leaver(c, j) != HSP_NO_DEVICE;
}

void hsp_ci_finishing_stays(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    hsp_device_id d = hsp_ci_leaver(c, j);
    const struct hsp_cluster_node *n = d != HSP_NO_DEVICE ? hsp_ci_node(c, d) : NULL;
    if (n != NULL) {
        hsp_ci_job_blocked(c, j, "%s: the final model cannot be written elsewhere: %s: %s%s",
                           j->cause, why, "let another node join",
                           n->draining ? hsp_ci_printf(c, ", or undrain %s", n->name) : "");
    }
}
