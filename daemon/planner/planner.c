#include "daemon/planner/planner.h"

#include <math.h>
#include <string.h>

#include "daemon/plan/stage_groups.h"
#include "daemon/planner/candidates.h"
#include "daemon/planner/figure.h"
#include "daemon/planner/price.h"
#include "daemon/planner/search.h"
#include "daemon/spmd/sharding/param_home.h"
#include "daemon/spmd/sharding/sequence_balance.h"
#include "proto/base/str.h"
#include "proto/layout/box.h"

/* The devices that may be used, with their indexes in the caller's cluster. */
struct usable {
    struct hsp_cluster_desc cluster;
    uint32_t *index;
};

static enum hsp_status select_devices(const struct hsp_cluster_desc *c,
                                      const struct hsp_plan_options *o, struct hsp_arena *arena,
                                      struct usable *ret, struct hsp_err *err)
{
    struct hsp_device_desc *dev = hsp_arena_array(arena, c->n, sizeof(*dev));
    ret->index = hsp_arena_array(arena, c->n, sizeof(*ret->index));
    if (dev == NULL || ret->index == NULL) {
        return hsp_err_nomem(err, "planning over %u devices", c->n);
    }
    ret->cluster = *c;
    ret->cluster.dev = dev;
    ret->cluster.n = 0;
    uint32_t most =
        o->max_devices > 0 && o->max_devices < HSP_MAX_RANKS ? o->max_devices : HSP_MAX_RANKS;
    for (uint32_t i = 0; i < c->n; i++) {
        if (o->excluded == NULL || !o->excluded[i]) {
            dev[ret->cluster.n] = c->dev[i];
            ret->index[ret->cluster.n++] = i;
        }
    }
    if (ret->cluster.n == 0) {
        return hsp_err_set(err, HSP_ENODEV, 0, "no device");
    }
    /* Above the bound the fastest stay, in their order. */
    while (ret->cluster.n > most) {
        uint32_t slowest = 0;
        for (uint32_t i = 1; i < ret->cluster.n; i++) {
            slowest = dev[i].gemm_flops[0] <= dev[slowest].gemm_flops[0] ? i : slowest;
        }
        ret->cluster.n--;
        memmove(&dev[slowest], &dev[slowest + 1], (ret->cluster.n - slowest) * sizeof(*dev));
        memmove(&ret->index[slowest], &ret->index[slowest + 1],
                (ret->cluster.n - slowest) * sizeof(*ret->index));
    }
    return HSP_OK;
}

/* Makes the error for the case that nothing fits. Its text compares the memory of the largest
 * device with the need of one device for the whole model, and for one block cut as far as possible.
 */
static enum hsp_status infeasible(const struct hsp_search *s, struct hsp_err *err)
{
    const struct hsp_cluster_desc *c = s->in.cluster;
    double offer = 0, whole = (double)INFINITY, block = 0;
    for (uint32_t d = 0; d < c->n; d++) {
        struct hsp_stage_work r;
        struct hsp_member m;
        double largest = 0;
        offer = fmax(offer, (double)c->dev[d].mem_bytes);
        hsp_range_make(s->in.work, 0, s->in.work->n_layers, &r);
        hsp_member_price(&s->in, &r, &c->dev[d], 1, 1, 1, 0, 1, &m);
        whole = fmin(whole, hsp_member_bytes(&m, 1, 1));
        for (uint32_t b = 0; b < s->n_blocks; b++) {
            hsp_range_of_blocks(s->in.work, b, b + 1, &r);
            hsp_member_price(&s->in, &r, &c->dev[d], 1, 1, 1, 0, 1, &m);
            largest = fmax(largest, hsp_member_bytes(&m, 1, 1));
        }
        block = d == 0 ? largest : fmin(block, largest);
    }
    struct hsp_figure need = hsp_bytes_figure(whole);
    if (s->n_blocks < 2 || c->n < 2) {
        return hsp_err_set(err, HSP_EINFEASIBLE, 0, "needs %s, largest worker offers %s", need.text,
                           hsp_bytes_figure(offer).text);
    }
    return hsp_err_set(err, HSP_EINFEASIBLE, 0,
                       "needs %s, largest worker offers %s; one stage of a pipeline needs %s or "
                       "more, and no division over %u devices fits",
                       need.text, hsp_bytes_figure(offer).text, hsp_bytes_figure(block).text, c->n);
}

