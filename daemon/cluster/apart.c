#include "daemon/cluster/apart.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/recover.h"

#define SEARCH 512u   /* sets whose state is looked at */
#define STEPS  65536u /* of the search for them */
#define ROUNDS 8u     /* others may take the place of nodes left out, and be apart themselves */
#define EXACT  64u    /* a bit each */

/* A node with devices that the job may use. */
struct vertex {
    uint32_t node, n_devices;
    double power;
    bool stays; /* a member of the epoch that runs */
    bool out;
};

struct score {
    uint64_t version; /* of the state, plus one; 0: none */
    bool enough;
    double power;
};

struct search {
    struct hsp_cluster *c;
    struct hsp_job *j;
    struct vertex *v; /* by node, ascending */
    uint32_t n;
    uint32_t *kept; /* [n] for cut_off() */
    uint32_t *at;   /* vertices with broken pairs, by place in v */
    uint32_t n_at;
    uint64_t *apart;      /* [n_at] a bit for each of them; n_at <= EXACT */
    uint32_t left, steps; /* sets still to be looked at; vertices, to find them */
    bool holds;           /* the state of the job is in memory, so its place counts */
    bool found;
    struct score best;
    uint64_t best_in; /* a bit for each that is kept */
};

/* ---- the nodes of the list ---- */

static double power_of(const struct hsp_node_device *d)
{
    double flops = d->profile.gemm_bf16_flops > d->profile.gemm_fp32_flops
                       ? d->profile.gemm_bf16_flops
                       : d->profile.gemm_fp32_flops;
    return (flops > 0 ? flops : 1) * (d->speed > 0 ? d->speed : 1);
}

static bool stays(const struct hsp_job *j, uint32_t node)
{
    bool member = false;
    for (uint32_t i = 0; hsp_ci_job_runs(j) && i < hsp_ci_participants(&j->cur) && !member; i++) {
        member = HSP_DEVICE_NODE(j->cur.peers[i].device) == node;
    }
    return member;
}

/* False: no memory. */
static bool list_vertices(struct search *s, const hsp_device_id *dev, uint32_t n)
{
    s->v = hsp_ci_alloc(s->c, n, sizeof(*s->v));
    s->kept = hsp_ci_alloc(s->c, n, sizeof(*s->kept));
    for (uint32_t i = 0; s->v != NULL && i < n; i++) {
        uint32_t node = HSP_DEVICE_NODE(dev[i]);
        if (s->n == 0 || s->v[s->n - 1].node != node) {
            s->v[s->n++] = (struct vertex){.node = node, .stays = stays(s->j, node)};
        }
        s->v[s->n - 1].n_devices++;
        s->v[s->n - 1].power += power_of(hsp_ci_device(s->c, dev[i]));
    }
    return s->v != NULL && s->kept != NULL;
}

/* Lists the vertices with broken pairs among those that are neither left out nor must stay. Returns
 * false if there are none, or without memory. */
static bool list_apart(struct search *s)
{
    s->at = hsp_ci_alloc(s->c, s->n, sizeof(*s->at));
    for (uint32_t i = 0; s->at != NULL && i < s->n; i++) {
        bool any = false;
        for (uint32_t k = 0; k < s->n && !any; k++) {
            any = !s->v[k].out && !s->v[k].stays && hsp_ci_apart(s->c, s->v[i].node, s->v[k].node);
        }
        if (any && !s->v[i].out && !s->v[i].stays) {
            s->at[s->n_at++] = i;
        }
    }
    return s->n_at > 0;
}

/* ---- the worth of a set of nodes ---- */

