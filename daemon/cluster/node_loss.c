#include "daemon/cluster/node_loss.h"

#include "daemon/cluster/attempt_end.h"
#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/forget.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/node_fault.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "proto/op/op.h"

static bool plays_a_part(const struct hsp_job *j, const struct hsp_cl_epoch *e, hsp_device_id d)
{
    const struct hsp_epoch_peer *p = hsp_ci_peer(e, d);
    return p != NULL &&
           (e != &j->cur || (uint32_t)(p - e->peers) < hsp_ci_participants(e) || !e->settled);
}

void hsp_ci_device_lost(struct hsp_cluster *c, hsp_device_id d, const char *cause)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        if (hsp_job_terminal(j->state)) {
            continue;
        }
        bool gone = j->att.epoch != 0 && j->att.phase == HSP_ATT_GO;
        bool runs = j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING ||
                    j->state == HSP_JOB_FINISHING;
        if ((runs && plays_a_part(j, &j->cur, d)) || (gone && plays_a_part(j, &j->att, d))) {
            hsp_ci_job_loss(c, j, cause);
        } else if (j->att.epoch != 0 && plays_a_part(j, &j->att, d)) {
            hsp_ci_attempt_fail(c, j, cause);
        }
    }
}

void hsp_ci_node_dead(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why)
{
    uint32_t at = hsp_ci_index_of(c, n);
    bool planned = n->state == HSP_NODE_LEFT;
    if (n->conn != 0) {
        hsp_ci_close(c, n->conn, why);
    }
    hsp_ci_node_conn(c, n, 0);
    hsp_ci_node_state(c, n, planned ? HSP_NODE_LEFT : HSP_NODE_DEAD);
    hsp_ci_node_reason(n, why);
    n->leaving = false;
    n->bye_sent = false;
    n->gone_s = c->unix_s;
    hsp_ci_forget_later(c);
    hsp_ci_fact(c, planned ? "node.left" : "node.dead", planned ? HSP_SEV_NOTICE : HSP_SEV_WARN,
                NULL, n, "%s", why);
    hsp_ci_store_node(c, n);
    hsp_ci_pairs_forget(c, at);
    hsp_ci_node_mended(c, n, true);
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        n->dev[d].up = false;
        n->dev[d].present = false;
    }
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job_mark *k = hsp_ci_marked(c->jobs[i], at);
        hsp_ci_held_drop_node(c, c->jobs[i], at);
        if (k != NULL) {
            k->seal = 0;
        }
        c->jobs[i]->asked_valid = c->jobs[i]->asked_valid && c->jobs[i]->cur.epoch != 0;
    }
    const char *cause = hsp_ci_printf(c, "node %s: %s", n->name, why);
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        hsp_ci_device_lost(c, HSP_DEVICE(at, d), cause);
        hsp_ci_lease(c, HSP_DEVICE(at, d), 0);
        n->dev[d].ask = HSP_ASK_NONE;
    }
    hsp_ci_store_all_leases(c);
}