/* Lists the structures that lost, the nearest in cost first; those that do not fit come last. */
static enum hsp_status explain(const struct hsp_search *s, uint32_t winner, struct hsp_planned *ret,
                               struct hsp_err *err)
{
    bool used[HSP_N_STRUCTS] = {false};
    used[winner] = true;
    double best_us = s->best[winner].cost.step_us;
    while (ret->n_rejected < HSP_MAX_REJECTED) {
        uint32_t next = HSP_N_STRUCTS;
        for (uint32_t i = 0; i < HSP_N_STRUCTS; i++) {
            const struct hsp_candidate *c = &s->best[i],
                                       *b = next < HSP_N_STRUCTS ? &s->best[next] : NULL;
            if (used[i] || !c->tried) {
                continue;
            }
            if (b == NULL || (c->fits && !b->fits) ||
                (c->fits == b->fits && c->fits && c->cost.step_us < b->cost.step_us)) {
                next = i;
            }
        }
        if (next == HSP_N_STRUCTS) {
            return HSP_OK;
        }
        used[next] = true;
        const struct hsp_candidate *c = &s->best[next];
        double more = 100 * (c->cost.step_us / best_us - 1);
        const char *why =
            !c->fits ? c->trouble
            : more < 0.05
                ? hsp_arena_printf(s->arena, "%.1f %% faster (%s), too little to justify a switch",
                                   fmax(0, -more), hsp_time_figure(c->cost.step_us).text)
                : hsp_arena_printf(s->arena, "%.1f %% slower: %s", more,
                                   hsp_time_figure(c->cost.step_us).text);
        if (why == NULL) {
            return hsp_err_nomem(err, "the explanation of a plan");
        }
        ret->rejected[ret->n_rejected++] = (struct hsp_rejected){
            .what = c->what, .why = why, .step_us = c->fits ? c->cost.step_us : 0};
    }
    return HSP_OK;
}

/* Prediction and devices in the caller's numbering. */
static enum hsp_status complete(const struct usable *u, const char *what, struct hsp_arena *arena,
                                struct hsp_planned *ret, struct hsp_err *err)
{
    struct hsp_plan *p = ret->plan;
    double gap = ret->cost.bound_us > 0 ? 100 * (ret->cost.step_us / ret->cost.bound_us - 1) : 0;
    p->predicted_step_us = ret->cost.step_us;
    p->bucket_bytes = ret->cost.bucket_bytes;
    p->states_bucket = p->states_bucket || p->bucket_bytes > 0;
    p->memory_bytes = hsp_arena_array(arena, p->n_ranks, sizeof(*p->memory_bytes));
    p->why = hsp_arena_printf(arena, "%s: %s a step, %.0f %% above the bound of %s", what,
                              hsp_time_figure(ret->cost.step_us).text, gap,
                              hsp_time_figure(ret->cost.bound_us).text);
    uint32_t *device = hsp_arena_array(arena, p->n_ranks, sizeof(*device));
    if (p->memory_bytes == NULL || p->why == NULL || device == NULL) {
        return hsp_err_nomem(err, "plan of %u ranks", p->n_ranks);
    }
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        p->memory_bytes[r] = ret->cost.rank[r].total_bytes;
        device[r] = u->index[ret->device[r]];
        ret->cost.rank[r].device = device[r];
    }
    ret->device = device;
    return HSP_OK;
}

