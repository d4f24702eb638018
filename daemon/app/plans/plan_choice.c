#include "daemon/app/plans/plan_choice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/app/plans/plan_request.h"
#include "daemon/planner/annotations.h"
#include "daemon/planner/durability.h"
#include "daemon/planner/figure.h"
#include "daemon/planner/lengths.h"
#include "daemon/spmd/total/total_plan.h"
#include "proto/base/str.h"

/* A change costs a switch: it must win at least this much. */
#define WORTH 0.97
/* A plan written by hand is compiled, and refused or not by its need then, unless the
 * prediction is above the device's memory by more than this. */
#define DOUBT 1.5
/* The planner's plans that are compiled in vain before it gives up. */
#define VAIN 4

struct choice {
    struct hsp_planned planned;
    const char *source;
    bool by_hand;
    uint32_t next;    /* of the plans written by hand: those before it are refused */
    bool open_bucket; /* the one written by hand says nothing of buckets */
    bool no_bucket;   /* tried again without buckets */
    uint32_t vain;    /* of the planner: how many were compiled and are too large */
    /* by device of the cluster: its real memory, beside the planner's input; */
    int64_t *offered;
    int64_t *room;       /* the same of the state folder of its node, 0: not known */
    struct hsp_err fail; /* of the first one that is too large; code 0: none */
};

static void refuse(struct choice *c, const struct hsp_err *why)
{
    if (c->fail.code == HSP_OK) {
        c->fail = *why;
        if (c->by_hand) {
            (void)hsp_err_wrap(&c->fail, "%s", c->source);
        }
    }
}

/* The devices, each with more memory by DOUBT and by the predicted need of the transport. State
 * folders are left to the compiled plan. */
static enum hsp_status doubt(const struct hsp_plan_question *q, const struct hsp_device_desc *dev,
                             uint32_t n, struct hsp_cluster_desc *ret, struct hsp_err *err)
{
    struct hsp_device_desc *more = hsp_arena_memdup(q->arena, dev, n * sizeof *dev);
    if (more == NULL) {
        return hsp_err_nomem(err, "planning");
    }
    for (uint32_t i = 0; i < n; i++) {
        double bytes = (double)more[i].mem_bytes * DOUBT + HSP_COMM_BASE_BYTES;
        more[i].mem_bytes = bytes < (double)INT64_MAX ? (int64_t)bytes : INT64_MAX;
        more[i].folder_bytes = 0;
    }
    *ret = q->cluster;
    ret->n = n;
    ret->dev = more;
    return HSP_OK;
}

static uint32_t n_usable(const struct hsp_plan_question *q)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->cluster.n; i++) {
        n += !q->excluded[i];
    }
    return n;
}

/* HSP_ENOENT: none has so few ranks, the planner's turn; HSP_EINFEASIBLE: some has, and is too
 *             large. */
static enum hsp_status choose_annotation(struct hsp_plan_question *q,
                                         const struct hsp_plan_options *o, struct choice *ret,
                                         struct hsp_err *err)
{
    const struct hsp_job_rec *j = q->rec;
    const struct hsp_train_spec *train = &j->spec->train;
    struct hsp_cluster_desc more;
    enum hsp_status st = doubt(q, q->cluster.dev, q->cluster.n, &more, err);
    ret->by_hand = true;
    while (st == HSP_OK && ret->next < j->n_plans) {
        struct hsp_plan *plan;
        uint32_t at;
        st = hsp_annotations_pick(j->n_plans - ret->next, &j->plans[ret->next], j->graph,
                                  train->data.global_batch, n_usable(q), q->arena, &plan, &at, err);
        if (st != HSP_OK) {
            break;
        }
        ret->source = j->plans[ret->next + at].name;
        ret->next += at + 1;
        ret->open_bucket = !plan->states_bucket && !ret->no_bucket;
        plan->states_bucket = plan->states_bucket || ret->no_bucket;
        ret->no_bucket = false;
        st = hsp_plan_adopt(j->graph, train, &more, o, plan, q->arena, &ret->planned, err);
        if (st != HSP_EINFEASIBLE) {
            return st;
        }
        refuse(ret, err); /* the next one may fit */
        st = HSP_OK;
    }
    if (st != HSP_OK && st != HSP_ENOENT) {
        return st;
    }
    if (ret->fail.code != HSP_OK) {
        *err = ret->fail;
        return err->code;
    }
    return HSP_ENOENT;
}

static struct hsp_due_rule due_of(const struct hsp_plan_question *q)
{
    const struct hsp_job_spec *job = q->rec->spec;
    return (struct hsp_due_rule){job->every, job->overhead, job->max_recompute_s};
}

