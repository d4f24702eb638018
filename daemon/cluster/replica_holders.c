#include "daemon/cluster/replica_holders.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"

#define RETRY_MS     30000u
#define MAX_DOUBLING 4u /* 8 minutes */

static int better_first(const void *a, const void *b)
{
    const struct hsp_replica_holder_node *x = a, *y = b;
    if (x->mine != y->mine) {
        return x->mine ? -1 : 1;
    }
    if (x->up != y->up) {
        return x->up ? -1 : 1;
    }
    if (x->kept != y->kept) {
        return x->kept < y->kept ? -1 : 1;
    }
    return x->node < y->node ? -1 : x->node > y->node;
}

uint32_t hsp_replica_holders_order(struct hsp_replica_holder_node *list, uint32_t n, uint32_t want,
                                   uint64_t bytes)
{
    uint32_t fit = 0;
    for (uint32_t i = 0; i < n; i++) {
        /* a node that keeps already has taken its room */
        if (list[i].mine || list[i].room >= bytes) {
            struct hsp_replica_holder_node k = list[i];
            list[i] = list[fit];
            list[fit++] = k;
        }
    }
    if (fit > 1) {
        qsort(list, fit, sizeof(*list), better_first);
    }
    return fit < want ? fit : want;
}

static uint64_t keep_bytes(const struct hsp_cluster *c, uint32_t job)
{
    const struct hsp_job *j = hsp_ci_job(c, job);
    const struct hsp_job_plan *p =
        j != NULL ? hsp_ci_plan(j, j->att.epoch != 0 ? j->att.plan : j->cur.plan) : NULL;
    return p != NULL ? p->info.keep_bytes : 0;
}

/* Its lowest device that could keep for @j: one that does so already, else a free one. False:
 * none. */
static bool candidate(const struct hsp_cluster *c, const struct hsp_job *j, uint32_t node,
                      struct hsp_replica_holder_node *ret)
{
    const struct hsp_cluster_node *n = &c->nodes[node];
    bool found = false;
    *ret = (struct hsp_replica_holder_node){.node = node, .room = UINT64_MAX};
    const struct hsp_job_mark *mark = hsp_ci_marked(j, node);
    if (c->briefs[node].keep == 0 || (mark != NULL && mark->keep_refused != NULL)) {
        return false;
    }
    for (uint32_t i = 0; i < HSP_NODE_DEVICES; i++) {
        const struct hsp_node_device *v = &n->dev[i];
        bool mine = v->job == j->id;
        if (!v->present || !v->replica_holder) {
            continue;
        }
        ret->kept += v->job != 0 ? keep_bytes(c, v->job) : 0;
        ret->room = v->profile.mem_bytes != 0 ? v->profile.mem_bytes : UINT64_MAX;
        bool soon =
            (v->up || c->now_ms < v->restart_ms + c->cfg.up_ms) && !hsp_ci_ends_other(v, j->id);
        if (soon && ((v->job == 0 && !found) || (mine && !ret->mine && v->ask != HSP_ASK_STOP))) {
            found = true;
            ret->device = HSP_DEVICE(node, i);
            ret->mine = mine;
            ret->up = v->up;
        }
    }
    if (ret->room != UINT64_MAX) {
        ret->room = ret->room > ret->kept ? ret->room - ret->kept : 0;
    }
    if (n->folder_free > 0 && n->folder_free < ret->room) {
        ret->room = n->folder_free; /* jobs that run there take room, too */
    }
    return found;
}

static bool is_member(const struct hsp_plan_info *p, uint32_t node)
{
    for (uint32_t i = 0; i < p->n_ranks; i++) {
        if (HSP_DEVICE_NODE(p->device[i]) == node) {
            return true;
        }
    }
    return false;
}

/* All members, and those of the epoch that runs: they may be sources of the next. */
static bool reaches_all(const struct hsp_cluster *c, const struct hsp_job *j,
                        const struct hsp_plan_info *p, uint32_t node)
{
    uint32_t runs = hsp_ci_job_runs(j) ? hsp_ci_participants(&j->cur) : 0;
    bool all = true;
    for (uint32_t i = 0; i < p->n_ranks && all; i++) {
        all = !hsp_ci_apart(c, HSP_DEVICE_NODE(p->device[i]), node);
    }
    for (uint32_t i = 0; i < runs && all; i++) {
        all = !hsp_ci_apart(c, HSP_DEVICE_NODE(j->cur.peers[i].device), node);
    }
    return all;
}

uint32_t hsp_ci_choose_replica_holders(struct hsp_cluster *c, const struct hsp_job *j,
                                       const struct hsp_plan_info *p,
                                       hsp_device_id ret[HSP_MAX_REPLICA_HOLDERS])
{
    struct hsp_replica_holder_node *list = hsp_ci_alloc(c, c->n_nodes, sizeof(*list));
    uint32_t n = 0;
    hsp_ci_refresh(c);
    for (uint32_t i = 0; list != NULL && p->n_spare > 0 && i < c->n_nodes; i++) {
        n += candidate(c, j, i, &list[n]) && !is_member(p, i) && reaches_all(c, j, p, i);
    }
    n = n > 0 ? hsp_replica_holders_order(list, n, n, p->keep_bytes) : 0;
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < n && chosen < p->n_spare; i++) {
        bool all = true; /* replica holders reach each other */
        for (uint32_t k = 0; k < chosen && all; k++) {
            all = !hsp_ci_apart(c, HSP_DEVICE_NODE(ret[k]), list[i].node);
        }
        if (all) {
            ret[chosen++] = list[i].device;
        }
    }
    return chosen;
}

