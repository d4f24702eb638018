#include "daemon/cluster/try_anew.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/learnt.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/node_fault.h"
#include "daemon/cluster/plan_requests.h"
#include "proto/base/str.h"

static void by_job(struct hsp_cluster *c, struct hsp_job *j, const struct hsp_cluster_node *n)
{
    uint32_t at = hsp_ci_index_of(c, n);
    struct hsp_job_mark *k = hsp_ci_marked(j, at);
    if (k != NULL) {
        hsp_ci_mark_may_keep(k);
    }
    hsp_ci_data_forget(j, at);
    bool knew = hsp_ci_unlearn_node(j, at, false);
    hsp_ci_unask_node(c, j, at);
    if (knew && hsp_ci_job_runs(j)) { /* also where the job is on it: it may take more */
        j->retune = true;
        hsp_str_printf(j->cause, sizeof(j->cause), "%s is tried anew", n->name);
    }
}

void hsp_ci_try_anew(struct hsp_cluster *c, struct hsp_cluster_node *n)
{
    hsp_ci_node_mended(c, n, true);
    for (uint32_t i = 0; i < c->n_jobs; i++) {
        by_job(c, c->jobs[i], n);
    }
    hsp_ci_all_switches_anew(c);
}