static enum hsp_status choose(struct hsp_plan_question *q, struct choice *ret, struct hsp_err *err)
{
    struct hsp_plan_options o = {.excluded = q->excluded,
                                 .max_devices = q->max_devices,
                                 .copies = q->copies,
                                 .due = due_of(q),
                                 .cancel = &q->cancel};
    enum hsp_status st = ret->vain == 0 ? choose_annotation(q, &o, ret, err) : HSP_ENOENT;
    if (st == HSP_ENOENT) {
        ret->by_hand = false;
        ret->source = "planner";
        st = hsp_plan_make(q->rec->graph, &q->rec->spec->train, &q->cluster, &o, q->arena,
                           &ret->planned, err);
    }
    return st;
}

/* True when a compiled plan needs more on some rank than @offered, by device of the cluster.
 * *ret_at: the rank's device there; *ret_need: its need. */
static bool is_too_large(const struct hsp_plan_question *q, const struct hsp_epoch_plan *p,
                         const int64_t *offered, uint32_t *ret_rank, uint32_t *ret_at,
                         uint64_t *ret_need)
{
    for (uint32_t r = 0; r < p->info.n_ranks; r++) {
        uint32_t i = hsp_plan_find(q, p->info.device[r]);
        bool known = i < q->cluster.n;
        uint64_t need = p->info.mem_bytes[r];
        if (known) {
            const struct hsp_device_desc *d = &q->cluster.dev[i];
            need += d->widens ? p->wide_bytes[r] : 0;
            need += hsp_device_is_host(d) ? p->folder_bytes[r] : 0;
        }
        if (known && need > (uint64_t)offered[i]) {
            *ret_rank = r;
            *ret_at = i;
            *ret_need = need;
            return true;
        }
    }
    return false;
}

/* True when the ranks of a compiled plan seal more on some node than its state folder has @room
 * for, by device of the cluster. *ret_at: a device of that node; *ret_need: the sealed bytes. */
static bool seals_too_much(const struct hsp_plan_question *q, const struct hsp_epoch_plan *p,
                           const int64_t *room, uint32_t *ret_at, uint64_t *ret_need)
{
    for (uint32_t r = 0; r < p->info.n_ranks; r++) {
        uint32_t node = HSP_DEVICE_NODE(p->info.device[r]), i = hsp_plan_find(q, p->info.device[r]);
        uint64_t need = 0;
        for (uint32_t k = 0; k < p->info.n_ranks; k++) {
            need += HSP_DEVICE_NODE(p->info.device[k]) == node ? p->folder_bytes[k] : 0;
        }
        if (i < q->cluster.n && room[i] > 0 && need > (uint64_t)room[i]) {
            *ret_at = i;
            *ret_need = need;
            return true;
        }
    }
    return false;
}

/* Predicted step of the running plan with the present knowledge, in microseconds; 0: the plan
 * cannot go on as it is. The plan has the memory that is @offered, not the planner's input for its
 * next one. Its state lies in the state folders already. */
static double price_current(struct hsp_plan_question *q, const int64_t *offered,
                            const struct hsp_epoch_plan **ret)
{
    const struct hsp_plan_rec *cur = q->current;
    struct hsp_device_desc *dev = hsp_arena_array(q->arena, cur->n_ranks, sizeof *dev);
    struct hsp_cluster_desc c;
    struct hsp_plan_options o = {.copies = q->copies, .due = due_of(q), .cancel = &q->cancel};
    struct hsp_planned p;
    uint32_t rank, at;
    uint64_t need;
    for (uint32_t r = 0; dev != NULL && r < cur->n_ranks; r++) {
        uint32_t i = hsp_plan_find(q, cur->device[r]);
        if (i == q->cluster.n || q->excluded[i]) {
            return 0;
        }
        dev[r] = q->cluster.dev[i];
        dev[r].mem_bytes = offered[i];
    }
    if (dev == NULL || doubt(q, dev, cur->n_ranks, &c, NULL) != HSP_OK ||
        hsp_plan_rec_build(q->current, q->mem_cap, ret, NULL) != HSP_OK ||
        is_too_large(q, *ret, offered, &rank, &at, &need)) {
        return 0;
    }
    struct hsp_plan plan = *(*ret)->plan; /* the prediction is written into the copy */
    return hsp_plan_adopt(q->rec->graph, &q->rec->spec->train, &c, &o, &plan, q->arena, &p, NULL) ==
                   HSP_OK
               ? p.cost.step_us
               : 0;
}

