/* Attempts: the next epoch of a job, from its number to GO (decision D8).
 *
 *   WAIT_UP --all executors up--> PREPARING --all READY--> GO --all STARTED, or its first vote-->
 * current
 *
 * The number is stored (burned) before anything is sent. Up to GO an attempt can be dropped with no
 * harm: executors have only taken memory and connections. GO is stored before ARM or START leaves;
 * after it a loss seals everything up to this epoch. */
#include "daemon/cluster/epochs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_impl.h"
#include "daemon/cluster/epoch_messages.h"
#include "daemon/cluster/finishing.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/keepers.h"
#include "daemon/cluster/membership.h"
#include "daemon/cluster/plans.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"

void hsp_ci_epoch_fini(struct hsp_cl_epoch *e)
{
    free(e->peers);
    free(e->by_device);
    free(e->sources);
    *e = (struct hsp_cl_epoch){0};
}

static int by_device(const void *a, const void *b)
{
    const struct hsp_epoch_peer *const *x = a, *const *y = b;
    return (*x)->device < (*y)->device ? -1 : (*x)->device > (*y)->device;
}

bool hsp_ci_epoch_index(struct hsp_cl_epoch *e)
{
    size_t n = (size_t)e->n_peers + 1;
    const struct hsp_epoch_peer **sorted = calloc(n, sizeof(*sorted));
    uint32_t *order = calloc(n, sizeof(*order));
    if (sorted == NULL || order == NULL) {
        free(sorted);
        free(order);
        return false;
    }
    for (uint32_t i = 0; i < e->n_peers; i++) {
        sorted[i] = &e->peers[i];
    }
    qsort(sorted, e->n_peers, sizeof(*sorted), by_device);
    for (uint32_t i = 0; i < e->n_peers; i++) {
        order[i] = (uint32_t)(sorted[i] - e->peers);
    }
    free(sorted);
    free(e->by_device);
    e->by_device = order;
    return true;
}

struct hsp_epoch_peer *hsp_ci_peer(const struct hsp_cl_epoch *e, hsp_device_id d)
{
    uint32_t lo = 0, hi = e->n_peers;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (e->peers[e->by_device[mid]].device < d) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    struct hsp_epoch_peer *p = lo < e->n_peers ? &e->peers[e->by_device[lo]] : NULL;
    return p != NULL && p->device == d ? p : NULL;
}

void hsp_ci_free_leases(struct hsp_cluster *c, struct hsp_job *j)
{
    for (uint32_t k = j->n_leases; k-- > 0;) { /* backwards: what is let go leaves the list */
        hsp_device_id d = j->leases[k];
        if (hsp_ci_device(c, d)->ask != HSP_ASK_NONE) {
            continue;
        }
        bool needed = hsp_ci_peer(&j->att, d) != NULL ||
                      (j->cur.epoch != 0 && hsp_ci_peer(&j->cur, d) != NULL);
        for (uint32_t i = 0; !needed && i < j->n_held; i++) {
            const struct hsp_job_plan *p = hsp_ci_plan(j, j->held[i].plan);
            needed = j->held[i].device == d && p != NULL && p->started;
        }
        if (!needed) {
            hsp_ci_lease(c, d, 0);
        }
    }
}

/* Is @h part of what epoch @e goes on from? */
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

/* Devices outside the new plan that have state it comes from, ascending, some more than once. The
 * keepers of a running epoch are among them although nothing is read from them: they learn so that it
 * is over. */
static uint32_t source_devices(struct hsp_cluster *c, const struct hsp_job *j,
                               const struct hsp_cl_epoch *e, hsp_device_id **ret)
{
    uint32_t n = 0, lasting = e->mode == HSP_MODE_SWITCH ? hsp_ci_lasting(&j->cur) : 0;
    uint32_t held = e->mode == HSP_MODE_RECOVER ? j->n_held : 0;
    *ret = hsp_ci_alloc(c, (size_t)lasting + held, sizeof(**ret));
    for (uint32_t i = 0; *ret != NULL && i < lasting; i++) {
        (*ret)[n++] = j->cur.peers[i].device;
    }
    for (uint32_t i = 0; *ret != NULL && i < held; i++) {
        if (is_source(c, j, e, &j->held[i])) {
            (*ret)[n++] = j->held[i].device;
        }
    }
    if (n > 1) {
        qsort(*ret, n, sizeof(**ret), ascending);
    }
    return n;
}

/* Where the state can be had: fixed here, whatever comes and goes until the last PREPARE is sent. */
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

