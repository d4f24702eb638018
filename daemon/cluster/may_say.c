#include "daemon/cluster/may_say.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/past_epochs.h"
#include "daemon/cluster/plan_info.h"

/* ---- the part of a node in an epoch ---- */

static const struct hsp_epoch_peer *peer_of(const struct hsp_cluster *c,
                                            const struct hsp_cl_epoch *e,
                                            const struct hsp_cluster_node *n, uint32_t device)
{
    const struct hsp_epoch_peer *p =
        e->epoch != 0 ? hsp_ci_peer(e, HSP_DEVICE(hsp_ci_index_of(c, n), device)) : NULL;
    return p != NULL && p->incarnation == n->incarnation ? p : NULL;
}

/* True when @e needs peer @p: sources are not needed from the first vote on. */
static bool matters(const struct hsp_cl_epoch *e, const struct hsp_epoch_peer *p)
{
    return p != NULL && (!e->settled || (uint32_t)(p - e->peers) < hsp_ci_participants(e));
}

static bool is_asked(const struct hsp_cluster *c, const struct hsp_job *j,
                     const struct hsp_cluster_node *n)
{
    const struct hsp_job_mark *k = hsp_ci_marked(j, hsp_ci_index_of(c, n));
    bool asks = j->state == HSP_JOB_SEALING || j->state == HSP_JOB_FAILED;
    return asks && k != NULL && k->seal != 0;
}

/* True when @n has proven to be the node that had @incarnation. */
static bool was(const struct hsp_cluster_node *n, uint64_t incarnation)
{
    bool another = n->gap != 0 && incarnation >= n->gap && incarnation <= n->gap_end;
    return incarnation >= n->same_since && incarnation <= n->incarnation && !another;
}

/* A later incarnation of a node may repeat the messages that its executors gave to an earlier
 * one. */
static bool may_tell(const struct hsp_cluster *c, const struct hsp_job *j,
                     const struct hsp_cluster_node *n, uint64_t epoch, bool successor)
{
    struct hsp_past_epoch p = {.n = 0};
    bool may = false;
    if (hsp_ci_tellers(j, epoch, &p)) {
        for (uint32_t i = 0; i < p.n && (i == 0 || successor); i++) {
            may = may || (p.node[i] == hsp_ci_index_of(c, n) && was(n, p.incarnation[i]));
        }
    }
    return may;
}

const struct hsp_epoch_peer *hsp_ci_first_of(const struct hsp_cluster *c, const struct hsp_job *j,
                                             const struct hsp_cluster_node *n, uint64_t epoch)
{
    const struct hsp_cl_epoch *e = epoch == j->cur.epoch ? &j->cur : &j->att;
    const struct hsp_epoch_peer *p = e->n_ranks > 0 ? &e->peers[0] : NULL;
    bool begun = epoch != 0 && epoch == e->epoch && (e == &j->cur || hsp_ci_attempt_gone(j));
    return begun && p != NULL && HSP_DEVICE_NODE(p->device) == hsp_ci_index_of(c, n) &&
                   p->incarnation == n->incarnation
               ? p
               : NULL;
}

/* PREPARE_FAILED counts also for the last attempt that is over: a node without data has none for
 * the next attempt either. */
static bool may_fail(const struct hsp_cluster *c, const struct hsp_job *j,
                     const struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    const struct hsp_cl_epoch *e = m->epoch == j->att.epoch ? &j->att : &j->over;
    return m->epoch == e->epoch && peer_of(c, e, n, m->u.failed.device) != NULL;
}

/* ---- messages ---- */

/* True when every number in @m is possible. */
static bool can_be(const struct hsp_cluster *c, const struct hsp_job *j, const struct hsp_msg *m)
{
    const struct hsp_m_step *s = &m->u.step;
    const struct hsp_m_ckpt *k = &m->u.ckpt;
    switch (m->type) {
    case HSP_MSG_STEP:
        return s->step <= j->steps && s->final == (s->step == j->steps) &&
               (m->epoch != j->cur.epoch || s->step >= j->cur.step);
    case HSP_MSG_CHECKPOINTED: return k->step <= j->steps && k->term <= c->term;
    case HSP_MSG_FINISHED: return m->u.finished.step == j->steps;
    case HSP_MSG_STARTED: return m->u.started.step <= j->steps;
    case HSP_MSG_CKPT_REFUSED: return m->u.refused.step == j->att.step;
    case HSP_MSG_STANDS: return m->u.stands.round != 0 && m->u.stands.stable <= j->steps;
    default: return true;
    }
}

