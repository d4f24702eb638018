#include "daemon/cluster/plan_requests.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "proto/base/str.h"
#include "proto/base/vec.h"

#define MORE_ROOM 4u /* of the room there was, such a part */

void hsp_ci_cancel_plan(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->ticket != 0) {
        struct hsp_action *a = hsp_ci_emit(c, HSP_ACT_CANCEL_PLAN);
        a->job = j->id;
        a->ticket = j->ticket;
        j->ticket = 0;
        j->asked_valid = false; /* the devices of the question have not been declined */
    }
    if (j->have_result) {
        j->asked_valid = false;
        hsp_ci_info_fini(&j->result);
        j->have_result = false;
    }
}

static int ascending(const void *a, const void *b)
{
    hsp_device_id x = *(const hsp_device_id *)a, y = *(const hsp_device_id *)b;
    return x < y ? -1 : x > y;
}

static bool is_rank(const struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_epoch_peer *p = hsp_ci_peer(&j->cur, d);
    return p != NULL && (uint32_t)(p - j->cur.peers) < j->cur.n_ranks;
}

bool hsp_ci_was_asked(const struct hsp_job *j, hsp_device_id d)
{
    return j->asked_valid && (hsp_ci_has(j->asked, j->n_asked, d) ||
                              hsp_ci_has(j->asked + j->n_asked, j->n_declined, d));
}

void hsp_ci_unask_node(struct hsp_cluster *c, struct hsp_job *j, uint32_t node)
{
    uint32_t n = j->n_asked, all = n + j->n_declined, kept = 0;
    for (uint32_t i = 0; i < all; i++) {
        if (HSP_DEVICE_NODE(j->asked[i]) != node) {
            j->asked[kept++] = j->asked[i];
        } else {
            j->n_asked -= i < n;
            j->n_declined -= i >= n;
        }
    }
    if (j->n_asked < n) {
        hsp_ci_cancel_plan(c, j); /* if there is one */
    }
}

static bool asked_about_node(const struct hsp_job *j, uint32_t node)
{
    uint32_t i = 0, n = j->asked_valid ? j->n_asked + j->n_declined : 0;
    while (i < n && HSP_DEVICE_NODE(j->asked[i]) != node) {
        i++;
    }
    return i < n;
}

void hsp_ci_folder_free(struct hsp_cluster *c, struct hsp_cluster_node *n, uint64_t bytes)
{
    bool more = bytes > n->folder_seen && bytes - n->folder_seen > n->folder_seen / MORE_ROOM;
    n->folder_free = bytes;
    n->folder_seen = more || bytes < n->folder_seen ? bytes : n->folder_seen;
    for (uint32_t i = 0; more && i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        if (hsp_ci_job_runs(j) && j->tight && asked_about_node(j, hsp_ci_index_of(c, n))) {
            j->retune = true;
            hsp_str_printf(j->cause, sizeof(j->cause), "more room in the state folder of %s",
                           n->name);
            hsp_ci_job_dirty(c, j);
        }
    }
}

/* Puts @n devices before those that were declined while the job ran: all that earlier questions
 * were about but its own. */
static bool note_asked(struct hsp_job *j, const hsp_device_id *dev, uint32_t n)
{
    bool more = j->asked_valid && j->state == HSP_JOB_RUNNING;
    uint32_t before = more ? j->n_asked + j->n_declined : 0, kept = 0;
    if (!hsp_grow(&j->asked, &j->cap_asked, (size_t)before + n, sizeof(*j->asked),
                  2 * (size_t)HSP_MAX_NODES * HSP_NODE_DEVICES)) {
        return false;
    }
    for (uint32_t i = 0; i < before; i++) {
        if (!hsp_ci_has(dev, n, j->asked[i]) && !is_rank(j, j->asked[i])) {
            j->asked[kept++] = j->asked[i];
        }
    }
    memmove(j->asked + n, j->asked, kept * sizeof(*dev));
    memcpy(j->asked, dev, n * sizeof(*dev));
    qsort(j->asked + n, kept, sizeof(*dev), ascending);
    j->n_asked = n;
    j->n_declined = kept;
    j->asked_valid = true;
    return true;
}

/* There was no plan with these devices. */
static bool asked_in_vain(const struct hsp_job *j, const hsp_device_id *dev, uint32_t n)
{
    return j->no_plan[0] != '\0' && n == j->n_asked && memcmp(j->asked, dev, n * sizeof(*dev)) == 0;
}

bool hsp_ci_waits_for_plan(const struct hsp_job *j, const hsp_device_id *dev, uint32_t n)
{
    return asked_in_vain(j, dev, n) && strcmp(j->reason, j->no_plan) == 0;
}

void hsp_ci_start_plan(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                       uint32_t n, bool urgent)
{
    hsp_ci_cancel_plan(c, j);
    struct hsp_plan_request *r = hsp_ci_alloc(c, 1, sizeof(*r));
    bool again = asked_in_vain(j, dev, n);
    j->no_plan[0] = again ? j->no_plan[0] : '\0';
    if (r == NULL || !note_asked(j, dev, n)) {
        c->failed = true;
        return;
    }
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
    struct hsp_fact *f = again
                             ? NULL
                             : hsp_ci_fact(c, "plan.requested", HSP_SEV_INFO, j, NULL,
                                           "%u device%s%s", n, hsp_s(n), urgent ? ", urgent" : "");
    if (f != NULL) {
        f->cause = r->cause;
    }
}

/* Nothing may be left on a node that is drained. */
static void look_at_drains(struct hsp_cluster *c, const struct hsp_plan_info *p)
{
    for (uint32_t i = 0; i < p->n_ranks + p->n_replica_holders; i++) {
        uint32_t at = HSP_DEVICE_NODE(hsp_ci_holder(p, i));
        if (at < c->n_nodes && c->nodes[at].draining) {
            hsp_ci_node_dirty(c, &c->nodes[at]);
        }
    }
}

void hsp_ci_drop_plan(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan)
{
    for (uint32_t i = 0; i < j->n_plans; i++) {
        if (j->plans[i].plan != plan) {
            continue;
        }
        look_at_drains(c, &j->plans[i].info);
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
