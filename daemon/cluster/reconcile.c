#include "daemon/cluster/reconcile.h"

#include "daemon/cluster/behind.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/may_say.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/standing.h"
#include "proto/wire/identity.h"

static void order(struct hsp_cluster *c, struct hsp_cluster_node *n, uint16_t type, uint32_t job,
                  uint32_t device, uint64_t epoch)
{
    struct hsp_msg m = {.type = type, .epoch = epoch};
    if (type == HSP_MSG_SEAL) {
        m.u.jobref.job = job;
    } else {
        m.u.devref.job = job;
        m.u.devref.device = device;
    }
    hsp_ci_send(c, n->conn, &m);
}

/* The same for the work of the device for @job. Until its agent says that the work is over, a
 * PREPARE of another job would be refused. */
static void end_run(struct hsp_cluster *c, struct hsp_cluster_node *n, uint16_t type, uint32_t job,
                    uint32_t device, uint64_t epoch)
{
    order(c, n, type, job, device, epoch);
    n->dev[device].ending = job;
    n->dev[device].stops = type == HSP_MSG_STOP;
    hsp_ci_node_dirty(c, n);
}

/* How the run of a device differs from the part that the device has in the epochs; NULL: not at
 * all. */
static const char *disagrees(struct hsp_job *j, struct hsp_epoch_peer *cur,
                             struct hsp_epoch_peer *att, const struct hsp_m_run *r)
{
    bool in_cur =
        cur != NULL && hsp_ci_job_runs(j) &&
        ((uint32_t)(cur - j->cur.peers) < hsp_ci_participants(&j->cur) || !j->cur.settled);
    if (r != NULL && r->broken && (in_cur || att != NULL)) {
        return "its epoch broke while it was away";
    }
    if (att != NULL) {
        bool holds = r != NULL && (r->prepared == j->att.epoch || r->running == j->att.epoch);
        /* A READY that was lost told of the data: a second PREPARE makes the agent say it again. */
        att->ready = att->ready && holds;
        att->prepare_sent = att->ready && j->att.phase != HSP_ATT_WAIT_UP;
        att->go_sent = r != NULL && (r->armed == j->att.epoch || r->running == j->att.epoch);
        if (hsp_ci_attempt_gone(j) && !holds) {
            return "it does not hold the epoch that was begun";
        }
        if ((uint32_t)(att - j->att.peers) >= j->att.n_ranks && holds &&
            r->running == j->att.epoch) {
            /* the device said so when nobody listened; ranks say the step too */
            att->started = true;
        }
        if (hsp_ci_attempt_gone(j) && r->running == j->att.epoch) {
            return NULL;
        }
    }
    if (in_cur && (r == NULL || r->running != j->cur.epoch)) {
        return "it does not run the epoch any more";
    }
    return NULL;
}

/* A device still runs an epoch that is over, or is armed for it. While nodes are sealed, or no new
 * epoch has begun, its node is sealed as well, for the pieces that its HELLO offered may still
 * change; else the device is only told to stop. */
static void stale_member(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                         const struct hsp_m_run *r)
{
    struct hsp_node_device *d = &n->dev[r->device];
    hsp_device_id id = HSP_DEVICE(hsp_ci_index_of(c, n), r->device);
    bool idle =
        (j->state == HSP_JOB_RECOVERING || j->state == HSP_JOB_PAUSED) && !hsp_ci_attempt_gone(j);
    if ((idle || j->state == HSP_JOB_SEALING) && (d->job == 0 || d->job == j->id) &&
        hsp_ci_may_run(c, j, id)) {
        hsp_ci_lease(c, id, j->id);
        struct hsp_job_mark *k = hsp_ci_mark(c, j, hsp_ci_index_of(c, n));
        k->seal = k->seal != 0 ? k->seal : 1;
    } else {
        end_run(c, n, HSP_MSG_SEAL, j->id, r->device,
                r->running > r->prepared ? r->running : r->prepared);
        return;
    }
    if (idle) { /* a node that comes late is no failure of the job */
        uint32_t failures = j->failures;
        j->failures = 0;
        hsp_ci_job_loss(c, j,
                        hsp_ci_printf(c, "%s/%u still ran epoch %llu", n->name, r->device,
                                      (unsigned long long)r->running));
        j->failures = failures;
    }
}