/* Members, keepers and sources of @e; all of them are the job's from now on. */
static bool take_peers(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_plan_info *info,
                       struct hsp_cl_epoch *e)
{
    hsp_device_id *src;
    uint32_t n_src = source_devices(c, j, e, &src), n = info->n_ranks + info->n_keepers;
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

void hsp_ci_attempt(struct hsp_cluster *c, struct hsp_job *j, uint64_t plan,
                    enum hsp_epoch_mode mode, uint64_t from_plan, uint64_t step)
{
    if (c->failed) {
        return; /* the plan may not be there */
    }
    const struct hsp_plan_info *info = &hsp_ci_plan(j, plan)->info;
    struct hsp_cl_epoch e = {.epoch = j->next_epoch++,
                             .plan = plan,
                             .from_plan = from_plan,
                             .base_epoch = mode == HSP_MODE_SWITCH ? j->cur.epoch : 0,
                             .mode = mode,
                             .phase = HSP_ATT_WAIT_UP,
                             .step = step,
                             .n_ranks = info->n_ranks,
                             .n_keepers = info->n_keepers,
                             .data_tls = c->cfg.data_tls,
                             .deadline_ms = c->now_ms + c->cfg.up_ms};
    if (!take_peers(c, j, info, &e) || !fix_sources(c, j, &e)) {
        hsp_ci_epoch_fini(&e);
        c->failed = true;
        return;
    }
    (void)snprintf(e.cause, sizeof(e.cause), "%s", j->cause);
    if (e.data_tls && c->cfg.trusted != NULL) { /* in clear all networks are alike */
        (void)snprintf(e.trusted, sizeof(e.trusted), "%s", c->cfg.trusted);
    }
    e.trace.detect_ms = j->detect_ms;
    e.trace.sealed_ms = j->sealed_ms;
    e.trace.planned_ms = j->planned_ms != 0 ? j->planned_ms : c->now_ms;
    j->att = e;
    if (j->state == HSP_JOB_RUNNING) {
        hsp_ci_job_move(c, j, HSP_JOB_SWITCHING);
    } else if (j->state == HSP_JOB_PENDING) {
        hsp_ci_job_move(c, j, HSP_JOB_STARTING);
    } else if (j->state == HSP_JOB_PAUSED) {
        hsp_ci_job_move(c, j, HSP_JOB_RECOVERING);
    }
    j->reason[0] = '\0';
    hsp_ci_store_job(c, j);
    struct hsp_fact *f =
        hsp_ci_fact(c, "switch.begin", HSP_SEV_NOTICE, j, NULL,
                    "epoch %llu: %u ranks, %s%u sources", (unsigned long long)e.epoch, e.n_ranks,
                    e.n_keepers != 0 ? hsp_ci_printf(c, "%u keepers, ", e.n_keepers) : "",
                    e.n_peers - hsp_ci_lasting(&e));
    if (f != NULL) {
        f->epoch = e.epoch;
        f->cause = hsp_ci_printf(c, "%s", e.cause);
    }
}

static const struct hsp_prepare_action *prepare_action(struct hsp_cluster *c, struct hsp_job *j)
{
    const struct hsp_cl_epoch *e = &j->att;
    struct hsp_prepare_action *p = hsp_ci_alloc(c, 1, sizeof(*p));
    struct hsp_prepare_peer *peers = hsp_ci_alloc(c, e->n_peers, sizeof(*peers));
    if (c->failed) {
        return p;
    }
    for (uint32_t i = 0; i < e->n_peers; i++) {
        peers[i].device = e->peers[i].device;
        peers[i].address = hsp_ci_printf(c, "%s", hsp_ci_device(c, peers[i].device)->address);
    }
    *p = (struct hsp_prepare_action){e->n_peers, peers, e->n_sources, e->sources, e->n_keepers};
    return p;
}

static void send_prepare(struct hsp_cluster *c, struct hsp_job *j, uint32_t rank,
                         const struct hsp_prepare_action *shared)
{
    struct hsp_cl_epoch *e = &j->att;
    const struct hsp_ckpt_mark none = {0};
    const struct hsp_ckpt_mark *ckpt = e->mode == HSP_MODE_RESTORE ? &j->origin_ckpt : &none;
    struct hsp_msg m = {.type = HSP_MSG_PREPARE,
                        .epoch = e->epoch,
                        .u.prepare = {.job = j->id,
                                      .job_name = j->name,
                                      .device = HSP_DEVICE_INDEX(e->peers[rank].device),
                                      .rank = rank,
                                      .n_ranks = e->n_ranks,
                                      .n_keepers = e->n_keepers,
                                      .n_peers = e->n_peers,
                                      .mode = e->mode,
                                      .plan = e->plan,
                                      .from_plan = e->from_plan,
                                      .step = e->mode == HSP_MODE_SWITCH ? 0 : e->step,
                                      .base_epoch = e->base_epoch,
                                      .steps = j->steps,
                                      .checkpoint_every = j->checkpoint_every,
                                      .data_path = j->data_path,
                                      .checkpoint_path = j->checkpoint_path,
                                      .checkpoint_shared = j->checkpoint_shared,
                                      .ckpt_term = ckpt->term,
                                      .ckpt_epoch = ckpt->epoch,
                                      .ckpt_content = ckpt->content,
                                      .data_tls = e->data_tls,
                                      .trusted_network = e->trusted}};
    hsp_ci_send(c, hsp_ci_node(c, e->peers[rank].device)->conn, &m);
    if (c->failed) {
        return;
    }
    struct hsp_action *a = &c->actions[c->n_actions - 1];
    a->type = HSP_ACT_PREPARE;
    a->job = j->id;
    a->plan_no = e->plan;
    a->u.prepare = shared;
    e->peers[rank].prepare_sent = true;
}

/* Each connection is told of by both of its ends. */
static struct hsp_links links_of(const struct hsp_cl_epoch *e)
{
    struct hsp_links n = {0};
    for (uint32_t i = 0; i < e->n_peers; i++) {
        n.shm += e->peers[i].links.shm;
        n.local += e->peers[i].links.local;
        n.tls += e->peers[i].links.tls;
        n.tcp += e->peers[i].links.tcp;
    }
    return (struct hsp_links){n.shm / 2, n.local / 2, n.tls / 2, n.tcp / 2};
}

static void go(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_cl_epoch *e = &j->att;
    struct hsp_job_plan *p = hsp_ci_plan(j, e->plan);
    e->links = links_of(e);
    e->phase = HSP_ATT_GO;
    e->deadline_ms = HSP_NEVER;
    e->trace.go_ms = c->now_ms;
    if (!p->started) { /* else it may have versions already, of which who joined since knows nothing */
        p->since = c->next_incarnation;
    }
    p->started = true;
    hsp_ci_store_plan(c, j, p);
    hsp_ci_store_job(c, j);
    struct hsp_fact *f =
        hsp_ci_fact(c, "switch.phase", HSP_SEV_INFO, j, NULL, "epoch %llu %s",
                    (unsigned long long)e->epoch, e->mode == HSP_MODE_SWITCH ? "armed" : "starts");
    if (f != NULL) {
        f->epoch = e->epoch;
    }
}

static void send_go(struct hsp_cluster *c, struct hsp_job *j, struct hsp_epoch_peer *p)
{
    struct hsp_msg m = {.epoch = j->att.epoch};
    if (j->att.mode == HSP_MODE_SWITCH) {
        m.type = HSP_MSG_ARM;
        m.u.devref.job = j->id;
        m.u.devref.device = HSP_DEVICE_INDEX(p->device);
    } else {
        m.type = HSP_MSG_START;
        m.u.start = (struct hsp_m_start){j->id, HSP_DEVICE_INDEX(p->device), j->att.step};
    }
    hsp_ci_send(c, hsp_ci_node(c, p->device)->conn, &m);
    p->go_sent = true;
}

/* Peer @d keeps the attempt from going on. */
static void missed(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d, const char *why)
{
    if (hsp_ci_refuse_keeper(c, j, d, why)) {
        hsp_ci_attempt_refused(c, j, why); /* the job can do without */
    } else {
        hsp_ci_attempt_fail(c, j, why);
    }
}

static void wait_up(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_cl_epoch *e = &j->att;
    for (uint32_t i = 0; i < e->n_peers; i++) {
        const struct hsp_cluster_node *n = hsp_ci_node(c, e->peers[i].device);
        if (n->conn == 0 || !hsp_ci_device(c, e->peers[i].device)->up) {
            if (c->now_ms >= e->deadline_ms) {
                missed(c, j, e->peers[i].device,
                       hsp_ci_printf(c, "%s did not come up",
                                     hsp_ci_device_name(c, e->peers[i].device)));
            }
            return;
        }
    }
    e->phase = HSP_ATT_PREPARING;
    e->deadline_ms = c->now_ms + c->cfg.prepare_ms;
    e->trace.prepare_ms = c->now_ms;
}

static void timed_out(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id d)
{
    if (j->n_facts < HSP_CLUSTER_FACTS && !hsp_ci_device(c, d)->keeper) {
        j->facts[j->n_facts++] = (struct hsp_plan_fact){HSP_FACT_TIMEOUT, d, d, 0};
    }
    missed(c, j, d,
           hsp_ci_printf(c, "%s did not get ready within %u ms", hsp_ci_device_name(c, d),
                         c->cfg.prepare_ms));
}

void hsp_ci_attempt_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    struct hsp_cl_epoch *e = &j->att;
    if (e->phase == HSP_ATT_WAIT_UP) {
        wait_up(c, j);
    }
    if (e->epoch != 0 && e->phase == HSP_ATT_PREPARING) {
        const struct hsp_prepare_action *shared = NULL;
        bool ready = true;
        for (uint32_t i = 0; i < e->n_peers; i++) {
            struct hsp_epoch_peer *p = &e->peers[i];
            if (!p->ready && c->now_ms >= e->deadline_ms) {
                timed_out(c, j, p->device);
                return;
            }
            if (!p->prepare_sent && hsp_ci_node(c, p->device)->conn != 0) {
                shared = shared != NULL ? shared : prepare_action(c, j);
                send_prepare(c, j, i, shared);
            }
            ready = ready && p->ready;
        }
        if (ready && hsp_ci_data_agrees(c, j)) {
            e->trace.ready_ms = c->now_ms;
            go(c, j);
        }
    }
    if (e->epoch != 0 && e->phase == HSP_ATT_GO) {
        bool all = true;
        for (uint32_t i = 0; i < e->n_peers; i++) {
            struct hsp_epoch_peer *p = &e->peers[i];
            if (!p->go_sent && !p->started && hsp_ci_node(c, p->device)->conn != 0) {
                send_go(c, j, p);
            }
            all = all && p->started;
        }
        if (all) {
            hsp_ci_promote(c, j);
        }
    }
}

