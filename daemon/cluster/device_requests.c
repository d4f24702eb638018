#include "daemon/cluster/device_requests.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/kept_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/measure.h"
#include "daemon/cluster/node_check.h"
#include "daemon/cluster/node_loss.h"
#include "daemon/cluster/outbox.h"

/* An agent kills an executor that does not obey within 10 s, or two dead_ms where that is more
 * (worker/agent/obey.h), and answers when it is gone: six times as long, as with SEAL. */
#define LET_GO_MS 60000u

static uint64_t let_go_ms(const struct hsp_cluster *c)
{
    uint64_t slow = 12 * (uint64_t)c->cfg.dead_ms;
    return slow > LET_GO_MS ? slow : LET_GO_MS;
}

/* The device has time from now on, or from the first time it was asked: another connection gives no
 * more. */
static void has_time(struct hsp_cluster *c, struct hsp_node_device *d)
{
    d->let_go_ms = d->let_go_ms != 0 ? d->let_go_ms : c->now_ms + let_go_ms(c);
    hsp_ci_answer_by(c, d->let_go_ms);
}

/* @d is a source that has not yet left the epoch before: STARTED comes first. */
static bool is_leaving(const struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_epoch_peer *p = hsp_ci_peer(&j->cur, d);
    return p != NULL && !p->started && (uint32_t)(p - j->cur.peers) >= hsp_ci_participants(&j->cur);
}

static void ask(struct hsp_cluster *c, struct hsp_cluster_node *n, uint32_t device)
{
    struct hsp_node_device *d = &n->dev[device];
    struct hsp_job *j = hsp_ci_job(c, d->job);
    struct hsp_msg m = {0};
    if (d->ask == HSP_ASK_NONE || d->asked || n->conn == 0 || j == NULL) {
        return;
    }
    if (d->ask == HSP_ASK_RELEASE && is_leaving(j, HSP_DEVICE(hsp_ci_index_of(c, n), device))) {
        d->leaves = true;
        has_time(c, d);
        return;
    }
    d->asked = true;
    d->let_go_ms = d->leaves ? 0 : d->let_go_ms;
    d->leaves = false;
    has_time(c, d);
    if (d->ask == HSP_ASK_STOP) {
        m.type = HSP_MSG_STOP;
        m.epoch = j->next_epoch - 1;
        m.u.devref.job = j->id;
        m.u.devref.device = device;
    } else {
        m.type = HSP_MSG_RELEASE;
        m.epoch = j->cur.epoch;
        m.u.release = (struct hsp_m_release){j->id, device, j->cur.plan, j->next_epoch - 1};
    }
    hsp_ci_send(c, n->conn, &m);
}

/* Its drain does not end before an administrator has decided about a job. */
static void tell_stays(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    const struct hsp_job *j = n->draining && !n->stays_told ? hsp_cluster_stays(c, n) : NULL;
    if (j != NULL) {
        n->stays_told = true;
        hsp_ci_fact(c, "node.drain_waits", HSP_SEV_WARN, j, n,
                    "job %s is %s, its state stays here: %s", j->name,
                    j->state == HSP_JOB_BEHIND ? "behind" : "held", j->reason);
    }
}

void hsp_ci_answers_late(struct hsp_cluster *c)
{
    if (c->now_ms < c->answers_ms) {
        return;
    }
    c->answers_ms = HSP_NEVER;
    for (uint32_t i = 0; i < c->n_nodes * HSP_NODE_DEVICES; i++) {
        const struct hsp_node_device *d = hsp_ci_device(c, i);
        struct hsp_cluster_node *n = hsp_ci_node(c, i);
        const struct hsp_job *j = hsp_ci_job(c, d->job);
        if (d->ask == HSP_ASK_NONE || d->let_go_ms == 0 || n->conn == 0 || j == NULL) {
            continue;
        }
        if (c->now_ms < d->let_go_ms) {
            hsp_ci_answer_by(c, d->let_go_ms);
            continue;
        }
        hsp_ci_node_dead(
            c, n,
            hsp_ci_printf(c, "did not %s of job %s within %llu ms; it joins again, or see its log",
                          d->leaves ? "leave the previous epoch" : "release the state", j->name,
                          (unsigned long long)let_go_ms(c)));
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        hsp_ci_seal_late(c, c->jobs[i]);
    }
}

void hsp_ci_nodes_advance(struct hsp_cluster *c)
{
    uint32_t *look, n_look = hsp_ci_take_look(c, &look);
    hsp_ci_measure_advance(c);
    hsp_ci_check_advance(c);
    for (uint32_t i = 0; i < n_look; i++) {
        struct hsp_cluster_node *n = &c->nodes[look[i]];
        bool busy = false;
        for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
            ask(c, n, d);
            busy = busy || n->dev[d].job != 0;
        }
        hsp_ci_tell_drained(c, n);
        tell_stays(c, n);
        if (busy || n->state != HSP_NODE_LIVE) {
            continue;
        }
        if (n->draining && !n->drained_told && hsp_cluster_left_on(c, n) == NULL) {
            n->drained_told = true;
            hsp_ci_fact(c, "node.drained", HSP_SEV_NOTICE, NULL, n, "%s", n->reason);
        }
        if (n->leaving && !n->bye_sent && n->conn != 0) {
            struct hsp_msg m = {.type = HSP_MSG_BYE, .u.text.reason = "nothing is left here"};
            hsp_ci_send(c, n->conn, &m);
            n->bye_sent = true;
        }
    }
}
