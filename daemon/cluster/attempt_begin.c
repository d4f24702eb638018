#include "daemon/cluster/attempt_begin.h"

#include <stdio.h>
#include <stdlib.h>

#include "daemon/cluster/apart.h"
#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/standing.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/live_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "proto/base/str.h"

/* Is @h a piece of the version that epoch @e goes on from? */
static bool is_source(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_cl_epoch *e, const struct hsp_state_piece *h)
{
    return h->plan == e->from_plan && h->version == e->step && hsp_ci_reachable(c, j, h);
}

static int ascending(const void *a, const void *b)
{
    hsp_device_id x = *(const hsp_device_id *)a, y = *(const hsp_device_id *)b;
    return x < y ? -1 : x > y;
}

/* Devices outside the new plan that have state of the version it begins with, ascending, some more
 * than once. The replica holders of a running epoch are among them, although nothing is read from
 * replica holders: so they learn that the epoch is over; and those that only pass state on. */
static uint32_t source_devices(struct hsp_cluster *c, struct hsp_job *j,
                               const struct hsp_plan_info *info, const struct hsp_cl_epoch *e,
                               hsp_device_id **ret)
{
    hsp_device_id *relay = NULL;
    uint32_t n = 0, participants = e->mode == HSP_MODE_SWITCH ? hsp_ci_participants(&j->cur) : 0;
    uint32_t held = e->mode == HSP_MODE_RECOVER ? j->n_held : 0;
    uint32_t relays = held > 0 ? hsp_ci_spare_sources(c, j, info, e, &relay) : 0;
    *ret = hsp_ci_alloc(c, (size_t)participants + held + relays, sizeof(**ret));
    for (uint32_t i = 0; *ret != NULL && i < participants; i++) {
        (*ret)[n++] = j->cur.peers[i].device;
    }
    for (uint32_t i = 0; *ret != NULL && i < held; i++) {
        if (is_source(c, j, e, &j->held[i])) {
            (*ret)[n++] = j->held[i].device;
        }
    }
    for (uint32_t i = 0; *ret != NULL && i < relays; i++) {
        (*ret)[n++] = relay[i];
    }
    if (n > 1) {
        qsort(*ret, n, sizeof(**ret), ascending);
    }
    return n;
}

/* Fixes the sources of the state until the last PREPARE is sent, also when nodes come and go. */
static bool fix_sources(struct hsp_cluster *c, const struct hsp_job *j, struct hsp_cl_epoch *e)
{
    e->sources = calloc((size_t)j->n_held + j->cur.n_ranks + 1, sizeof(*e->sources));
    if (e->sources == NULL) {
        return false;
    }
    for (uint32_t i = 0; e->mode == HSP_MODE_SWITCH && i < j->cur.n_ranks; i++) {
        const struct hsp_epoch_peer *at = hsp_ci_peer(e, j->cur.peers[i].device);
        e->sources[e->n_sources++] = (struct hsp_prepare_source){(uint32_t)(at - e->peers), i, i};
    }
    for (uint32_t i = 0; e->mode == HSP_MODE_RECOVER && i < j->n_held; i++) {
        const struct hsp_state_piece *h = &j->held[i];
        const struct hsp_epoch_peer *at = hsp_ci_peer(e, h->device);
        if (at != NULL && is_source(c, j, e, h)) {
            e->sources[e->n_sources++] =
                (struct hsp_prepare_source){(uint32_t)(at - e->peers), h->rank, h->owner};
        }
    }
    return true;
}

/* Writes the pairs of @e that cannot reach each other to @ret, NULL: none. Returns their number. */
static uint32_t list_apart(const struct hsp_cluster *c, const struct hsp_cl_epoch *e,
                           struct hsp_prepare_apart *ret)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < e->n_peers; a++) {
        for (uint32_t b = a + 1; b < e->n_peers; b++) {
            if (hsp_ci_apart(c, HSP_DEVICE_NODE(e->peers[a].device),
                             HSP_DEVICE_NODE(e->peers[b].device))) {
                if (ret != NULL) {
                    ret[n] = (struct hsp_prepare_apart){a, b};
                }
                n++;
            }
        }
    }
    return n;
}

static bool fix_apart(const struct hsp_cluster *c, struct hsp_cl_epoch *e)
{
    bool any = c->n_broken > 0 && e->mode == HSP_MODE_RECOVER;
    e->n_apart = any ? list_apart(c, e, NULL) : 0;
    e->apart = calloc((size_t)e->n_apart + 1, sizeof(*e->apart));
    if (e->apart != NULL && e->n_apart > 0) {
        (void)list_apart(c, e, e->apart);
    }
    return e->apart != NULL;
}