enum over { FAILED, REFUSED, NOT_NEEDED };

static void attempt_over(struct hsp_cluster *c, struct hsp_job *j, const char *why, enum over how)
{
    struct hsp_cl_epoch *e = &j->att;
    uint64_t plan = e->plan;
    for (uint32_t i = 0; i < e->n_peers; i++) {
        if (e->peers[i].prepare_sent) {
            struct hsp_msg m = {.type = HSP_MSG_DROP,
                                .epoch = e->epoch,
                                .u.devref = {j->id, HSP_DEVICE_INDEX(e->peers[i].device)}};
            hsp_ci_send(c, hsp_ci_node(c, e->peers[i].device)->conn, &m);
        }
    }
    struct hsp_fact *f =
        hsp_ci_fact(c, "switch.aborted", how == NOT_NEEDED ? HSP_SEV_INFO : HSP_SEV_WARN, j, NULL,
                    "epoch %llu: %s", (unsigned long long)e->epoch, why);
    if (f != NULL) {
        f->epoch = e->epoch;
    }
    bool was_switch = j->state == HSP_JOB_SWITCHING;
    hsp_ci_epoch_fini(e);
    const struct hsp_job_plan *p = hsp_ci_plan(j, plan);
    if (p != NULL && !p->started) {
        hsp_ci_drop_plan(c, j, plan);
    }
    hsp_ci_free_leases(c, j);
    j->asked_valid = false;
    if (was_switch) {
        hsp_ci_job_move(c, j, HSP_JOB_RUNNING);
        j->retune = true;
    } else if (j->state == HSP_JOB_STARTING) {
        hsp_ci_job_move(c, j, HSP_JOB_PENDING);
    }
    if (how == FAILED) {
        hsp_ci_job_failure(c, j, why);
    }
    if (!hsp_job_terminal(j->state) && how != NOT_NEEDED) {
        if (j->state == HSP_JOB_FINISHING) {
            hsp_ci_finishing_stays(c, j, why);
        } else {
            hsp_ci_job_blocked(c, j, "%s", why);
        }
        hsp_ci_store_job(c, j);
    }
}

void hsp_ci_attempt_fail(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    attempt_over(c, j, why, FAILED);
}

void hsp_ci_attempt_refused(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    attempt_over(c, j, why, REFUSED);
}

void hsp_ci_attempt_drop(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    attempt_over(c, j, why, NOT_NEEDED);
}
