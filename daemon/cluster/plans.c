/* Questions to the planner and their answers; the layouts a job may still need. */
#include "daemon/cluster/plans.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/finishing.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/keepers.h"
#include "daemon/cluster/membership.h"
#include "daemon/cluster/rows.h"
#include "proto/base/size.h"
#include "proto/base/vec.h"

/* A shard is held by at most every rank, and each rank has one copy of another's. */
#define MAX_SHARDS 65536u
#define MAX_PIECES (1u << 20)
#define PAUSE_MS   1000u /* after an answer that was no plan */

struct hsp_job_plan *hsp_ci_plan(const struct hsp_job *j, uint64_t plan)
{
    for (uint32_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].plan == plan) {
            return &j->plans[i];
        }
    }
    return NULL;
}

static void *dup(const void *from, size_t n, size_t size)
{
    void *p = calloc(n != 0 ? n : 1, size);
    if (p != NULL && n != 0 && from != NULL) {
        memcpy(p, from, n * size);
    }
    return p;
}

static bool copy_info(const struct hsp_plan_info *from, struct hsp_plan_info *ret)
{
    struct hsp_plan_info p = *from;
    uint32_t n_pieces = from->shard_first[from->n_shards];
    p.device = dup(from->device, p.n_ranks, sizeof(*p.device));
    p.mem_bytes = dup(from->mem_bytes, p.n_ranks, sizeof(*p.mem_bytes));
    p.compute_s = dup(from->compute_s, p.n_ranks, sizeof(*p.compute_s));
    p.speed = dup(from->speed, p.n_ranks, sizeof(*p.speed));
    p.shard_first = dup(from->shard_first, (size_t)p.n_shards + 1, sizeof(*p.shard_first));
    p.pieces = dup(from->pieces, n_pieces, sizeof(*p.pieces));
    p.why = strdup(from->why != NULL ? from->why : "");
    if (p.device == NULL || p.mem_bytes == NULL || p.compute_s == NULL || p.speed == NULL ||
        p.shard_first == NULL || p.pieces == NULL || p.why == NULL) {
        hsp_ci_info_fini(&p);
        return false;
    }
    *ret = p;
    return true;
}

void hsp_ci_info_fini(struct hsp_plan_info *p)
{
    free(p->device);
    free(p->mem_bytes);
    free(p->compute_s);
    free(p->speed);
    free(p->shard_first);
    free(p->pieces);
    free((char *)(uintptr_t)p->why);
    *p = (struct hsp_plan_info){0};
}

const char *hsp_ci_info_fault(const struct hsp_plan_info *p)
{
    if (p->n_ranks == 0 || p->n_ranks > HSP_MSG_RANKS || p->device == NULL) {
        return "number of ranks";
    }
    if (p->n_spare > HSP_MAX_KEEPERS || p->n_keepers > p->n_spare) {
        return "number of keepers";
    }
    if (p->n_shards == 0 || p->n_shards > MAX_SHARDS || p->shard_first == NULL ||
        p->shard_first[0] != 0 || p->shard_first[p->n_shards] > MAX_PIECES) {
        return "number of shards";
    }
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        if (hsp_ci_contains(p->device, i, p->device[i])) {
            return "a device twice";
        }
    }
    for (uint32_t s = 0; s < p->n_shards; s++) {
        if (p->shard_first[s] >= p->shard_first[s + 1]) {
            return "a shard nobody holds";
        }
        for (uint32_t k = p->shard_first[s]; k < p->shard_first[s + 1]; k++) {
            if (p->pieces[k].holder >= p->n_ranks + p->n_spare ||
                p->pieces[k].owner >= p->n_ranks) {
                return "rank of a piece";
            }
        }
    }
    return NULL;
}

void hsp_ci_cancel_plan(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->ticket != 0) {
        struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_CANCEL_PLAN);
        a->job = j->id;
        a->ticket = j->ticket;
        j->ticket = 0;
        j->asked_valid = false; /* what was asked about has not been declined */
    }
    if (j->have_result) {
        j->asked_valid = false;
        hsp_ci_info_fini(&j->result);
        j->have_result = false;
    }
}

void hsp_ci_start_plan(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                       uint32_t n, bool urgent)
{
    hsp_ci_cancel_plan(c, j);
    struct hsp_plan_request *r = hsp_ci_alloc(c, 1, sizeof(*r));
    if (!hsp_grow(&j->asked, &j->cap_asked, n, sizeof(*j->asked),
                  (size_t)HSP_MAX_NODES * HSP_NODE_DEVICES) ||
        r == NULL) {
        c->failed = true;
        return;
    }
    memcpy(j->asked, dev, n * sizeof(*dev));
    j->n_asked = n;
    j->asked_valid = true;
    j->ticket = c->next_ticket++;
    j->ticket_urgent = urgent;
    j->retune = false;
    *r = (struct hsp_plan_request){.job = j->id,
                                   .ticket = j->ticket,
                                   .urgent = urgent,
                                   .current_plan = j->cur.plan,
                                   .current_usable = !urgent && j->cur.epoch != 0,
                                   .cause = hsp_ci_printf(c, "%s", j->cause),
                                   .n_devices = n,
                                   .devices = hsp_ci_alloc(c, n, sizeof(*dev)),
                                   .speed = hsp_ci_alloc(c, n, sizeof(double)),
                                   .n_facts = j->n_facts,
                                   .facts = hsp_ci_alloc(c, j->n_facts, sizeof(*r->facts))};
    if (c->failed) {
        return;
    }
    memcpy(r->devices, dev, n * sizeof(*dev));
    memcpy(r->facts, j->facts, j->n_facts * sizeof(*r->facts));
    for (uint32_t i = 0; i < n; i++) {
        r->speed[i] = hsp_ci_device(c, dev[i])->speed;
    }
    const struct hsp_job_plan *cur = hsp_ci_plan(j, j->cur.plan);
    for (uint32_t i = 0; cur != NULL && i < cur->info.n_ranks; i++) {
        r->current_usable = r->current_usable && hsp_ci_has(dev, n, cur->info.device[i]);
    }
    struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_START_PLAN);
    a->job = j->id;
    a->ticket = j->ticket;
    a->u.plan = r;
    struct hsp_fact *f = hsp_ci_fact(c, "plan.requested", HSP_SEV_INFO, j, NULL, "%u devices%s", n,
                                     urgent ? ", urgent" : "");
    if (f != NULL) {
        f->cause = r->cause;
    }
}

