#include "daemon/cluster/recover.h"

#include <stdlib.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "proto/base/vec.h"

void hsp_ci_held_add(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_state_piece *p)
{
    const struct hsp_job_plan *layout = hsp_ci_plan(j, p->plan);
    if (layout != NULL && p->version >= layout->void_from) {
        return;
    }
    if (!hsp_grow(&j->held, &j->cap_held, (size_t)j->n_held + 1, sizeof(*j->held),
                  (size_t)HSP_MAX_NODES * HSP_MSG_HOLDINGS)) {
        c->failed = true;
        return;
    }
    j->held[j->n_held++] = *p;
    j->reached = p->version > j->reached ? p->version : j->reached;
}

void hsp_ci_disk_forget(struct hsp_job *j)
{
    j->looked = false;
    j->look_ticket = 0;
    j->look_since_ms = 0;
    j->n_disk = 0;
    if (j->att.epoch == 0) { /* else its members were told of it, and it goes on record with them */
        j->line.n = 0;
    }
}

void hsp_ci_held_drop_node(struct hsp_cluster *c, struct hsp_job *j, uint32_t node)
{
    (void)c;
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_held; i++) {
        if (HSP_DEVICE_NODE(j->held[i].device) != node) {
            j->held[n++] = j->held[i];
        }
    }
    j->n_held = n;
}

/* Newest version first; pieces of one version in an order to search in. */
static int newest_first(const void *a, const void *b)
{
    const struct hsp_state_piece *x = a, *y = b;
    if (x->version != y->version) {
        return x->version > y->version ? -1 : 1;
    }
    if (x->owner != y->owner) {
        return x->owner < y->owner ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* @held: sorted, of @version alone. */
static bool whole(const struct hsp_plan_info *info, uint64_t version,
                  const struct hsp_state_piece *held, uint32_t n)
{
    for (uint32_t s = 0; s < info->n_shards; s++) {
        uint32_t k = info->shard_first[s];
        bool found = false;
        for (; k < info->shard_first[s + 1] && !found; k++) {
            const struct hsp_state_piece want = {
                .version = version, .rank = info->pieces[k].holder, .owner = info->pieces[k].owner};
            found = bsearch(&want, held, n, sizeof(want), newest_first) != NULL;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* There may be some thousand ranks with two versions each: no version is looked at twice. */
bool hsp_recover_version(const struct hsp_plan_info *info, struct hsp_state_piece *held, uint32_t n,
                         uint64_t *ret_version)
{
    if (n > 1) {
        qsort(held, n, sizeof(*held), newest_first);
    }
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && held[end].version == held[i].version;) {
            end++;
        }
        if (whole(info, held[i].version, held + i, end - i)) {
            *ret_version = held[i].version;
            return true;
        }
    }
    return false;
}

bool hsp_ci_reachable(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_state_piece *p)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, p->device);
    const struct hsp_node_device *d = hsp_ci_device(c, p->device);
    bool soon = d->up || c->now_ms < d->restart_ms + c->cfg.up_ms;
    const struct hsp_job_mark *m = hsp_ci_marked(j, HSP_DEVICE_NODE(p->device));
    return n->conn != 0 && d->present && soon && (d->job == 0 || d->job == j->id) &&
           !hsp_ci_ends_other(d, j->id) && (m == NULL || !m->cut_off);
}

static bool is_witness(const struct hsp_cluster *c, const struct hsp_job_plan *p, hsp_device_id d)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    return n->conn != 0 && n->incarnation < p->since && hsp_ci_device(c, d)->present;
}

bool hsp_ci_witness(const struct hsp_cluster *c, const struct hsp_job_plan *p, hsp_device_id *ret)
{
    for (uint32_t i = 0; i < p->info.n_ranks + p->info.n_replica_holders; i++) {
        hsp_device_id d = hsp_ci_holder(&p->info, i);
        if (is_witness(c, p, d)) {
            *ret = d;
            return true;
        }
    }
    return false;
}

static bool holds_above(const struct hsp_job *j, const struct hsp_job_plan *p, hsp_device_id d,
                        uint64_t version)
{
    for (uint32_t i = 0; i < j->n_held; i++) {
        const struct hsp_state_piece *h = &j->held[i];
        if (h->device == d && h->plan == p->plan && h->version > version) {
            return true;
        }
    }
    return false;
}

bool hsp_ci_went_no_further(const struct hsp_cluster *c, const struct hsp_job *j,
                            const struct hsp_job_plan *p, uint64_t version)
{
    for (uint32_t i = 0; p->damaged <= version && i < p->info.n_ranks + p->info.n_replica_holders;
         i++) {
        hsp_device_id d = hsp_ci_holder(&p->info, i);
        if (is_witness(c, p, d) && !holds_above(j, p, d, version)) {
            return true;
        }
    }
    return false;
}

bool hsp_ci_whole_below(struct hsp_cluster *c, const struct hsp_job *j,
                        const struct hsp_job_plan *p, uint64_t below, uint64_t *ret_version)
{
    struct hsp_state_piece *held = hsp_ci_alloc(c, j->n_held, sizeof(*held));
    uint32_t n = 0;
    for (uint32_t i = 0; held != NULL && i < j->n_held; i++) {
        const struct hsp_state_piece *h = &j->held[i];
        if (h->plan == p->plan && h->version < below &&
            hsp_ci_holder(&p->info, h->rank) == h->device && hsp_ci_reachable(c, j, h)) {
            held[n++] = *h;
        }
    }
    return hsp_recover_version(&p->info, held, n, ret_version);
}

