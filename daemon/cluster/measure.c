#include "daemon/cluster/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/cluster_state.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/vec.h"

/* Figures beyond these are no link's; figures that planning derives from those within are
 * finite. */
#define MOST_LATENCY_S   60.0
#define MOST_BYTES_PER_S 1e13

const char *hsp_cluster_listener(const struct hsp_cluster_node *n)
{
    for (uint32_t d = 0; d < HSP_NODE_DEVICES; d++) {
        if (n->dev[d].present && n->dev[d].address[0] != '\0') {
            return n->dev[d].address;
        }
    }
    return NULL;
}

/* @a and @b are the same up to the last @end. */
static bool same_until(const char *a, const char *b, char end)
{
    const char *x = a != NULL ? strrchr(a, end) : NULL, *y = b != NULL ? strrchr(b, end) : NULL;
    return x != NULL && y != NULL && x - a == y - b && memcmp(a, b, (size_t)(x - a)) == 0;
}

bool hsp_cluster_one_host(const struct hsp_cluster_node *a, const struct hsp_cluster_node *b)
{
    const char *x = hsp_cluster_listener(a), *y = hsp_cluster_listener(b);
    if (x == NULL || y == NULL) {
        return false;
    }
    char tcp[2][HSP_ADDRESS_MAX + 1];
    (void)snprintf(tcp[0], sizeof tcp[0], "%.*s", (int)strcspn(x, ","), x);
    (void)snprintf(tcp[1], sizeof tcp[1], "%.*s", (int)strcspn(y, ","), y);
    return same_until(tcp[0], tcp[1], ':') ||
           same_until(strstr(x, ",unix:"), strstr(y, ",unix:"), '.');
}

static void add(struct hsp_cluster *c, uint32_t **list, size_t *cap, uint32_t *n, uint32_t node)
{
    if (!hsp_grow(list, cap, (size_t)*n + 1, sizeof(**list), HSP_MAX_NODES)) {
        c->failed = true;
        return;
    }
    (*list)[(*n)++] = node;
}

/* Puts node @at at the end of those that wait. */
static void enqueue(struct hsp_cluster *c, uint32_t at)
{
    if (c->queue_at > c->n_queue / 2) { /* half of it is spent */
        c->n_queue -= c->queue_at;
        memmove(c->queue, c->queue + c->queue_at, c->n_queue * sizeof(*c->queue));
        c->queue_at = 0;
    }
    add(c, &c->queue, &c->cap_queue, &c->n_queue, at);
}

void hsp_ci_measure_hello(struct hsp_cluster *c, struct hsp_cluster_node *n, bool anew)
{
    n->measured = n->measured && !anew;
    n->measure = n->measured ? HSP_MEASURE_NONE : HSP_MEASURE_WAITS;
    if (!n->measured && !n->queued) {
        enqueue(c, hsp_ci_index_of(c, n));
        n->queued = true;
    }
}

static void end_turns(struct hsp_cluster *c)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < c->n_turns; i++) {
        struct hsp_cluster_node *n = &c->nodes[c->turns[i]];
        if (n->measure == HSP_MEASURE_TURN && n->conn == 0) {
            n->measure = HSP_MEASURE_NONE; /* its next hello begins again */
        } else if (n->measure == HSP_MEASURE_TURN && c->now_ms >= n->measure_ms) {
            n->measure = HSP_MEASURE_NONE;
            hsp_ci_fact(c, "node.unmeasured", HSP_SEV_WARN, NULL, n,
                        "its link: no figures in %u ms", c->cfg.measure_ms);
        }
        if (n->measure == HSP_MEASURE_TURN) {
            c->turns[left++] = c->turns[i];
        }
    }
    c->n_turns = left;
}

void hsp_ci_measure_advance(struct hsp_cluster *c)
{
    end_turns(c);
    while (c->queue_at < c->n_queue && c->n_turns < c->cfg.measures) {
        uint32_t at = c->queue[c->queue_at++];
        struct hsp_cluster_node *n = &c->nodes[at];
        struct hsp_msg m = {.type = HSP_MSG_MEASURE, .u.measure.echoes = HSP_CLUSTER_ECHOES};
        n->queued = false;
        if (n->measure == HSP_MEASURE_WAITS && n->conn == 0) {
            n->measure = HSP_MEASURE_NONE;
        } else if (n->measure == HSP_MEASURE_WAITS) {
            hsp_ci_send(c, n->conn, &m);
            n->measure = HSP_MEASURE_TURN;
            n->measure_ms = c->now_ms + c->cfg.measure_ms;
            add(c, &c->turns, &c->cap_turns, &c->n_turns, at);
        }
    }
}

hsp_msec hsp_ci_measure_due(const struct hsp_cluster *c)
{
    hsp_msec best = HSP_NEVER;
    for (uint32_t i = 0; i < c->n_turns; i++) {
        hsp_msec t = c->nodes[c->turns[i]].measure_ms;
        best = t < best ? t : best;
    }
    return best;
}

bool hsp_cluster_measures(const struct hsp_cluster *c, uint32_t conn)
{
    const struct hsp_cluster_node *n = hsp_ci_node_of_conn(c, conn);
    return n != NULL && n->measure == HSP_MEASURE_TURN;
}

static bool within(double v, double least, double most)
{
    return isfinite(v) && v >= least && v <= most;
}

/* Plans that were made stay: only the next question is asked with it. */
void hsp_ci_uplink(struct hsp_cluster *c, struct hsp_cluster_node *n, const struct hsp_m_uplink *m)
{
    n->measure = HSP_MEASURE_NONE;
    c->dirty = true; /* the next one's turn */
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