void hsp_ci_reconcile(struct hsp_cluster *c, struct hsp_job *j, struct hsp_cluster_node *n,
                      const struct hsp_m_hello *m)
{
    uint32_t at = hsp_ci_index_of(c, n);
    const struct hsp_m_run *run[HSP_NODE_DEVICES] = {NULL};
    bool over = hsp_ci_at_rest(j);
    bool finish = false;
    if (j->state == HSP_JOB_BEHIND) { /* the job is left alone, its devices go to no other job */
        for (uint32_t i = 0; i < m->n_runs; i++) {
            if (m->runs[i].job == j->id && n->dev[m->runs[i].device].job == 0) {
                hsp_ci_lease(c, HSP_DEVICE(at, m->runs[i].device), j->id);
            }
            if (m->runs[i].job == j->id && m->runs[i].finished) {
                hsp_ci_behind_finished(c, j, n, m->runs[i].running);
            }
        }
        return;
    }
    for (uint32_t i = 0; i < m->n_runs; i++) {
        const struct hsp_m_run *r = &m->runs[i];
        if (r->job != j->id) {
            continue;
        }
        run[r->device] = r;
        const struct hsp_epoch_peer *first =
            r->finished ? hsp_ci_first_of(c, j, n, r->running) : NULL;
        finish = finish || (first != NULL && first->device == HSP_DEVICE(at, r->device));
        const struct hsp_node_device *d = &n->dev[r->device];
        if (over || (d->job == j->id && d->ask == HSP_ASK_STOP)) { /* the device is told to stop */
            if (d->job != j->id && d->ending != j->id) {
                end_run(c, n, hsp_ci_keeps_state(j) ? HSP_MSG_SEAL : HSP_MSG_STOP, j->id, r->device,
                        j->next_epoch - 1);
            }
            continue;
        }
        bool stale = r->prepared != 0 && r->prepared != j->att.epoch;
        if (stale && r->armed == 0) {
            order(c, n, HSP_MSG_DROP, j->id, r->device, r->prepared);
        }
        bool known = r->running == 0 || (hsp_ci_job_runs(j) && r->running == j->cur.epoch) ||
                     (hsp_ci_attempt_gone(j) && r->running == j->att.epoch);
        if (!known || (stale && r->armed != 0)) { /* armed: it may have moved there already */
            stale_member(c, j, n, r);
        }
    }
    if (finish && !over) {
        j->stable = j->steps;
        hsp_ci_job_done(c, j, n);
        return;
    }
    for (uint32_t d = 0; !over && d < HSP_NODE_DEVICES; d++) {
        struct hsp_epoch_peer *cur = hsp_ci_peer(&j->cur, HSP_DEVICE(at, d));
        struct hsp_epoch_peer *att = hsp_ci_peer(&j->att, HSP_DEVICE(at, d));
        const char *what = disagrees(j, cur, att, run[d]);
        if (cur != NULL) { /* all but a source that still runs the epoch before */
            cur->started =
                run[d] == NULL || run[d]->running == 0 || run[d]->running >= j->cur.epoch;
        }
        if (what != NULL && (hsp_ci_job_runs(j) || hsp_ci_attempt_gone(j))) {
            hsp_ci_job_loss(c, j, hsp_ci_printf(c, "%s/%u: %s", n->name, d, what));
            return;
        }
    }
}

/* ---- jobs that have ended ---- */

bool hsp_ci_hello_runs(const struct hsp_m_hello *m, uint32_t job, uint32_t device)
{
    bool does = false;
    for (uint32_t i = 0; i < m->n_runs && !does; i++) {
        does = m->runs[i].job == job && m->runs[i].device == device;
    }
    return does;
}

/* Each device is told: kept state need not be in the list of sealed pieces. */
static void stop_all(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_hello *m,
                     const struct hsp_m_kept *k)
{
    const struct hsp_job *j = hsp_ci_job(c, k->job);
    uint64_t known = j != NULL ? j->next_epoch - 1 : k->epoch;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        if (!n->dev[d].present || n->dev[d].job == k->job) {
            continue; /* of a lease STOP is on its way */
        }
        if (hsp_ci_hello_runs(m, k->job, d)) {
            end_run(c, n, HSP_MSG_STOP, k->job, d, known);
        } else {
            order(c, n, HSP_MSG_STOP, k->job, d, known);
        }
    }
}

/* The same of an adopted job that is forgotten, by order of the administrator that adopted it: its
 * agent lets nobody else delete state of another cluster. */
static void discard(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_hello *m,
                    const struct hsp_m_kept *k)
{
    struct hsp_msg out = {
        .type = HSP_MSG_PAPERS,
        .u.papers = {
            .job = k->job, .what = HSP_PAPERS_DISCARD, .cluster = k->cluster, .reason = ""}};
    hsp_ci_send(c, n->conn, &out);
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        n->dev[d].ending = hsp_ci_hello_runs(m, k->job, d) ? k->job : n->dev[d].ending;
    }
    hsp_ci_node_dirty(c, n);
    hsp_ci_fact(c, "state.discarded", HSP_SEV_NOTICE, NULL, n,
                "job %u of %s was adopted here and has ended: its state on %s is deleted", k->job,
                hsp_ci_cluster_text(c, k->cluster), n->name);
}

void hsp_ci_end_over(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_hello *m)
{
    for (uint32_t i = 0; i < m->n_kept; i++) {
        const struct hsp_m_kept *k = &m->kept[i];
        bool own = hsp_digest_equal(k->cluster, c->id) || hsp_cluster_none(k->cluster);
        if (hsp_ci_standing(c, k) != HSP_STANDS_OVER) {
            continue;
        }
        if (hsp_ci_job(c, k->job) == NULL && !own) {
            discard(c, n, m, k);
        } else {
            stop_all(c, n, m, k);
        }
    }
}

void hsp_ci_run_over(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_msg *m)
{
    bool stopped = m->type == HSP_MSG_STOPPED;
    uint32_t job = stopped ? m->u.devref.job : m->u.sealed.job;
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        struct hsp_node_device *v = &n->dev[d];
        if (v->ending != 0 && v->ending == job && (!stopped || d == m->u.devref.device)) {
            v->ending = 0;
            hsp_ci_node_dirty(c, n);
            hsp_ci_jobs_dirty(c);
        }
    }
}