/* It runs, and on nothing but what was asked about. */
static bool can_keep(const struct hsp_job *j)
{
    bool can = j->state == HSP_JOB_RUNNING;
    for (uint32_t i = 0; can && i < j->cur.n_ranks; i++) {
        can = hsp_ci_has(j->asked, j->n_asked, j->cur.peers[i].device);
    }
    return can;
}

/* How much of the programs is new. */
static const char *templates_text(struct hsp_cluster *c, const struct hsp_plan_info *p)
{
    return p->n_templates == 0
               ? ""
               : hsp_ci_printf(c, ", %u of %u templates new", p->new_templates, p->n_templates);
}

void hsp_ci_plan_done(struct hsp_cluster *c, const struct hsp_plan_event *ev)
{
    struct hsp_job *j = hsp_ci_job(c, ev->job);
    if (j == NULL || j->ticket == 0 || j->ticket != ev->ticket) {
        return; /* computed for a question that is no longer asked */
    }
    j->ticket = 0;
    j->planned_ms = c->now_ms;
    const char *fault = NULL;
    if (ev->status == HSP_OK && ev->keep && can_keep(j)) {
        hsp_ci_fact(c, "plan.kept", HSP_SEV_INFO, j, NULL, "%s",
                    ev->reason != NULL ? ev->reason : "");
        return;
    }
    if (ev->status == HSP_OK) {
        fault = ev->keep           ? "what runs cannot be kept"
                : ev->info == NULL ? "empty"
                                   : hsp_ci_info_fault(ev->info);
        fault = fault == NULL && ev->info->n_keepers != 0 ? "number of keepers" : fault;
        for (uint32_t i = 0; fault == NULL && i < ev->info->n_ranks; i++) {
            if (!hsp_ci_has(j->asked, j->n_asked, ev->info->device[i])) {
                fault = "a device that was not offered";
            }
        }
    }
    if (ev->status == HSP_OK && fault == NULL) {
        if (!copy_info(ev->info, &j->result)) {
            c->failed = true;
            return;
        }
        for (uint32_t i = 0; i < j->result.n_ranks; i++) {
            j->result.speed[i] = hsp_ci_device(c, j->result.device[i])->speed;
        }
        j->have_result = true;
        j->result_ticket = ev->ticket;
        hsp_ci_fact(c, "plan.solved", HSP_SEV_INFO, j, NULL, "%u ranks, %.3g s a step%s: %s",
                    ev->info->n_ranks, ev->info->step_s, templates_text(c, ev->info),
                    j->result.why);
        return;
    }
    const char *why = fault != NULL ? hsp_ci_printf(c, "plan refused: %s", fault)
                                    : (ev->reason != NULL ? ev->reason : "no plan");
    hsp_ci_fact(c, "plan.infeasible", HSP_SEV_WARN, j, NULL, "%s", why);
    /* asked again when the devices change, or after a pause */
    if (j->state == HSP_JOB_RUNNING) {
        j->plan_retry_ms = c->now_ms + PAUSE_MS;
        return;
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
    *p = (struct hsp_job_plan){.plan = j->next_plan++, .info = *info};
    return p;
}

uint64_t hsp_ci_adopt_result(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_plan_info info = j->result;
    j->result = (struct hsp_plan_info){0};
    j->have_result = false;
    hsp_ci_set_keepers(c, j, &info);
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

uint64_t hsp_ci_copy_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                          const hsp_device_id *keeper, uint32_t n_keepers)
{
    struct hsp_plan_info info;
    if (!copy_info(&hsp_ci_plan(j, plan)->info, &info)) {
        c->failed = true;
        return 0;
    }
    info.n_keepers = n_keepers;
    memcpy(info.keeper, keeper, n_keepers * sizeof(*keeper));
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

void hsp_ci_drop_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan)
{
    for (uint32_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].plan != plan) {
            continue;
        }
        hsp_ci_info_fini(&j->plans[i].info);
        memmove(&j->plans[i], &j->plans[i + 1], (j->n_plans - i - 1) * sizeof(*j->plans));
        j->n_plans--;
        struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_ERASE);
        a->key = hsp_ci_printf(c, "plan/%u/%llu", j->id, (unsigned long long)plan);
        a = hsp_ci_emit(c, HSP_ACT_DROP_PLAN);
        a->job = j->id;
        a->plan_no = plan;
        return;
    }
}