/* True when both mean the same: a plan fresh from the planner leaves open some points that a
 * running one states. A plan written by hand that says nothing of buckets does not change with the
 * figures of links. */
static bool same_plan(const struct hsp_plan_question *q, const struct hsp_epoch_plan *running,
                      const struct choice *c)
{
    struct hsp_digest d;
    struct hsp_plan fresh = *c->planned.plan;
    const struct hsp_digest *now = &running->programs.programs[0].bind.plan_digest;
    if (c->by_hand && c->open_bucket) {
        fresh.bucket_bytes = running->plan->bucket_bytes;
        fresh.states_bucket = running->plan->states_bucket;
    }
    return hsp_plan_digest(q->rec->graph, &fresh, &q->rec->spec->train, &d, NULL) == HSP_OK &&
           d.hi == now->hi && d.lo == now->lo;
}

static bool same_devices(const struct hsp_plan_question *q, const struct choice *c)
{
    bool same = q->current->n_ranks == c->planned.plan->n_ranks;
    for (uint32_t r = 0; same && r < q->current->n_ranks; r++) {
        same = q->current->device[r] == q->device[c->planned.device[r]];
    }
    return same;
}

static bool keeps(struct hsp_plan_question *q, const struct choice *c, struct hsp_plan_answer *ret)
{
    const struct hsp_epoch_plan *cur = NULL;
    bool usable = q->current != NULL && q->current_usable;
    double now_us = usable ? price_current(q, c->offered, &cur) : 0;
    double new_us = c->planned.cost.step_us;
    if (!(now_us > 0)) {
        return false;
    }
    bool same = same_devices(q, c) && same_plan(q, cur, c);
    bool by_hand = strcmp(c->source, "planner") != 0;
    if (same) {
        (void)snprintf(ret->reason, sizeof ret->reason, "the same plan again");
    } else if (!by_hand && new_us > WORTH * now_us) {
        (void)snprintf(ret->reason, sizeof ret->reason,
                       "the best other plan takes %.4g ms a step, the present one %.4g ms",
                       new_us * 1e-3, now_us * 1e-3);
    }
    return same || (!by_hand && new_us > WORTH * now_us);
}

static enum hsp_status make_record(struct hsp_plan_question *q, const struct choice *c,
                                   struct hsp_plan_rec **ret, struct hsp_err *err)
{
    uint32_t n = c->planned.plan->n_ranks;
    hsp_device_id *device = hsp_arena_array(q->arena, n, sizeof *device);
    double *compute = hsp_arena_array(q->arena, n, sizeof *compute);
    const char **names = hsp_arena_array(q->arena, n, sizeof *names);
    if (device == NULL || compute == NULL || names == NULL) {
        return hsp_err_nomem(err, "planning");
    }
    for (uint32_t r = 0; r < n; r++) {
        const struct hsp_rank_cost *k = &c->planned.cost.rank[r];
        device[r] = q->device[c->planned.device[r]];
        names[r] = q->cluster.dev[c->planned.device[r]].name;
        compute[r] = (k->compute_us + k->update_us) * 1e-6;
    }
    if (atomic_load(&q->cancel)) {
        return hsp_err_set(err, HSP_ECANCELED, 0, "canceled");
    }
    return hsp_plan_rec_make(q->rec, c->planned.plan, device, compute, names, c->source, q->mem_cap,
                             ret, err);
}

/* By how much the prediction was wrong, so much less than @told there is for the next plan. */
static int64_t told_less(int64_t bytes, double need, double told)
{
    double left = fmin((double)bytes * told / need, told - 1);
    return left > 1 ? (int64_t)left : 1;
}

/* Some rank of the compiled plan needs more memory than its device offers. */
static bool lacks_memory(struct hsp_plan_question *q, const struct choice *c,
                         const struct hsp_epoch_plan *p, struct hsp_err *err)
{
    uint32_t r, i;
    uint64_t bytes;
    if (!is_too_large(q, p, c->offered, &r, &i, &bytes)) {
        return false;
    }
    struct hsp_device_desc *d = &q->cluster.dev[i];
    double need = (double)bytes;
    (void)hsp_err_set(err, HSP_EINFEASIBLE, 0, "compiled, rank %u needs %s, %s offers %s", r,
                      hsp_bytes_figure(need).text, d->name,
                      hsp_bytes_figure((double)c->offered[i]).text);
    if (!c->by_hand) {
        double told = (double)c->planned.cost.rank[r].total_bytes;
        d->mem_bytes = told_less(d->mem_bytes, need, told);
    }
    return true;
}