/* The limit of a device in its node's state folder: that of the node, an even part of it, or
 * none. */
enum rooms { ROOM_OF_NODE, ROOM_IN_PARTS, ROOM_OPEN };

struct setup {
    struct hsp_work work;
    struct usable usable;
    struct hsp_search search;
};

static double room_of(const struct hsp_cluster_desc *c, uint32_t at, enum rooms rooms)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n && rooms == ROOM_IN_PARTS; i++) {
        n += c->dev[i].node == c->dev[at].node ? 1 : 0;
    }
    double room = (double)c->dev[at].folder_bytes;
    return !(room > 0) ? (double)INFINITY : n > 0 ? room / n : room;
}

/* Sets the limits of devices in the state folders of their nodes. A pool's plan for shorter
 * sequences has its state where the plan for the longest sequences has room for it. */
static enum hsp_status set_rooms(struct setup *s, const struct hsp_plan_options *opts,
                                 enum rooms rooms, struct hsp_err *err)
{
    const struct hsp_cluster_desc *c = &s->usable.cluster;
    s->search.room = hsp_arena_array(s->search.arena, c->n, sizeof(*s->search.room));
    if (s->search.room == NULL) {
        return hsp_err_nomem(err, "planning over %u devices", c->n);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        if (opts->homes != NULL || rooms == ROOM_OPEN) {
            c->dev[i].folder_bytes = 0;
        }
        s->search.room[i] = room_of(c, i, rooms);
    }
    return HSP_OK;
}

static enum hsp_status set_up(const struct hsp_graph *g, const struct hsp_train_spec *t,
                              const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                              enum rooms rooms, struct hsp_arena *arena, struct setup *ret,
                              struct hsp_err *err)
{
    enum hsp_status st = select_devices(c, opts, arena, &ret->usable, err);
    if (st == HSP_OK) {
        st = hsp_work_make(g, arena, &ret->work, err);
    }
    ret->search = (struct hsp_search){
        .in = {.work = &ret->work,
               .cluster = &ret->usable.cluster,
               .train = t,
               .homes = opts->homes,
               .copies = opts->copies > 0 ? opts->copies : 1,
               .due = opts->due},
        .g = g,
        .opts = opts,
        .n_blocks = g->n_layers - 2,
        .global_batch = t->data.global_batch,
        .micro_cap = opts->micro_cap > 0 ? opts->micro_cap : HSP_MICRO_CAP,
        .arena = arena,
        .err = err,
    };
    /* a pipeline has at most HSP_MAX_MICRO micro-batches */
    while ((uint64_t)ret->search.micro_cap * HSP_MAX_MICRO < t->data.global_batch) {
        ret->search.micro_cap *= 2;
    }
    return st == HSP_OK ? set_rooms(ret, opts, rooms, err) : st;
}

/* Returns the structure whose best plan fits and scores lowest; HSP_N_STRUCTS if nothing fits. */
static uint32_t best_structure(const struct hsp_search *s)
{
    uint32_t winner = HSP_N_STRUCTS;
    for (uint32_t i = 0; i < HSP_N_STRUCTS; i++) {
        const struct hsp_candidate *x = &s->best[i];
        if (x->tried && x->fits && (winner == HSP_N_STRUCTS || x->score < s->best[winner].score)) {
            winner = i;
        }
    }
    return winner;
}

/* The inputs of one call. */
struct question {
    const struct hsp_graph *g;
    const struct hsp_train_spec *t;
    const struct hsp_cluster_desc *c;
    const struct hsp_plan_options *opts;
    struct hsp_arena *arena;
};

/* A setup points into itself. */
static void take_setup(struct setup *to, const struct setup *from)
{
    *to = *from;
    to->search.in.work = &to->work;
    to->search.in.cluster = &to->usable.cluster;
}

