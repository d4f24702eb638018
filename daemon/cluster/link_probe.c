#include "daemon/cluster/link_probe.h"

#include <math.h>

#include "daemon/cluster/broken_pairs.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"

#define PROBE_MS   6000u /* a link that takes longer is slow */
#define CONNECT_MS 3000u
#define NUMBERS    0x80000000u /* checks of administrators count below */

enum { SEQ_OPEN = 1, SEQ_LINK = 2 };

double hsp_cluster_planned_rate(const struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    double us = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i == 0 ? a : b];
        us = fmax(us, n->cross_us_per_byte);
        us = n->measured ? fmax(us, 1e6 / n->uplink.bytes_per_s) : us;
    }
    return us > 0 ? 1e6 / us : 0;
}

static void order(struct hsp_cluster *c, uint32_t side, uint32_t what, uint32_t seq)
{
    const struct hsp_link_probe *p = &c->probe;
    const struct hsp_cluster_node *n = &c->nodes[p->node[side]];
    struct hsp_msg m = {
        .type = HSP_MSG_CHECK,
        .u.check = {.check = p->number,
                    .seq = seq,
                    .what = what,
                    .rank = side,
                    .peer = what == HSP_CHECK_LINK ? c->nodes[p->node[!side]].name : "",
                    .peer_address = what == HSP_CHECK_LINK ? p->address[!side] : "",
                    .within_ms = CONNECT_MS,
                    .tls = c->cfg.data_tls}};
    if (n->conn == 0 || n->incarnation != p->incarnation[side]) {
        return;
    }
    hsp_ci_send(c, n->conn, &m);
    if (!c->failed) {
        c->actions[c->n_actions - 1].type = HSP_ACT_CHECK;
    }
}

static bool is_there(const struct hsp_cluster *c, uint32_t side)
{
    const struct hsp_cluster_node *n = &c->nodes[c->probe.node[side]];
    return n->conn != 0 && n->incarnation == c->probe.incarnation[side];
}

/* Jobs that use the link are planned anew, at most once a minute; a later plan knows it anyway. */
static void plan_anew(struct hsp_cluster *c, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        struct hsp_job *j = c->jobs[i];
        uint32_t used = 0;
        for (uint32_t k = 0; hsp_ci_job_runs(j) && k < j->cur.n_ranks; k++) {
            uint32_t node = HSP_DEVICE_NODE(j->cur.peers[k].device);
            used |= (node == a ? 1u : 0u) | (node == b ? 2u : 0u);
        }
        bool pause = j->retuned_ms != 0 && c->now_ms < j->retuned_ms + c->cfg.retune_ms;
        if (used == 3 && !pause && j->state == HSP_JOB_RUNNING) {
            j->retuned_ms = c->now_ms;
            j->retune = true;
            hsp_str_printf(j->cause, sizeof(j->cause), "another rate of the connection %s-%s",
                           c->nodes[a].name, c->nodes[b].name);
            hsp_ci_job_dirty(c, j);
        }
    }
}

/* @why: nothing was measured. An administrator's check has listeners of its own by now. */
static void end(struct hsp_cluster *c, const char *why)
{
    struct hsp_link_probe *p = &c->probe;
    double rate = why != NULL ? 0 : fmin(p->rate[0], p->rate[1]);
    for (uint32_t side = 0; side < 2 && !c->check.active; side++) {
        order(c, side, HSP_CHECK_END, 0);
    }
    p->active = false;
    c->dirty = true;
    if (is_there(c, 0) && is_there(c, 1)) {
        double planned = hsp_cluster_planned_rate(c, p->node[0], p->node[1]);
        if (hsp_ci_pair_probed(c, p->node[0], p->node[1], rate, planned, why)) {
            plan_anew(c, p->node[0], p->node[1]);
        }
    }
}

void hsp_ci_probe_advance(struct hsp_cluster *c)
{
    struct hsp_link_probe *p = &c->probe;
    uint32_t node[2];
    if (p->active && (c->now_ms >= p->deadline_ms || !is_there(c, 0) || !is_there(c, 1))) {
        end(c, "its measurement took too long");
    }
    if (p->active || c->check.active || !hsp_ci_pair_to_probe(c, &node[0], &node[1])) {
        return;
    }
    c->n_probes++;
    *p = (struct hsp_link_probe){.active = true,
                                 .number = NUMBERS | ((uint32_t)c->term << 16) | c->n_probes,
                                 .seq = SEQ_OPEN,
                                 .deadline_ms = c->now_ms + PROBE_MS};
    for (uint32_t side = 0; side < 2; side++) {
        p->node[side] = node[side];
        p->incarnation[side] = c->nodes[node[side]].incarnation;
        order(c, side, HSP_CHECK_OPEN, SEQ_OPEN);
    }
}

void hsp_ci_probe_answer(struct hsp_cluster *c, const struct hsp_cluster_node *n,
                         const struct hsp_m_checked *m)
{
    struct hsp_link_probe *p = &c->probe;
    uint32_t at = hsp_ci_index_of(c, n), side = at == p->node[0] ? 0 : 1;
    bool asked = p->active && m->check == p->number && m->seq == p->seq && at == p->node[side];
    if (!asked || p->said[side] || !is_there(c, side)) {
        return;
    }
    p->said[side] = true;
    if (m->fault[0] != '\0') {
        end(c, hsp_ci_printf(c, "%s: %s", n->name, m->fault));
        return;
    }
    p->rate[side] = isfinite(m->bytes_per_s) && m->bytes_per_s > 0 ? m->bytes_per_s : 0;
    if (p->seq == SEQ_OPEN) {
        hsp_str_printf(p->address[side], sizeof(p->address[side]), "%s", m->address);
    }
    if (!p->said[0] || !p->said[1]) {
        return;
    }
    if (p->seq == SEQ_LINK) {
        end(c, NULL);
        return;
    }
    p->seq = SEQ_LINK;
    for (uint32_t k = 0; k < 2; k++) {
        p->said[k] = false;
        order(c, k, HSP_CHECK_LINK, SEQ_LINK);
    }
}

hsp_msec hsp_ci_probe_due(const struct hsp_cluster *c)
{
    return c->probe.active ? c->probe.deadline_ms : HSP_NEVER;
}