/* The state folder of some node has no room for the compiled plan. */
static bool lacks_room(struct hsp_plan_question *q, const struct choice *c,
                       const struct hsp_epoch_plan *p, struct hsp_err *err)
{
    uint32_t at;
    uint64_t bytes;
    double told = 0;
    if (!seals_too_much(q, p, c->room, &at, &bytes)) {
        return false;
    }
    const struct hsp_device_desc *d = &q->cluster.dev[at];
    (void)hsp_err_set(err, HSP_EINFEASIBLE, 0,
                      "compiled, needs %s in the state folder of %.*s, which has %s",
                      hsp_bytes_figure((double)bytes).text, (int)strcspn(d->name, "/"), d->name,
                      hsp_bytes_figure((double)c->room[at]).text);
    for (uint32_t r = 0; r < c->planned.cost.n && !c->by_hand; r++) {
        const struct hsp_rank_cost *k = &c->planned.cost.rank[r];
        told = q->cluster.dev[k->device].node == d->node ? (double)k->node_folder_bytes : told;
    }
    for (uint32_t i = 0; i < q->cluster.n && !c->by_hand; i++) {
        struct hsp_device_desc *x = &q->cluster.dev[i];
        if (x->node == d->node) {
            x->folder_bytes = told_less(x->folder_bytes, (double)bytes, told);
        }
    }
    return true;
}

/* The compiled plan does not go onto its devices, or into their state folders: says so, and to the
 * planner that there is less. False: it fits. */
static bool drop_too_large(struct hsp_plan_question *q, struct choice *c,
                           struct hsp_plan_answer *ret, struct hsp_err *err)
{
    const struct hsp_epoch_plan *p = ret->plan->built;
    if (!lacks_memory(q, c, p, err) && !lacks_room(q, c, p, err)) {
        return false;
    }
    ret->status = err->code;
    if (c->by_hand && c->open_bucket && c->planned.plan->bucket_bytes > 0) {
        c->no_bucket = true; /* buckets want memory that the plan was not written for */
        c->next--;
    } else {
        refuse(c, err);
    }
    c->vain += !c->by_hand;
    ret->plan = hsp_plan_rec_unref(ret->plan);
    return true;
}

/* A device may be left out, or have a small part, because of its state folder. */
static bool is_tight(const struct hsp_plan_question *q, const struct choice *c,
                     const struct hsp_plan_answer *a)
{
    uint32_t most, i = 0;
    double all = a->status == HSP_OK ? (double)hsp_durability_bytes(&c->planned.cost, &most)
                                     : (double)INFINITY;
    while (i < q->cluster.n && !(c->room[i] > 0 && !q->excluded[i] && (double)c->room[i] < all)) {
        i++;
    }
    return i < q->cluster.n;
}

/* One choice, and its compile; true: it is too large, so there may be another one. */
static bool plan_once(struct hsp_plan_question *q, bool compile, struct choice *c,
                      struct hsp_plan_answer *ret, struct hsp_err *err)
{
    ret->status = choose(q, c, err);
    if (ret->status == HSP_EINFEASIBLE && c->fail.code != HSP_OK) {
        *err = c->fail;
    }
    if (ret->status == HSP_OK) {
        ret->planned = c->planned;
        ret->keep = compile && keeps(q, c, ret);
    }
    if (ret->status == HSP_OK && compile && !ret->keep) {
        ret->status = make_record(q, c, &ret->plan, err);
    }
    return ret->plan != NULL && drop_too_large(q, c, ret, err) && c->vain < VAIN;
}

void hsp_plan_work(struct hsp_plan_question *q, bool compile, struct hsp_plan_answer *ret)
{
    struct hsp_err err = {0};
    struct choice c = {.offered = hsp_arena_array(q->arena, q->cluster.n, sizeof *c.offered),
                       .room = hsp_arena_array(q->arena, q->cluster.n, sizeof *c.room)};
    bool can = c.offered != NULL && c.room != NULL;
    *ret = (struct hsp_plan_answer){0};
    for (uint32_t i = 0; can && i < q->cluster.n; i++) {
        c.offered[i] = q->cluster.dev[i].mem_bytes;
        c.room[i] = q->cluster.dev[i].folder_bytes;
    }
    if (can) {
        while (plan_once(q, compile, &c, ret, &err)) {
        }
        ret->tight = is_tight(q, &c, ret);
    } else {
        ret->status = hsp_err_nomem(&err, "planning");
    }
    if (ret->status != HSP_OK) {
        hsp_str_printf(ret->reason, sizeof ret->reason, "%s", err.msg);
    } else if (!ret->keep) {
        hsp_str_printf(ret->reason, sizeof ret->reason, "%s", c.source);
    }
}