static bool knows_rooms(const struct hsp_cluster_desc *c)
{
    uint32_t i = 0;
    while (i < c->n && c->dev[i].folder_bytes <= 0) {
        i++;
    }
    return i < c->n;
}

/* Runs one search, with activations kept or recomputed. *ret_winner is HSP_N_STRUCTS if nothing
 * fits. */
static enum hsp_status search(const struct question *q, enum rooms rooms, bool again,
                              struct setup *s, uint32_t *ret, struct hsp_err *err)
{
    enum hsp_status rc = set_up(q->g, q->t, q->c, q->opts, rooms, q->arena, s, err);
    s->work.recompute = again;
    if (rc == HSP_OK) {
        rc = hsp_search_run(&s->search);
    }
    if (rc == HSP_OK) {
        *ret = best_structure(&s->search);
    }
    return rc;
}

static double score_of(const struct setup *s, uint32_t winner)
{
    return winner == HSP_N_STRUCTS ? (double)INFINITY : s->search.best[winner].score;
}

/* Searches without recomputation of activations, and if need be also with it. Recomputation costs a
 * third more, so it is tried only if nothing fits without it, or if the only plans that fit cut
 * sequences: such plans may cost even more. *ret is the setup of the search with the better plan.
 */
static enum hsp_status search_both(const struct question *q, enum rooms rooms, struct setup *ret,
                                   uint32_t *ret_winner, struct hsp_err *err)
{
    struct setup *again = hsp_arena_alloc(q->arena, sizeof(*again));
    uint32_t winner = HSP_N_STRUCTS;
    enum hsp_status st = search(q, rooms, false, ret, ret_winner, err);
    if (st != HSP_OK || (*ret_winner != HSP_N_STRUCTS && *ret_winner != HSP_STRUCT_RING)) {
        return st;
    }
    if (again == NULL) {
        return hsp_err_nomem(err, "planning");
    }
    st = search(q, rooms, true, again, &winner, err);
    again->search.short_of_room = again->search.short_of_room || ret->search.short_of_room;
    if (st == HSP_OK &&
        (*ret_winner == HSP_N_STRUCTS || score_of(again, winner) < score_of(ret, *ret_winner))) {
        take_setup(ret, again);
        *ret_winner = winner;
    }
    return st;
}

/* The plan that won, explained. */
static enum hsp_status conclude(const struct setup *s, uint32_t winner, struct hsp_arena *arena,
                                struct hsp_planned *ret, struct hsp_err *err)
{
    const struct hsp_candidate *best = &s->search.best[winner];
    const char *what = best->what;
    struct hsp_planned out = {.plan = best->plan, .device = best->device, .cost = best->cost};
    if (s->work.recompute) {
        what =
            hsp_arena_printf(arena, "%s; activations are recomputed, kept they do not fit", what);
        if (what == NULL) {
            return hsp_err_nomem(err, "the plan");
        }
    }
    enum hsp_status st = explain(&s->search, winner, &out, err);
    if (st == HSP_OK) {
        st = complete(&s->usable, what, arena, &out, err);
    }
    if (st == HSP_OK) {
        *ret = out;
    }
    return st;
}

static enum hsp_status no_room(const struct hsp_device_desc *d, const struct hsp_rank_cost *r,
                               struct hsp_err *err)
{
    return hsp_err_set(
        err, HSP_EINFEASIBLE, 0, "needs %s in the state folder of %.*s, which has %s",
        hsp_bytes_figure((double)r->node_folder_bytes).text, (int)strcspn(d->name, "/"), d->name,
        hsp_bytes_figure((double)d->folder_bytes).text);
}

/* Explains why nothing fits. If only the state folders keep a plan from fitting, the text has the
 * bytes that are missing. */