/* Finds a device, of the job or free, on a node that reaches @node and the @n nodes @to. */
static hsp_device_id go_between(const struct hsp_cluster *c, const struct hsp_job *j, uint32_t node,
                                const uint32_t *to, uint32_t n)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        bool all = i != node && c->nodes[i].conn != 0 && !hsp_ci_apart(c, i, node);
        for (uint32_t k = 0; k < n && all; k++) {
            all = !hsp_ci_apart(c, i, to[k]);
        }
        for (uint32_t d = 0; d < HSP_NODE_DEVICES && all; d++) {
            const struct hsp_node_device *v = &c->nodes[i].dev[d];
            bool free = (v->job == 0 || (v->job == j->id && v->ask == HSP_ASK_NONE)) &&
                        !hsp_ci_ends_other(v, j->id);
            bool may = !v->replica_holder || c->nodes[i].holder;
            bool up = v->up || hsp_ci_up_soon(c, HSP_DEVICE(i, d)); /* as a member may be */
            if (v->present && up && free && may && v->health < HSP_HEALTH_CORDON) {
                return HSP_DEVICE(i, d);
            }
        }
    }
    return HSP_NO_DEVICE;
}

static void cut_off(const struct search *s, uint32_t node)
{
    bool reached = false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n && !reached; i++) {
        if (!s->v[i].out) {
            reached = !hsp_ci_apart(s->c, s->v[i].node, node);
            s->kept[n++] = s->v[i].node;
        }
    }
    if (!reached && go_between(s->c, s->j, node, s->kept, n) == HSP_NO_DEVICE) {
        hsp_ci_mark(s->c, s->j, node)->cut_off = true;
    }
}

/* Marks the nodes whose state cannot be reached. */
static void mark_cut_off(const struct search *s)
{
    for (uint32_t i = 0; i < s->j->n_marks; i++) {
        s->j->marks[i].cut_off = false;
    }
    for (uint32_t i = 0; i < s->j->n_held; i++) {
        cut_off(s, HSP_DEVICE_NODE(s->j->held[i].device));
    }
}

static struct score score_of(const struct search *s)
{
    struct score r = {.version = 0};
    uint64_t plan, version = 0;
    uint32_t devices = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        devices += s->v[i].out ? 0 : s->v[i].n_devices;
        r.power += s->v[i].out ? 0 : s->v[i].power;
    }
    r.enough = devices >= s->j->min;
    if (s->holds) {
        mark_cut_off(s);
        r.version = hsp_ci_choose(s->c, s->j, &plan, &version) != HSP_ENOENT ? version + 1 : 0;
    }
    return r;
}

static bool better(const struct score *a, const struct score *b)
{
    if (a->version != b->version) {
        return a->version > b->version;
    }
    return a->enough != b->enough ? a->enough : a->power > b->power;
}

/* ---- the search ---- */

static void keep_bits(struct search *s, uint64_t in)
{
    for (uint32_t k = 0; k < s->n_at; k++) {
        s->v[s->at[k]].out = (in >> k & 1) == 0;
    }
}

static void look_at(struct search *s, uint64_t in)
{
    keep_bits(s, in);
    struct score now = score_of(s);
    s->left--;
    if (!s->found || better(&now, &s->best)) {
        s->found = true;
        s->best = now;
        s->best_in = in;
    }
}

/* Extends @in by vertices from @k on, so that none could be added; @barred: those that are apart
 * from one of it. A vertex is left out for one that keeps it out, or that may. */
static void extend(struct search *s, uint32_t k, uint64_t in, uint64_t barred)
{
    uint64_t all = s->n_at < EXACT ? (UINT64_C(1) << s->n_at) - 1 : UINT64_MAX;
    if (s->steps == 0 || s->left == 0) {
        return;
    }
    s->steps--;
    if (k == s->n_at && (in | barred) == all) {
        look_at(s, in);
    }
    if (k == s->n_at) {
        return;
    }
    bool is_barred = (barred >> k & 1) != 0;
    if (!is_barred) {
        extend(s, k + 1, in | UINT64_C(1) << k, barred | s->apart[k]);
    }
    if (is_barred || (s->apart[k] & ~barred) >> k >> 1 != 0) {
        extend(s, k + 1, in, barred);
    }
}

static void search_exactly(struct search *s)
{
    s->apart = hsp_ci_alloc(s->c, s->n_at, sizeof(*s->apart));
    for (uint32_t i = 0; s->apart != NULL && i < s->n_at; i++) {
        for (uint32_t k = 0; k < s->n_at; k++) {
            bool apart = hsp_ci_apart(s->c, s->v[s->at[i]].node, s->v[s->at[k]].node);
            s->apart[i] |= (uint64_t)apart << k;
        }
    }
    if (s->apart != NULL) {
        extend(s, 0, 0, 0);
        keep_bits(s, s->found ? s->best_in : UINT64_MAX);
    }
}

