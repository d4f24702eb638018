/* A job that is done but for its final model, which cannot be written where it is tried: when a node
 * of it is to go, the job goes as one that runs would, by a switch after which another member writes. The
 * epoch it leaves tries on until then, so nothing is given up for it. Devices that compute nothing
 * more may be fewer than the job's min. Where nobody can take over, its reason says so. */
#include "daemon/cluster/finishing.h"

#include "daemon/cluster/allocate.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epochs.h"
#include "daemon/cluster/health.h"
#include "daemon/cluster/job_data.h"
#include "daemon/cluster/jobs.h"
#include "daemon/cluster/keepers.h"
#include "daemon/cluster/membership.h"
#include "daemon/cluster/plans.h"
#include "proto/base/str.h"

/* The first device of the epoch that is to go, or its node, ranks before keepers; HSP_NO_DEVICE: none. */
static hsp_device_id leaver(const struct hsp_cluster *c, const struct hsp_job *j)
{
    for (uint32_t i = 0; i < hsp_ci_lasting(&j->cur); i++) {
        if (hsp_ci_to_leave(c, j->cur.peers[i].device) != NULL) {
            return j->cur.peers[i].device;
        }
    }
    return HSP_NO_DEVICE;
}

bool hsp_ci_moves(const struct hsp_cluster *c, const struct hsp_job *j)
{
    return j->state == HSP_JOB_FINISHING && j->unwritten == j->cur.epoch &&
           leaver(c, j) != HSP_NO_DEVICE;
}

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

void hsp_ci_finishing_stays(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    hsp_device_id d = leaver(c, j);
    const struct hsp_cluster_node *n = d != HSP_NO_DEVICE ? hsp_ci_node(c, d) : NULL;
    if (n != NULL) {
        hsp_ci_job_blocked(c, j, "%s: the final model cannot be written elsewhere: %s: %s%s",
                           j->cause, why, "let another node join",
                           n->draining ? hsp_ci_printf(c, ", or undrain %s", n->name) : "");
    }
}

static void move(struct hsp_cluster *c, struct hsp_job *j, hsp_device_id first)
{
    hsp_device_id *dev;
    uint32_t n = hsp_ci_available(c, j, &dev);
    if (j->have_result && hsp_ci_all_in(j->result.device, j->result.n_ranks, dev, n)) {
        hsp_ci_attempt(c, j, hsp_ci_adopt_result(c, j), HSP_MODE_SWITCH, j->cur.plan, 0);
        return;
    }
    hsp_ci_cancel_plan(c, j);
    hsp_str_printf(j->cause, sizeof(j->cause), "%s", hsp_ci_leave_cause(c, first));
    if (!is_rank(j, first)) {
        j->detect_ms = j->planned_ms = c->now_ms;
        uint64_t plan = hsp_ci_with_keepers(c, j, j->cur.plan);
        hsp_ci_attempt(c, j, plan, HSP_MODE_SWITCH, j->cur.plan, 0);
    } else if (n == 0) {
        hsp_ci_finishing_stays(
            c, j, hsp_ci_printf(c, "no other device can be had%s", hsp_ci_data_why(c, j)));
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
        move(c, j, leaver(c, j));
    }
}