static enum hsp_status explain_none(const struct question *q, const struct setup *none,
                                    struct hsp_err *err)
{
    const struct hsp_cluster_desc *c = &none->usable.cluster;
    struct setup *open = hsp_arena_alloc(q->arena, sizeof(*open));
    uint32_t winner = HSP_N_STRUCTS;
    enum hsp_status st = open != NULL ? HSP_OK : hsp_err_nomem(err, "planning");
    if (st == HSP_OK && knows_rooms(c)) {
        st = search_both(q, ROOM_OPEN, open, &winner, err);
    }
    if (st != HSP_OK || winner == HSP_N_STRUCTS) {
        return st != HSP_OK ? st : infeasible(&none->search, err);
    }
    const struct hsp_cost *cost = &open->search.best[winner].cost;
    const struct hsp_price_in in = {.cluster = c};
    uint32_t rank = 0;
    return hsp_cost_fits_folder(&in, cost, &rank)
               ? infeasible(&none->search, err)
               : no_room(&c->dev[cost->rank[rank].device], &cost->rank[rank], err);
}

/* Makes one plan. The devices of a node share its state folder. If only the folders keep a plan
 * from fitting, the search is also tried with an even part of the folder as the limit of each
 * device. */
enum hsp_status hsp_make_one(const struct hsp_graph *g, const struct hsp_train_spec *t,
                             const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                             struct hsp_arena *arena, struct hsp_planned *ret, struct hsp_err *err)
{
    const struct hsp_plan_options none = {0};
    const struct question q = {g, t, c, opts != NULL ? opts : &none, arena};
    struct setup s, parts;
    uint32_t winner = HSP_N_STRUCTS, other = HSP_N_STRUCTS;
    enum hsp_status st = search_both(&q, ROOM_OF_NODE, &s, &winner, err);
    if (st == HSP_OK && s.search.short_of_room) {
        st = search_both(&q, ROOM_IN_PARTS, &parts, &other, err);
        if (st == HSP_OK && score_of(&parts, other) < score_of(&s, winner)) {
            take_setup(&s, &parts);
            winner = other;
        }
    }
    if (st != HSP_OK) {
        return st;
    }
    return winner == HSP_N_STRUCTS ? explain_none(&q, &s, err)
                                   : conclude(&s, winner, arena, ret, err);
}

/* Checks that nodes have the host memory to which their ranks offload. */
static enum hsp_status check_host(const struct setup *s, const struct hsp_planned *p,
                                  struct hsp_err *err)
{
    uint32_t rank = 0;
    int64_t bytes = 0;
    if (hsp_cost_fits_host(&s->search.in, &p->cost, &rank, &bytes)) {
        return HSP_OK;
    }
    const struct hsp_device_desc *d = &s->usable.cluster.dev[rank];
    return hsp_err_set(err, HSP_EINFEASIBLE, 0,
                       "ranks on the node of %s offload %s, its host memory is %s", d->name,
                       hsp_bytes_figure((double)bytes).text,
                       hsp_bytes_figure((double)d->host_bytes).text);
}

/* Finds for each rank the bytes of one state kind that the homes of @plan give it; the array is in
 * @arena. */
static enum hsp_status find_homes(const struct hsp_graph *g, const struct hsp_plan *plan,
                                  uint32_t elem, struct hsp_arena *arena, const double **ret,
                                  struct hsp_err *err)
{
    double *bytes = hsp_arena_array(arena, plan->n_ranks, sizeof *bytes);
    struct hsp_cover *home = hsp_arena_array(arena, g->n_params, sizeof *home);
    if (bytes == NULL || home == NULL) {
        return hsp_err_nomem(err, "homes of a plan of %u ranks", plan->n_ranks);
    }
    enum hsp_status st = hsp_plan_homes(g, plan, home, err);
    for (uint32_t i = 0; st == HSP_OK && i < g->n_params; i++) {
        for (uint32_t k = 0; k < home[i].n; k++) {
            const struct hsp_held *h = &home[i].items[k];
            bytes[h->rank] += (double)hsp_box_count(&h->box) * elem;
        }
        hsp_cover_fini(&home[i]);
    }
    *ret = bytes;
    return st;
}