void hsp_ci_set_replica_holders(struct hsp_cluster *c, const struct hsp_job *j,
                                struct hsp_plan_info *p)
{
    p->n_replica_holders = hsp_ci_choose_replica_holders(c, j, p, p->replica_holder);
}

bool hsp_ci_wants_replica_holders(struct hsp_cluster *c, struct hsp_job *j)
{
    const struct hsp_plan_info *p = &hsp_ci_plan(j, j->cur.plan)->info;
    hsp_device_id now[HSP_MAX_REPLICA_HOLDERS];
    for (uint32_t i = 0; i < p->n_replica_holders; i++) {
        const char *leaves = hsp_ci_to_leave(c, p->replica_holder[i]);
        if (hsp_ci_node(c, p->replica_holder[i])->conn != 0 && leaves != NULL) {
            (void)snprintf(j->cause, sizeof(j->cause), "%s %s, which stores a copy", leaves,
                           hsp_ci_device_name(c, p->replica_holder[i]));
            return true;
        }
    }
    for (uint32_t i = 0; i < p->n_replica_holders; i++) {
        const struct hsp_cluster_node *n = hsp_ci_node(c, p->replica_holder[i]);
        if (n->conn == 0 || !hsp_ci_device(c, p->replica_holder[i])->up) {
            return false; /* silent or restarting: it soon comes back or is dead */
        }
    }
    uint32_t n =
        p->n_replica_holders < p->n_spare ? hsp_ci_choose_replica_holders(c, j, p, now) : 0;
    for (uint32_t i = 0; n > p->n_replica_holders && i < n; i++) {
        if (!hsp_ci_contains(p->replica_holder, p->n_replica_holders, now[i])) {
            (void)snprintf(j->cause, sizeof(j->cause), "%s can store a copy",
                           hsp_ci_device_name(c, now[i]));
            return true;
        }
    }
    return false;
}

/* Bytes that the layout takes on the node of rank @r, for all ranks there. */
static uint64_t folder_bytes(const struct hsp_plan_info *p, uint32_t r)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; p->folder_bytes != NULL && i < p->n_ranks; i++) {
        bool there = HSP_DEVICE_NODE(p->device[i]) == HSP_DEVICE_NODE(p->device[r]);
        bytes += there ? p->folder_bytes[i] : 0;
    }
    return bytes;
}

static bool has_room(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d, uint64_t bytes,
                     const char **ret_why)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    if (n->folder_free == 0 || bytes <= n->folder_free) {
        return true;
    }
    j->room_retry_ms = c->now_ms + RETRY_MS;
    *ret_why = hsp_ci_printf(c,
                             "the state folder of %s has no room for another %.4g MB, which a "
                             "switch takes: make room there, or mount it with a greater size",
                             n->name, (double)bytes / 1e6);
    return false;
}

bool hsp_ci_replica_holders_fit(struct hsp_cluster *c, struct hsp_job *j, const char **ret_why)
{
    const struct hsp_plan_info *p = &hsp_ci_plan(j, j->cur.plan)->info;
    hsp_device_id next[HSP_MAX_REPLICA_HOLDERS];
    *ret_why = NULL;
    if (c->now_ms < j->room_retry_ms) {
        return false; /* room changes with each heartbeat: no look in between decides */
    }
    uint32_t n = hsp_ci_choose_replica_holders(c, j, p, next);
    bool fit = true;
    j->room_retry_ms = 0;
    for (uint32_t r = 0; fit && r < p->n_ranks; r++) {
        fit = has_room(c, j, p->device[r], folder_bytes(p, r), ret_why);
    }
    for (uint32_t k = 0; fit && k < n; k++) {
        fit = has_room(c, j, next[k], p->keep_bytes, ret_why);
    }
    return fit;
}

bool hsp_ci_refuse_replica_holder(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d,
                                  const char *why)
{
    const struct hsp_epoch_peer *p = hsp_ci_peer(&j->att, d);
    uint32_t at = p != NULL ? (uint32_t)(p - j->att.peers) : 0, node = HSP_DEVICE_NODE(d);
    if (p == NULL || at < j->att.n_ranks || at >= hsp_ci_participants(&j->att)) {
        return false;
    }
    hsp_ci_mark_no_replica_holder(c, j, node, why);
    if (j->keep_retry_ms == 0) {
        uint32_t k = j->keep_tries < MAX_DOUBLING ? j->keep_tries : MAX_DOUBLING;
        j->keep_retry_ms = c->now_ms + ((hsp_msec)RETRY_MS << k);
    }
    hsp_ci_fact(c, "keeper.refused", HSP_SEV_WARN, j, &c->nodes[node], "%s", why);
    return true;
}

void hsp_ci_replica_holders_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->keep_retry_ms != 0 && c->now_ms >= j->keep_retry_ms) {
        for (uint32_t i = 0; i < j->n_marks; i++) {
            hsp_ci_mark_may_keep(&j->marks[i]);
        }
        j->keep_retry_ms = 0;
        j->keep_tries++;
    }
}
