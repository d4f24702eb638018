/* Links of nodes to here: who measures when, and what is believed.
 *
 *   WAITS --a place is free: MEASURE--> TURN --UPLINK, or its time is over--> NONE
 *
 * hello begins in WAITS when nothing is known of this incarnation's link: so after a restart of the
 * coordinator the agent is asked too, and says again what it has measured. */
#include <math.h>

#include "daemon/cluster/clusterint.h"

/* Figures beyond these are no link's; what planning makes of those within is finite. */
#define MOST_LATENCY_S   60.0
#define MOST_BYTES_PER_S 1e13

void hsp_ci_measure_hello(struct hsp_cluster_node *n, bool anew)
{
    n->measured = n->measured && !anew;
    n->measure = n->measured ? HSP_MEASURE_NONE : HSP_MEASURE_WAITS;
}

void hsp_ci_measure_advance(struct hsp_cluster *c)
{
    uint32_t turns = 0;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        struct hsp_cluster_node *n = &c->nodes[i];
        if (n->conn == 0) {
            n->measure = HSP_MEASURE_NONE; /* its next hello begins again */
        } else if (n->measure == HSP_MEASURE_TURN && c->now_ms >= n->measure_ms) {
            n->measure = HSP_MEASURE_NONE;
            hsp_ci_fact(c, "node.unmeasured", HSP_SEV_WARN, NULL, n,
                        "its link: no figures in %u ms", c->cfg.measure_ms);
        }
        turns += n->measure == HSP_MEASURE_TURN;
    }
    for (uint32_t i = 0; i < c->n_nodes && turns < c->cfg.measures; i++) {
        struct hsp_cluster_node *n = &c->nodes[i];
        if (n->measure == HSP_MEASURE_WAITS) {
            struct hsp_msg m = {.type = HSP_MSG_MEASURE, .u.measure.echoes = HSP_CLUSTER_ECHOES};
            hsp_ci_send(c, n->conn, &m);
            n->measure = HSP_MEASURE_TURN;
            n->measure_ms = c->now_ms + c->cfg.measure_ms;
            turns++;
        }
    }
}

static bool within(double v, double least, double most)
{
    return isfinite(v) && v >= least && v <= most;
}

/* Plans that were made stay: only the next question is asked with it. */
void hsp_ci_uplink(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_uplink *m)
{
    n->measure = HSP_MEASURE_NONE;
    if (!within(m->latency_s, 1e-9, MOST_LATENCY_S) ||
        !within(m->bytes_per_s, 1, MOST_BYTES_PER_S)) {
        hsp_ci_fact(c, "node.unmeasured", HSP_SEV_WARN, NULL, n,
                    "its link: %g s and %g bytes/s are no figures", m->latency_s, m->bytes_per_s);
        return;
    }
    n->measured = true;
    n->uplink = *m;
    hsp_ci_fact(c, "node.measured", HSP_SEV_INFO, NULL, n, "its link: %.3g ms one way, %.4g MB/s",
                1e3 * m->latency_s, 1e-6 * m->bytes_per_s);
}

bool hsp_cluster_measures(const struct hsp_cluster *c, uint32_t conn)
{
    const struct hsp_cluster_node *n = hsp_ci_node_of_conn(c, conn);
    return n != NULL && n->measure == HSP_MEASURE_TURN;
}