static bool is_here(const struct hsp_cluster *c, const struct hsp_job *j,
                    const struct hsp_job_plan *p, uint32_t rank)
{
    hsp_device_id d = hsp_ci_holder(&p->info, rank);
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    const struct hsp_m_holding h = {
        .job = j->id, .device = HSP_DEVICE_INDEX(d), .plan = p->plan, .rank = rank};
    return n->conn != 0 &&
           hsp_ci_may_hold(c, j, n, &h); /* another may have taken a dead node's name */
}

/* May a holder of layout @p that is not here, or not free, bring more than @version? */
static bool may_come(const struct hsp_cluster *c, const struct hsp_job *j,
                     const struct hsp_job_plan *p, uint64_t version)
{
    for (uint32_t i = 0; i < p->info.n_ranks + p->info.n_replica_holders; i++) {
        if (!is_here(c, j, p, i)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < j->n_held; i++) {
        const struct hsp_state_piece *h = &j->held[i];
        if (h->plan == p->plan && h->version > version && !hsp_ci_reachable(c, j, h)) {
            return true;
        }
    }
    return false;
}

/* Was there more than @version in layout @p, which is whole at it, that can still be had? */
static bool better_wait(const struct hsp_cluster *c, const struct hsp_job *j,
                        const struct hsp_job_plan *p, uint64_t version)
{
    uint64_t was = p->awaited > j->stable ? p->awaited : j->stable;
    return was > version && version + 1 < p->void_from && may_come(c, j, p, version);
}

enum hsp_status hsp_ci_choose(struct hsp_cluster *c, const struct hsp_job *j, uint64_t *ret_plan,
                              uint64_t *ret_version)
{
    for (uint32_t k = j->n_plans; k-- > 0;) {
        if (!j->plans[k].started ||
            !hsp_ci_whole_below(c, j, &j->plans[k], UINT64_MAX, ret_version)) {
            continue;
        }
        *ret_plan = j->plans[k].plan;
        if (better_wait(c, j, &j->plans[k], *ret_version)) {
            return HSP_AGAIN;
        }
        for (uint32_t i = k + 1; i < j->n_plans; i++) {
            if (j->plans[i].started && !hsp_ci_went_no_further(c, j, &j->plans[i], *ret_version)) {
                return HSP_AGAIN;
            }
        }
        return HSP_OK;
    }
    return HSP_ENOENT;
}

/* ---- nodes that are waited for ---- */

struct away { /* nodes that are not here, each once */
    bool *named;
    const char *list;
    uint32_t n;
};

static struct away nobody_yet(struct hsp_cluster *c)
{
    return (struct away){hsp_ci_alloc(c, (size_t)c->n_nodes + 1, sizeof(bool)), "", 0};
}

static void add_away(struct hsp_cluster *c, const struct hsp_job *j, const struct hsp_job_plan *p,
                     struct away *a)
{
    for (uint32_t k = 0; k < p->info.n_ranks + p->info.n_replica_holders; k++) {
        uint32_t at = HSP_DEVICE_NODE(hsp_ci_holder(&p->info, k));
        if (!a->named[at] && !is_here(c, j, p, k)) {
            const struct hsp_cluster_node *node = &c->nodes[at];
            const char *how = node->conn != 0 ? " (here without proof to be that node)" : "";
            a->named[at] = true;
            a->list =
                hsp_ci_and_name(c, a->list, a->n++, hsp_ci_printf(c, "%s%s", node->name, how));
        }
    }
}

const char *hsp_ci_awaited(struct hsp_cluster *c, const struct hsp_job *j, uint64_t from,
                           uint64_t least)
{
    struct away a = nobody_yet(c);
    bool stuck = false;
    for (uint32_t i = 0; i < j->n_plans && a.named != NULL; i++) {
        const struct hsp_job_plan *p = &j->plans[i];
        if (p->started && p->plan >= from) {
            add_away(c, j, p, &a);
            stuck = stuck || (a.n == 0 && may_come(c, j, p, p->plan > from ? 0 : least - 1));
        }
    }
    return a.n > 0 || stuck || a.named == NULL ? a.list : NULL;
}

static bool is_held(const struct hsp_job *j, const struct hsp_job_plan *p,
                    const struct hsp_piece_holder *x)
{
    bool is = false;
    for (uint32_t i = 0; i < j->n_held && !is; i++) {
        const struct hsp_state_piece *h = &j->held[i];
        is = h->plan == p->plan && h->rank == x->holder && h->owner == x->owner;
    }
    return is;
}

/* Whether each shard of @p is here, or may be on a node that is not, without the pieces of
 * @node. */
static bool may_be_whole(const struct hsp_cluster *c, const struct hsp_job *j,
                         const struct hsp_job_plan *p, uint32_t node)
{
    bool all = p->started;
    for (uint32_t s = 0; all && s < p->info.n_shards; s++) {
        bool any = false;
        for (uint32_t k = p->info.shard_first[s]; !any && k < p->info.shard_first[s + 1]; k++) {
            const struct hsp_piece_holder *x = &p->info.pieces[k];
            bool other = HSP_DEVICE_NODE(hsp_ci_holder(&p->info, x->holder)) != node;
            any = other && (is_held(j, p, x) || !is_here(c, j, p, x->holder));
        }
        all = any;
    }
    return all;
}

const char *hsp_ci_awaited_without(struct hsp_cluster *c, const struct hsp_job *j, uint32_t node)
{
    struct away a = nobody_yet(c);
    for (uint32_t i = 0; i < j->n_plans && a.named != NULL; i++) {
        a.named[node] = true; /* the node is not awaited */
        if (may_be_whole(c, j, &j->plans[i], node)) {
            add_away(c, j, &j->plans[i], &a);
        }
    }
    return a.n > 0 ? a.list : NULL;
}
