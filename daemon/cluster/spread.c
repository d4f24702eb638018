#include "daemon/cluster/spread.h"

#include <stdlib.h>

#include "daemon/cluster/lookup.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/plan_info.h"

/* @x may be on its device: that node is there, and has proven to be the one that got it. */
static bool is_there(const struct hsp_cluster *c, const struct hsp_job *j,
                     const struct hsp_job_plan *p, const struct hsp_piece_holder *x)
{
    hsp_device_id d = hsp_ci_holder(&p->info, x->holder);
    const struct hsp_m_holding h = {.job = j->id,
                                    .device = HSP_DEVICE_INDEX(d),
                                    .plan = p->plan,
                                    .rank = x->holder,
                                    .owner = x->owner};
    return d != HSP_NO_DEVICE && !hsp_ci_node_gone(hsp_ci_node(c, d)) &&
           hsp_ci_may_hold(c, j, hsp_ci_node(c, d), &h);
}

/* The nodes of one shard that are there. *ret_node: one of them. */
static uint32_t nodes_of(const struct hsp_cluster *c, const struct hsp_job *j,
                         const struct hsp_job_plan *p, uint32_t shard, uint32_t *stamp,
                         uint32_t *ret_node)
{
    uint32_t n = 0;
    for (uint32_t k = p->info.shard_first[shard]; k < p->info.shard_first[shard + 1]; k++) {
        uint32_t at = HSP_DEVICE_NODE(hsp_ci_holder(&p->info, p->info.pieces[k].holder));
        if (is_there(c, j, p, &p->info.pieces[k]) && stamp[at] != shard + 1) {
            stamp[at] = shard + 1;
            *ret_node = at;
            n++;
        }
    }
    return n;
}

/* *ret: of layout @p. False: it has no shards, or no memory. */
static bool spread_of(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_job_plan *p, struct hsp_spread *ret)
{
    uint32_t *stamp = calloc((size_t)c->n_nodes + 1, sizeof(*stamp));
    bool *sole = calloc((size_t)c->n_nodes + 1, sizeof(*sole));
    bool ok = stamp != NULL && sole != NULL && p->info.n_shards > 0;
    *ret = (struct hsp_spread){.min_nodes = UINT32_MAX};
    for (uint32_t s = 0; ok && s < p->info.n_shards; s++) {
        uint32_t at = 0, n = nodes_of(c, j, p, s, stamp, &at);
        ret->min_nodes = n < ret->min_nodes ? n : ret->min_nodes;
        if (n == 1 && !sole[at]) {
            sole[at] = true;
            ret->node = ret->n_sole == 0 || at < ret->node ? at : ret->node;
            ret->n_sole++;
        }
    }
    free(stamp);
    free(sole);
    return ok;
}

bool hsp_cluster_spread(const struct hsp_cluster *c, const struct hsp_job *j,
                        struct hsp_spread *ret)
{
    const struct hsp_job_plan *p = j->cur.epoch != 0 ? hsp_ci_plan(j, j->cur.plan) : NULL;
    if (p != NULL) {
        return spread_of(c, j, p, ret);
    }
    bool any = false;
    for (uint32_t i = 0; i < j->n_plans; i++) {
        struct hsp_spread s;
        if (j->plans[i].started && spread_of(c, j, &j->plans[i], &s) &&
            (!any || s.min_nodes >= ret->min_nodes)) {
            *ret = s;
            any = true;
        }
    }
    return any;
}

static bool runs_on(const struct hsp_job *j, uint32_t node)
{
    for (uint32_t r = 0; r < j->cur.n_ranks; r++) {
        if (HSP_DEVICE_NODE(j->cur.peers[r].device) == node) {
            return true;
        }
    }
    return false;
}

const char *hsp_cluster_not_allowed(const struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        for (uint32_t d = 0; n->conn != 0 && !n->holder && d < HSP_NODE_DEVICES; d++) {
            if (n->dev[d].replica_holder && n->dev[d].job == 0 && hsp_cluster_offers(n, d) &&
                !runs_on(j, i)) {
                return n->name;
            }
        }
    }
    return NULL;
}
