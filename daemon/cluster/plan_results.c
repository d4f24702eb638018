#include "daemon/cluster/plan_results.h"

#include <string.h>

#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/standing.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/replica_holders.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/rows.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define PAUSE_MS 1000u /* after an answer that was no plan */

/* The job runs, and on no device but those of the question. */
static bool can_keep(const struct hsp_job *j)
{
    bool can = j->state == HSP_JOB_RUNNING;
    for (uint32_t i = 0; can && i < j->cur.n_ranks; i++) {
        can = hsp_ci_has(j->asked, j->n_asked, j->cur.peers[i].device);
    }
    return can;
}

/* Says how many templates of the plan are new. */
static const char *templates_text(struct hsp_cluster *c, const struct hsp_plan_info *p)
{
    return p->n_templates == 0 ? ""
                               : hsp_ci_printf(c, ", %u of %u template%s new", p->new_templates,
                                               p->n_templates, hsp_s(p->n_templates));
}

/* Once: the same question is asked each second until there is a plan. */
static void tell_none(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    char text[sizeof(j->no_plan)];
    hsp_str_tell(text, sizeof(text), "%s", why); /* cut as the reason of the job is */
    if (strcmp(text, j->no_plan) != 0) {
        memcpy(j->no_plan, text, sizeof(text));
        hsp_ci_fact(c, "plan.infeasible", HSP_SEV_WARN, j, NULL, "%s", why);
    }
}

void hsp_ci_plan_done(struct hsp_cluster *c, const struct hsp_plan_event *ev)
{
    struct hsp_job *j = hsp_ci_job(c, ev->job);
    if (j == NULL || j->ticket == 0 || j->ticket != ev->ticket) {
        return; /* computed for a question that is no longer asked */
    }
    j->ticket = 0;
    j->tight = ev->tight;
    j->planned_ms = c->now_ms;
    const char *fault = NULL;
    if (ev->status == HSP_OK && ev->keep && can_keep(j)) {
        j->no_plan[0] = '\0';
        hsp_ci_fact(c, "plan.kept", HSP_SEV_INFO, j, NULL, "%s",
                    ev->reason != NULL ? ev->reason : "");
        return;
    }
    if (ev->status == HSP_OK) {
        fault = ev->keep           ? "the running plan cannot be kept"
                : ev->info == NULL ? "empty"
                                   : hsp_ci_info_fault(ev->info);
        fault =
            fault == NULL && ev->info->n_replica_holders != 0 ? "number of replica holders" : fault;
        for (uint32_t i = 0; fault == NULL && i < ev->info->n_ranks; i++) {
            if (!hsp_ci_has(j->asked, j->n_asked, ev->info->device[i])) {
                fault = "a device that was not offered";
            }
        }
    }
    if (ev->status == HSP_OK && fault == NULL) {
        if (!hsp_ci_info_copy(ev->info, &j->result)) {
            c->failed = true;
            return;
        }
        for (uint32_t i = 0; i < j->result.n_ranks; i++) {
            j->result.speed[i] = hsp_ci_device(c, j->result.device[i])->speed;
        }
        j->have_result = true;
        j->no_plan[0] = '\0';
        j->result_ticket = ev->ticket;
        hsp_ci_fact(c, "plan.solved", HSP_SEV_INFO, j, NULL, "%u rank%s, %.3g s a step%s: %s",
                    ev->info->n_ranks, hsp_s(ev->info->n_ranks), ev->info->step_s,
                    templates_text(c, ev->info), j->result.why);
        return;
    }
    const char *why = fault != NULL ? hsp_ci_printf(c, "plan refused: %s", fault)
                                    : (ev->reason != NULL ? ev->reason : "no plan");
    tell_none(c, j, why);
    /* asked again when the devices change, or after a pause */
    if (j->state == HSP_JOB_RUNNING) {
        j->plan_retry_ms = c->now_ms + PAUSE_MS;
        return;
    }
    if (j->state != HSP_JOB_FINISHING && hsp_ci_pairs_bear(c, j)) {
        j->asked_valid = false;
        return; /* slow is better than not at all */
    }
    j->retry_ms = c->now_ms + PAUSE_MS;
    if (j->state == HSP_JOB_FINISHING) {
        hsp_ci_finishing_stays(c, j, why);
    } else {
        j->asked_valid = false;
        hsp_ci_job_blocked(c, j, "%s", why);
    }
}

/* A new layout, which owns @info from here on. */
static struct hsp_job_plan *add_plan(struct hsp_cluster *c, struct hsp_job *j,
                                     struct hsp_plan_info *info)
{
    if (!hsp_grow(&j->plans, &j->cap_plans, (size_t)j->n_plans + 1, sizeof(*j->plans), 65536)) {
        hsp_ci_info_fini(info);
        c->failed = true;
        return NULL;
    }
    struct hsp_job_plan *p = &j->plans[j->n_plans++];
    *p = (struct hsp_job_plan){
        .plan = hsp_ci_take_plan(c, j), .void_from = UINT64_MAX, .info = *info};
    return p;
}

uint64_t hsp_ci_adopt_result(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_plan_info info = j->result;
    j->result = (struct hsp_plan_info){0};
    j->have_result = false;
    hsp_ci_set_replica_holders(c, j, &info);
    struct hsp_job_plan *p = add_plan(c, j, &info);
    if (p == NULL) {
        return 0;
    }
    struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_KEEP_PLAN);
    a->job = j->id;
    a->plan_no = p->plan;
    a->ticket = j->result_ticket;
    hsp_ci_store_plan(c, j, p);
    return p->plan;
}

static uint64_t copy_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                          const hsp_device_id *replica_holder, uint32_t n_replica_holders)
{
    struct hsp_plan_info info;
    if (!hsp_ci_info_copy(&hsp_ci_plan(j, plan)->info, &info)) {
        c->failed = true;
        return 0;
    }
    info.n_replica_holders = n_replica_holders;
    memcpy(info.replica_holder, replica_holder, n_replica_holders * sizeof(*replica_holder));
    struct hsp_job_plan *p = add_plan(c, j, &info);
    if (p == NULL) {
        return 0;
    }
    struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_COPY_PLAN);
    a->job = j->id;
    a->plan_no = p->plan;
    a->from_plan = plan;
    hsp_ci_store_plan(c, j, p);
    return p->plan;
}

uint64_t hsp_ci_with_replica_holders(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan)
{
    const struct hsp_plan_info *p = &hsp_ci_plan(j, plan)->info;
    hsp_device_id now[HSP_MAX_REPLICA_HOLDERS];
    uint32_t n = hsp_ci_choose_replica_holders(c, j, p, now), same = 0;
    for (uint32_t i = 0; i < n; i++) {
        same += hsp_ci_contains(p->replica_holder, p->n_replica_holders, now[i]);
    }
    return n == p->n_replica_holders && same == n ? plan : copy_plan(c, j, plan, now, n);
}