/* Power of those that @i would keep out. */
static double cost_of(const struct search *s, uint32_t i)
{
    double sum = 0;
    for (uint32_t k = 0; k < s->n_at; k++) {
        const struct vertex *v = &s->v[s->at[k]];
        sum += !v->out && hsp_ci_apart(s->c, s->v[i].node, v->node) ? v->power : 0;
    }
    return sum;
}

/* Repeatedly takes the vertex that costs the least for its power. */
static void search_greedily(struct search *s)
{
    for (uint32_t round = 0; round < s->n_at; round++) {
        uint32_t best = s->n;
        double least = 0;
        for (uint32_t k = 0; k < s->n_at; k++) {
            const struct vertex *v = &s->v[s->at[k]];
            double cost = v->out ? 0 : cost_of(s, s->at[k]) / v->power;
            if (!v->out && cost > 0 && (best == s->n || cost < least)) {
                best = s->at[k];
                least = cost;
            }
        }
        for (uint32_t k = 0; best < s->n && k < s->n_at; k++) {
            struct vertex *v = &s->v[s->at[k]];
            v->out = v->out || hsp_ci_apart(s->c, s->v[best].node, v->node);
        }
    }
}

static bool holds_state(const struct hsp_job *j)
{
    bool started = false;
    for (uint32_t i = 0; i < j->n_plans; i++) {
        started = started || j->plans[i].started;
    }
    return started && !hsp_ci_job_runs(j);
}

/* False: no node is to be left out any more. */
static bool leave_out(struct hsp_cluster *c, struct hsp_job *j, const hsp_device_id *dev,
                      uint32_t n)
{
    struct search s = {.c = c, .j = j, .left = SEARCH, .steps = STEPS, .holds = holds_state(j)};
    bool any = false;
    if (!list_vertices(&s, dev, n)) {
        return false;
    }
    if (list_apart(&s) && s.n_at <= EXACT) {
        search_exactly(&s);
    }
    if (!s.found) {
        search_greedily(&s);
    }
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.v[i].out) {
            hsp_ci_mark(c, j, s.v[i].node)->left_out = true;
            any = true;
        }
    }
    mark_cut_off(&s);
    return any;
}

/* Leaves out the nodes that some member of the running epoch cannot reach. This holds also if the
 * member is about to leave, since it is a source then. A device of such a node need not be free:
 * other jobs may have it (allocate.c). */
static void leave_out_joiners(struct hsp_cluster *c, struct hsp_job *j)
{
    for (uint32_t i = 0; hsp_ci_job_runs(j) && i < c->n_pairs; i++) {
        const struct hsp_broken_pair *p = &c->pairs[i];
        bool a = stays(j, p->a), b = stays(j, p->b);
        if (p->broken && a != b) {
            hsp_ci_mark(c, j, a ? p->b : p->a)->left_out = true;
        }
    }
}

/* Which nodes @j does without, as one number. */
static uint64_t hash_of_left_out(const struct hsp_job *j)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        h = j->marks[i].left_out ? h * 1000003u + j->marks[i].node + 1 : h;
    }
    return h;
}

uint32_t hsp_ci_usable(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id **ret)
{
    uint64_t before = hash_of_left_out(j);
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].left_out = j->marks[i].cut_off = false;
    }
    leave_out_joiners(c, j);
    uint32_t n = hsp_ci_available(c, j, ret);
    for (uint32_t k = 0; c->n_broken > 0 && k < ROUNDS && leave_out(c, j, *ret, n); k++) {
        n = hsp_ci_available(c, j, ret);
    }
    if (hash_of_left_out(j) != before) {
        hsp_ci_jobs_dirty(c); /* others may have the devices of these nodes (allocate.c) */
    }
    return n;
}

