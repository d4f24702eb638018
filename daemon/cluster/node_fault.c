#include "daemon/cluster/node_fault.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "proto/base/str.h"

#define FIRST_MS     60000u /* a try costs a running job nothing, others a second */
#define MAX_DOUBLING 4u     /* 16 minutes */
#define NAMED        3u     /* in one text */

bool hsp_ci_is_folder_fault(const struct hsp_m_failed *f)
{
    return f->fact == HSP_FACT_STATE_FOLDER ||
           (f->fact == HSP_FACT_OUT_OF_MEMORY && f->amount == UINT64_MAX);
}

void hsp_ci_node_fault(struct hsp_cluster *c, struct hsp_cluster_node *n, const char *why)
{
    struct hsp_node_fault *f = &n->fault;
    if (f->until_ms != 0) {
        return; /* another device of it says the same */
    }
    if (c->now_ms - f->since_ms >= (hsp_msec)FIRST_MS << (MAX_DOUBLING + 1)) {
        /* since the fault the node was of use for the longest time that a node is ever out */
        f->times = 0;
    }
    uint32_t k = f->times < MAX_DOUBLING ? f->times : MAX_DOUBLING;
    f->times++;
    f->since_ms = c->now_ms;
    f->until_ms = c->now_ms + ((hsp_msec)FIRST_MS << k);
    hsp_str_printf(f->why, sizeof(f->why), "%s", why);
    c->n_faults++;
    hsp_ci_fact(c, "node.unusable", HSP_SEV_WARN, NULL, n,
                "%s; jobs do not use it, it is tried again in %u s", f->why,
                (unsigned)((FIRST_MS << k) / 1000));
    hsp_ci_node_dirty(c, n);
    hsp_ci_all_switches_anew(c);
}

void hsp_ci_node_mended(struct hsp_cluster *c, struct hsp_cluster_node *n, bool forget)
{
    if (n->fault.until_ms != 0) {
        n->fault.until_ms = 0;
        c->n_faults--;
        hsp_ci_node_dirty(c, n);
        hsp_ci_jobs_dirty(c);
    }
    n->fault.times = forget ? 0 : n->fault.times;
}

void hsp_ci_node_faults_retry(struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; c->n_faults > 0 && i < j->n_leases; i++) {
        struct hsp_cluster_node *n = hsp_ci_node(c, j->leases[i]);
        if (n->fault.until_ms != 0) {
            hsp_ci_node_mended(c, n, false);
            hsp_ci_fact(c, "node.usable", HSP_SEV_INFO, j, n,
                        "it is tried again, as job %s has state there", j->name);
        }
    }
}

void hsp_ci_node_faults_advance(struct hsp_cluster *c)
{
    for (uint32_t i = 0; c->n_faults > 0 && i < c->n_nodes; i++) {
        struct hsp_cluster_node *n = &c->nodes[i];
        if (n->fault.until_ms != 0 && c->now_ms >= n->fault.until_ms) {
            hsp_ci_node_mended(c, n, false);
            hsp_ci_fact(c, "node.usable", HSP_SEV_INFO, NULL, n, "it is tried again");
        }
    }
}

hsp_msec hsp_ci_node_faults_due(const struct hsp_cluster *c)
{
    hsp_msec best = HSP_NEVER;
    for (uint32_t i = 0; c->n_faults > 0 && i < c->n_nodes; i++) {
        hsp_msec at = c->nodes[i].fault.until_ms;
        best = at != 0 && at < best ? at : best;
    }
    return best;
}

const char *hsp_ci_node_faults_why(struct hsp_cluster *c)
{
    const char *text = "";
    uint32_t named = 0;
    for (uint32_t i = 0; c->n_faults > 0 && i < c->n_nodes && named < NAMED; i++) {
        const struct hsp_cluster_node *n = &c->nodes[i];
        if (n->fault.until_ms != 0) {
            text = hsp_ci_printf(c, "%s; %s is left out: %s", text, n->name, n->fault.why);
            named++;
        }
    }
    return named < c->n_faults ? hsp_ci_printf(c, "%s; and %u more", text, c->n_faults - named)
                               : text;
}