bool hsp_ci_may_say(const struct hsp_cluster *c, const struct hsp_job *j,
                    const struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    const struct hsp_cl_epoch *e = m->epoch == j->att.epoch ? &j->att : &j->cur;
    bool known = m->epoch != 0 && m->epoch == e->epoch;
    bool begun = known && (e == &j->cur || hsp_ci_attempt_gone(j));
    if (!can_be(c, j, m)) {
        return false;
    }
    switch (m->type) {
    case HSP_MSG_READY: return known && peer_of(c, e, n, m->u.ready.device) != NULL;
    case HSP_MSG_PREPARE_FAILED: return may_fail(c, j, n, m);
    case HSP_MSG_STARTED: return begun && peer_of(c, e, n, m->u.started.device) != NULL;
    case HSP_MSG_SEALED: return is_asked(c, j, n);
    case HSP_MSG_STEP: return may_tell(c, j, n, m->epoch, true);
    case HSP_MSG_PEER_LOST: return known && matters(e, peer_of(c, e, n, m->u.lost.device));
    case HSP_MSG_CHECKPOINTED:
        return m->u.ckpt.complete ? may_tell(c, j, n, m->epoch, false)
                                  : hsp_ci_first_of(c, j, n, m->epoch) != NULL;
    case HSP_MSG_FINISHED: return hsp_ci_first_of(c, j, n, m->epoch) != NULL;
    case HSP_MSG_CKPT_REFUSED: return begun && peer_of(c, e, n, m->u.refused.device) != NULL;
    case HSP_MSG_STANDS:
        return known && m->u.stands.round == j->progress.round &&
               peer_of(c, e, n, m->u.stands.device) != NULL;
    case HSP_MSG_JOB_FAILED: return begun && matters(e, peer_of(c, e, n, m->u.jobfail.device));
    default: return false;
    }
}

/* ---- HELLO ---- */

bool hsp_ci_may_hold(const struct hsp_cluster *c, const struct hsp_job *j,
                     const struct hsp_cluster_node *n, const struct hsp_m_holding *h)
{
    const struct hsp_job_plan *p = hsp_ci_plan(j, h->plan);
    return p != NULL && h->owner < p->info.n_ranks && h->version <= j->steps &&
           hsp_ci_holder(&p->info, h->rank) == HSP_DEVICE(hsp_ci_index_of(c, n), h->device) &&
           (p->holder == NULL || was(n, p->holder[h->rank]));
}

/* True when a rank or replica holder of layout @p has device @d. With @n, the node of @d: @n has
 * also proven to be the process that last began an epoch with @p, or its successor. */
static bool names(const struct hsp_job_plan *p, hsp_device_id d, const struct hsp_cluster_node *n)
{
    bool is = false;
    for (uint32_t i = 0; !is && i < p->info.n_ranks + p->info.n_replica_holders; i++) {
        is = hsp_ci_holder(&p->info, i) == d &&
             (n == NULL || p->holder == NULL || was(n, p->holder[i]));
    }
    return is;
}

static bool named(const struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id d,
                  const struct hsp_cluster_node *n)
{
    bool is = hsp_ci_device(c, d)->job == j->id;
    for (uint32_t i = 0; !is && i < j->n_plans; i++) {
        is = names(&j->plans[i], d, n);
    }
    return is;
}

bool hsp_ci_may_run(const struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id d)
{
    return named(c, j, d, hsp_ci_node(c, d));
}

static bool any_named(const struct hsp_cluster *c, const struct hsp_job *j, uint32_t node,
                      const struct hsp_cluster_node *n)
{
    bool is = false;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES && !is; d++) {
        is = named(c, j, HSP_DEVICE(node, d), n);
    }
    return is;
}

bool hsp_ci_is_member(const struct hsp_cluster *c, const struct hsp_job *j,
                      const struct hsp_cluster_node *n)
{
    return any_named(c, j, hsp_ci_index_of(c, n), NULL);
}

bool hsp_ci_proven_member(const struct hsp_cluster *c, const struct hsp_job *j,
                          const struct hsp_cluster_node *n)
{
    return any_named(c, j, hsp_ci_index_of(c, n), n);
}

/* True when layout @p names an incarnation of @node from @from to @to. */
static bool named_as(const struct hsp_job_plan *p, uint32_t node, uint64_t from, uint64_t to)
{
    bool is = false;
    for (uint32_t i = 0;
         p->holder != NULL && !is && i < p->info.n_ranks + p->info.n_replica_holders; i++) {
        is = HSP_DEVICE_NODE(hsp_ci_holder(&p->info, i)) == node && p->holder[i] >= from &&
             p->holder[i] <= to;
    }
    return is;
}

bool hsp_ci_named_as(const struct hsp_cluster *c, const struct hsp_cluster_node *n, uint64_t from,
                     uint64_t to)
{
    bool is = false;
    for (uint32_t k = 0; k < c->n_jobs; k++) {
        const struct hsp_job *j = c->jobs[k];
        for (uint32_t i = 0; !is && i < j->n_plans; i++) {
            is = named_as(&j->plans[i], hsp_ci_index_of(c, n), from, to);
        }
    }
    return is;
}
