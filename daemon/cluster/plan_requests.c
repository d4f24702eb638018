#include "daemon/cluster/plan_requests.h"

#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "proto/base/vec.h"

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
    for (uint32_t i = 0; i < j->n_facts; i++) {
        r->facts[i] = j->facts[i].fact;
    }
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

void hsp_ci_drop_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan)
{
    for (uint32_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].plan != plan) {
            continue;
        }
        hsp_ci_plan_fini(&j->plans[i]);
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