/* Members, replica holders and sources of @e; all of them are the job's from now on. */
static bool take_peers(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_plan_info *info,
                       struct hsp_cl_epoch *e)
{
    hsp_device_id *src;
    uint32_t n_src = source_devices(c, j, info, e, &src),
             n = info->n_ranks + info->n_replica_holders;
    e->peers = calloc((size_t)n + n_src + 1, sizeof(*e->peers));
    if (c->failed || e->peers == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        e->peers[e->n_peers++].device = hsp_ci_holder(info, i);
    }
    if (!hsp_ci_epoch_index(e)) {
        return false;
    }
    for (uint32_t i = 0; i < n_src; i++) {
        if ((i == 0 || src[i] != src[i - 1]) && hsp_ci_peer(e, src[i]) == NULL) {
            e->peers[n++].device = src[i];
        }
    }
    e->n_peers = n;
    for (uint32_t i = 0; i < n; i++) {
        e->peers[i].incarnation = hsp_ci_node(c, e->peers[i].device)->incarnation;
        hsp_ci_lease(c, e->peers[i].device, j->id);
    }
    return hsp_ci_epoch_index(e);
}

void hsp_ci_attempt_begin(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                          enum hsp_epoch_mode mode, uint64_t from_plan, uint64_t step)
{
    if (c->failed) {
        return; /* the plan may not be there */
    }
    const struct hsp_plan_info *info = &hsp_ci_plan(j, plan)->info;
    struct hsp_cl_epoch e = {.epoch = hsp_ci_take_epoch(c, j),
                             .plan = plan,
                             .from_plan = from_plan,
                             .base_epoch = mode == HSP_MODE_SWITCH ? j->cur.epoch : 0,
                             .mode = mode,
                             .phase = HSP_ATT_WAIT_UP,
                             .step = step,
                             .n_ranks = info->n_ranks,
                             .n_replica_holders = info->n_replica_holders,
                             .data_tls = c->cfg.data_tls,
                             .deadline_ms = c->now_ms + c->cfg.up_ms};
    if (!take_peers(c, j, info, &e) || !fix_sources(c, j, &e) || !fix_apart(c, &e)) {
        hsp_ci_epoch_fini(&e);
        c->failed = true;
        return;
    }
    e.keeps = hsp_ci_keep_older(c, j, &e, &e.keep);
    (void)snprintf(e.cause, sizeof(e.cause), "%s", j->cause);
    if (e.data_tls && c->cfg.trusted != NULL) { /* in clear all networks are alike */
        (void)snprintf(e.trusted, sizeof(e.trusted), "%s", c->cfg.trusted);
    }
    e.trace.detect_ms = j->detect_ms;
    e.trace.sealed_ms = j->sealed_ms;
    e.trace.planned_ms = j->planned_ms != 0 ? j->planned_ms : c->now_ms;
    j->att = e;
    j->tries.waited = false; /* a node that goes away from now on is waited for */
    if (j->state == HSP_JOB_RUNNING) {
        hsp_ci_job_move(c, j, HSP_JOB_SWITCHING);
    } else if (j->state == HSP_JOB_PENDING) {
        hsp_ci_job_move(c, j, HSP_JOB_STARTING);
    } else if (j->state == HSP_JOB_PAUSED) {
        hsp_ci_job_move(c, j, HSP_JOB_RECOVERING);
    }
    j->reason[0] = '\0';
    hsp_ci_store_job(c, j);
    const uint32_t n_sources = e.n_peers - hsp_ci_participants(&e);
    struct hsp_fact *f = hsp_ci_fact(
        c, "switch.begin", HSP_SEV_NOTICE, j, NULL, "epoch %llu: %u rank%s, %s%u source%s",
        (unsigned long long)e.epoch, e.n_ranks, hsp_s(e.n_ranks),
        e.n_replica_holders != 0 ? hsp_ci_printf(c, "%u replica holder%s, ", e.n_replica_holders,
                                                 hsp_s(e.n_replica_holders))
                                 : "",
        n_sources, hsp_s(n_sources));
    if (f != NULL) {
        f->epoch = e.epoch;
        f->cause = hsp_ci_printf(c, "%s", e.cause);
    }
}
