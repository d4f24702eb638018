#include "daemon/cluster/finishing.h"

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/apart.h"
#include "daemon/cluster/attempt_advance.h"
#include "daemon/cluster/attempt_begin.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/plan_results.h"
#include "proto/base/str.h"

static bool is_rank(const struct hsp_job *j, hsp_device_id d)
{
    return (uint32_t)(hsp_ci_peer(&j->cur, d) - j->cur.peers) < j->cur.n_ranks;
}

/* The planner was asked about just these devices. */
static bool asked(const struct hsp_job *j, const hsp_device_id *dev, uint32_t n)
{
    bool same = j->asked_valid && j->n_asked == n;
    for (uint32_t i = 0; same && i < n; i++) {
        same = j->asked[i] == dev[i];
    }
    return same;
}

static void move(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id first)
{
    hsp_device_id *dev;
    uint32_t n = hsp_ci_usable(c, j, &dev);
    const char *why;
    if (hsp_ci_members_apart(c, j, &why)) {
        hsp_ci_cancel_plan(c, j);
        hsp_ci_finishing_stays(c, j, why);
        return;
    }
    if (j->have_result && hsp_ci_all_in(j->result.device, j->result.n_ranks, dev, n)) {
        hsp_ci_attempt_begin(c, j, hsp_ci_adopt_result(c, j), HSP_MODE_SWITCH, j->cur.plan, 0);
        return;
    }
    hsp_ci_cancel_plan(c, j);
    hsp_str_printf(j->cause, sizeof(j->cause), "%s", hsp_ci_leave_cause(c, first));
    if (!is_rank(j, first)) {
        j->detect_ms = j->planned_ms = c->now_ms;
        uint64_t plan = hsp_ci_with_replica_holders(c, j, j->cur.plan);
        hsp_ci_attempt_begin(c, j, plan, HSP_MODE_SWITCH, j->cur.plan, 0);
    } else if (n == 0) {
        hsp_ci_finishing_stays(
            c, j, hsp_ci_printf(c, "no other device is available%s", hsp_ci_data_why(c, j)));
    } else if (!asked(j, dev, n)) {
        j->detect_ms = c->now_ms;
        hsp_ci_start_plan(c, j, dev, n, false);
    }
}

void hsp_ci_finishing_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    if (j->att.epoch != 0) {
        hsp_ci_attempt_advance(c, j);
        return;
    }
    if (!hsp_ci_moves(c, j)) {
        hsp_ci_cancel_plan(c, j);
        j->reason[0] = '\0';
        return;
    }
    if (j->cur.settled && j->ticket == 0 && c->now_ms >= j->retry_ms && !hsp_ci_releasing(c, j) &&
        hsp_ci_silent_node(c, j) == NULL) {
        move(c, j, hsp_ci_leaver(c, j));
    }
}
