#include "daemon/cluster/slow.h"

#include <stdio.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/vec.h"

/* Observed speeds are kept within this of the profile: slower is as good as not there. */
#define MIN_SPEED 0.02
/* A step as planned forgives so many slow steps. So a single step in which the other ranks were
 * held up does not begin the count again, and a device that is slow in half of the steps never
 * reaches it. */
#define FORGIVEN 2u

void hsp_ci_watch_begin(struct hsp_cluster *c, struct hsp_job *j)
{
    uint32_t n = j->cur.n_ranks;
    if (n > 0 && !hsp_grow(&j->watch, &j->cap_watch, n, sizeof(*j->watch), HSP_MSG_RANKS)) {
        c->failed = true;
        return;
    }
    j->n_watch = n;
    j->watched = 0;
    for (uint32_t i = 0; i < n; i++) {
        j->watch[i] = (struct hsp_watch){0};
    }
}

void hsp_ci_watch_restore(struct hsp_cluster *c, const struct hsp_job *j)
{
    const struct hsp_job_plan *p = j->cur.epoch != 0 ? hsp_ci_plan(j, j->cur.plan) : NULL;
    for (uint32_t i = 0; p != NULL && i < p->info.n_ranks && i < j->cur.n_ranks; i++) {
        hsp_device_id d = p->info.device[i];
        if (hsp_ci_node(c, d)->incarnation == j->cur.peers[i].incarnation && p->info.speed[i] > 0) {
            hsp_ci_device(c, d)->speed = p->info.speed[i];
        }
    }
}

/* Sums of measured and planned seconds; false: the two cannot be compared. */
static bool sums(const struct hsp_job *j, const struct hsp_plan_info *p, const struct hsp_m_step *s,
                 double *ret_measured, double *ret_planned)
{
    *ret_measured = *ret_planned = 0;
    if (p->n_ranks < 2 || s->n_compute != p->n_ranks || j->n_watch != p->n_ranks) {
        return false;
    }
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        if (!(s->compute_s[i] > 0) || !(p->compute_s[i] > 0)) {
            return false;
        }
        *ret_measured += s->compute_s[i];
        *ret_planned += p->compute_s[i];
    }
    return true;
}

/* The rank that has been above the ratio for long enough; n_ranks: none. */
static uint32_t watch(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_plan_info *p,
                      const struct hsp_m_step *s, double measured, double planned)
{
    uint32_t found = p->n_ranks;
    bool any = false;
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        double share = s->compute_s[i] / measured, ratio = share / (p->compute_s[i] / planned);
        uint32_t above = j->watch[i].above;
        above = ratio > c->cfg.slow_ratio ? above + 1 : above > FORGIVEN ? above - FORGIVEN : 0;
        j->watch[i].above = above;
        j->watch[i].share += share;
        any = any || above > 0;
        found = found == p->n_ranks && above >= c->cfg.slow_steps ? i : found;
    }
    j->watched++;
    if (!any) {
        hsp_ci_watch_begin(c, j);
    }
    return found;
}

/* Observed times give the speeds of the devices relative to each other; the fastest keeps its
 * profile. */
static void learn_speeds(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_plan_info *p,
                         double planned)
{
    double best = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < p->n_ranks; i++) {
            double share = j->watch[i].share / j->watched, base = p->speed[i] > 0 ? p->speed[i] : 1;
            double f = base * (p->compute_s[i] / planned) / share;
            if (pass == 0) {
                best = f > best ? f : best;
            } else {
                hsp_ci_device(c, p->device[i])->speed = f / best < MIN_SPEED ? MIN_SPEED : f / best;
            }
        }
    }
}

void hsp_ci_watch_step(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_m_step *s)
{
    const struct hsp_job_plan *plan = hsp_ci_plan(j, j->cur.plan);
    double measured, planned;
    if (plan == NULL || !sums(j, &plan->info, s, &measured, &planned)) {
        return;
    }
    const struct hsp_plan_info *p = &plan->info;
    uint32_t slow = watch(c, j, p, s, measured, planned);
    bool pause = j->retuned_ms != 0 && c->now_ms < j->retuned_ms + c->cfg.retune_ms;
    /* while a question is open, its answer is to speeds as they were asked */
    bool asked = j->ticket != 0 || j->have_result;
    if (slow == p->n_ranks || pause || asked || j->state != HSP_JOB_RUNNING) {
        return;
    }
    j->retuned_ms = c->now_ms;
    j->retune = true;
    (void)snprintf(j->cause, sizeof(j->cause), "slow: %s takes %.2f of the time, %.2f planned",
                   hsp_ci_device_name(c, p->device[slow]), j->watch[slow].share / j->watched,
                   p->compute_s[slow] / planned);
    hsp_ci_fact(c, "node.slow", HSP_SEV_WARN, j, hsp_ci_node(c, p->device[slow]), "%s", j->cause);
    learn_speeds(c, j, p, planned);
    hsp_ci_watch_begin(c, j);
}