/* Shows as the part of each rank the share that the plan file states. */
static void show_parts(const struct hsp_plan *p, struct hsp_cost *c)
{
    for (uint32_t i = 0; i < p->n_pipelines; i++) {
        for (uint32_t j = 0; j < p->pipelines[i].n_stages; j++) {
            const struct hsp_stage *t = &p->pipelines[i].stages[j];
            for (uint32_t k = 0; k < t->n; k++) {
                c->rank[t->ranks[k]].part = hsp_stage_part(t, k);
            }
        }
    }
}

/* Prices @plan with lengths in place of shares of work, since memory and the time of most ops
 * depend on the number of positions. So its cost equals that of its total form. */
static enum hsp_status price_lengths(struct setup *s, const struct hsp_graph *g,
                                     const struct hsp_plan *plan, const uint32_t *device,
                                     struct hsp_cost *ret, struct hsp_err *err)
{
    const struct hsp_plan *by_length = plan;
    struct hsp_arena *arena = s->search.arena;
    enum hsp_status st = hsp_plan_lengths(plan, g, arena, &by_length, err);
    if (st == HSP_OK) {
        st = hsp_price(&s->search.in, by_length, device, arena, ret, err);
    }
    if (st == HSP_OK && by_length != plan) {
        show_parts(plan, ret);
    }
    return st;
}

enum hsp_status hsp_adopt_one(const struct hsp_graph *g, const struct hsp_train_spec *t,
                              const struct hsp_cluster_desc *c, const struct hsp_plan_options *opts,
                              struct hsp_plan *plan, struct hsp_arena *arena,
                              struct hsp_planned *ret, struct hsp_err *err)
{
    const struct hsp_plan_options none = {0};
    struct setup s;
    struct hsp_planned out = {.plan = plan};
    uint32_t rank = 0;
    enum hsp_status st = set_up(g, t, c, opts != NULL ? opts : &none, ROOM_OF_NODE, arena, &s, err);
    if (st != HSP_OK) {
        return st;
    }
    if (plan->n_ranks > s.usable.cluster.n) {
        return hsp_err_set(err, HSP_ENODEV, 0, "the plan needs %u device%s; %u %s there",
                           plan->n_ranks, hsp_s(plan->n_ranks), s.usable.cluster.n,
                           s.usable.cluster.n == 1 ? "is" : "are");
    }
    out.device = hsp_arena_array(arena, plan->n_ranks, sizeof(*out.device));
    if (out.device == NULL) {
        return hsp_err_nomem(err, "plan of %u ranks", plan->n_ranks);
    }
    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        out.device[r] = r;
    }
    st = find_homes(g, plan, s.work.elem, arena, &s.search.in.home_bytes, err);
    st = st == HSP_OK ? price_lengths(&s, g, plan, out.device, &out.cost, err) : st;
    if (st == HSP_OK && !hsp_cost_fits(&s.search.in, &out.cost, &rank)) {
        const struct hsp_device_desc *d = &s.usable.cluster.dev[rank];
        st = hsp_err_set(err, HSP_EINFEASIBLE, 0, "rank %u needs %s, %s offers %s", rank,
                         hsp_bytes_figure((double)out.cost.rank[rank].total_bytes).text, d->name,
                         hsp_bytes_figure((double)d->mem_bytes).text);
    }
    if (st == HSP_OK && !hsp_cost_fits_folder(&s.search.in, &out.cost, &rank)) {
        st = no_room(&s.usable.cluster.dev[rank], &out.cost.rank[rank], err);
    }
    if (st == HSP_OK) {
        st = check_host(&s, &out, err);
    }
    if (st == HSP_OK) {
        st = complete(&s.usable, "given plan", arena, &out, err);
    }
    if (st == HSP_OK) {
        *ret = out;
    }
    return st;
}