const char *hsp_ci_apart_why(struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; c->n_broken > 0 && i < j->n_marks; i++) {
        if (j->marks[i].left_out) {
            return hsp_ci_printf(c, "; %s is left out, as it cannot reach other nodes of the job",
                                 c->nodes[j->marks[i].node].name);
        }
    }
    return "";
}

/* ---- epochs ---- */

/* True when no new epoch of @j can have both @a and @b. A slow pair inside the running epoch
 * does not count: the next epoch is no slower over it. */
static bool prevents(const struct hsp_cluster *c, const struct hsp_job *j, uint32_t a, uint32_t b)
{
    return hsp_ci_apart(c, a, b) && (hsp_ci_deaf(c, a, b) || !stays(j, a) || !stays(j, b));
}

/* True when no epoch can have two of the first @n peers of @e. */
static bool peers_apart(struct hsp_cluster *c, const struct hsp_job *j,
                        const struct hsp_cl_epoch *e, uint32_t n, const char **ret_why)
{
    for (uint32_t i = 0; c->n_broken > 0 && i < n; i++) {
        for (uint32_t k = i + 1; k < n; k++) {
            uint32_t a = HSP_DEVICE_NODE(e->peers[i].device),
                     b = HSP_DEVICE_NODE(e->peers[k].device);
            if (prevents(c, j, a, b)) {
                *ret_why = hsp_ci_printf(c, "%s and %s cannot reach each other", c->nodes[a].name,
                                         c->nodes[b].name);
                return true;
            }
        }
    }
    return false;
}

bool hsp_ci_attempt_apart(struct hsp_cluster *c, const struct hsp_job *j, const char **ret_why)
{
    const struct hsp_cl_epoch *e = &j->att;
    uint32_t n = e->mode == HSP_MODE_RECOVER ? hsp_ci_participants(e) : e->n_peers;
    return peers_apart(c, j, e, n, ret_why);
}

bool hsp_ci_members_apart(struct hsp_cluster *c, const struct hsp_job *j, const char **ret_why)
{
    return peers_apart(c, j, &j->cur, hsp_ci_participants(&j->cur), ret_why);
}

/* Returns the number of the @all nodes @to that @node cannot reach. *ret_none: it reaches none of
 * them. */
static uint32_t unreached(const struct hsp_cluster *c, const uint32_t *to, uint32_t all,
                          uint32_t node, bool *ret_none)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < all; i++) {
        n += hsp_ci_apart(c, to[i], node);
    }
    *ret_none = n == all;
    return n;
}

uint32_t hsp_ci_spare_sources(struct hsp_cluster *c, struct hsp_job *j,
                              const struct hsp_plan_info *info, const struct hsp_cl_epoch *e,
                              hsp_device_id **ret)
{
    uint32_t n = 0, all = info->n_ranks + info->n_replica_holders;
    uint32_t *to = hsp_ci_alloc(c, all, sizeof(*to));
    *ret = hsp_ci_alloc(c, (size_t)j->n_held + 1, sizeof(**ret));
    for (uint32_t i = 0; to != NULL && i < all; i++) {
        to[i] = HSP_DEVICE_NODE(hsp_ci_holder(info, i));
    }
    for (uint32_t i = 0; c->n_broken > 0 && !c->failed && i < j->n_held; i++) {
        uint32_t node = HSP_DEVICE_NODE(j->held[i].device);
        bool none, some = unreached(c, to, all, node, &none) > 0;
        uint64_t plan = 0, version = 0;
        struct hsp_job_mark *m = some ? hsp_ci_mark(c, j, node) : NULL;
        if (m == NULL || m->cut_off || (i > 0 && HSP_DEVICE_NODE(j->held[i - 1].device) == node)) {
            continue;
        }
        m->cut_off = true;
        bool whole = hsp_ci_choose(c, j, &plan, &version) != HSP_ENOENT && plan == e->from_plan &&
                     version == e->step;
        m = hsp_ci_mark(c, j, node);
        m->cut_off = whole;
        hsp_device_id relay = whole || !none ? HSP_NO_DEVICE : go_between(c, j, node, to, all);
        if (relay != HSP_NO_DEVICE) {
            (*ret)[n++] = relay;
        }
    }
    return n;
}
