#include "daemon/cluster/kept_state.h"

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/live_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/node_loss.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/parked.h"
#include "daemon/cluster/plan_info.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/rows.h"

static void begin_sealing(struct hsp_cluster *c, struct hsp_job *j)
{
    j->seal_upto = j->next_epoch - 1;
    hsp_ci_job_dirty(c, j);
}

void hsp_ci_seal_leases(struct hsp_cluster *c, struct hsp_job *j)
{
    begin_sealing(c, j);
    for (uint32_t i = 0; i < j->n_leases; i++) {
        hsp_ci_ask(c, j->leases[i], HSP_ASK_NONE);
        hsp_ci_mark(c, j, HSP_DEVICE_NODE(j->leases[i]))->seal = 1;
    }
}

bool hsp_ci_seal_marked(struct hsp_cluster *c, struct hsp_job *j)
{
    bool open = false;
    for (uint32_t i = 0; i < j->n_marks; i++) {
        struct hsp_job_mark *k = &j->marks[i];
        const struct hsp_cluster_node *n = &c->nodes[k->node];
        if ((k->seal == 1 || k->seal == 3) && n->conn != 0) {
            const uint32_t more_ms = hsp_ci_seal_more_ms(j, k->node);
            struct hsp_msg m = {.type = HSP_MSG_SEAL,
                                .epoch = j->seal_upto,
                                .u.jobref = {.job = j->id, .more_ms = more_ms}};
            hsp_ci_send(c, n->conn, &m);
            k->seal_by_ms = k->seal == 1 ? c->now_ms + c->cfg.seal_ms + more_ms : k->seal_by_ms;
            k->seal = 2;
            hsp_ci_answer_by(c, k->seal_by_ms);
        }
        open = open || k->seal != 0;
    }
    return open;
}

void hsp_ci_seal_late(struct hsp_cluster *c, struct hsp_job *j)
{
    bool seals = j->state == HSP_JOB_SEALING || j->state == HSP_JOB_FAILED;
    for (uint32_t i = 0; seals && i < j->n_marks; i++) {
        const struct hsp_job_mark *k = &j->marks[i];
        struct hsp_cluster_node *n = &c->nodes[k->node];
        if (k->seal != 2 || n->conn == 0) {
            continue;
        }
        if (c->now_ms < k->seal_by_ms) {
            hsp_ci_answer_by(c, k->seal_by_ms);
            continue;
        }
        hsp_ci_node_dead(
            c, n, /* makes no marks of a job that seals */
            hsp_ci_printf(
                c,
                "did not stop job %s within %u ms; its agent joins again by itself, or see its log",
                j->name, c->cfg.seal_ms + hsp_ci_seal_more_ms(j, k->node)));
        hsp_ci_job_dirty(c, j);
    }
}

void hsp_ci_replica_holder_sealed(struct hsp_cluster *c, struct hsp_job *j,
                                  struct hsp_cluster_node *n)
{
    uint32_t at = hsp_ci_index_of(c, n);
    /* backwards: a lease that is given up leaves the list */
    for (uint32_t i = j->n_leases; i-- > 0;) {
        if (HSP_DEVICE_NODE(j->leases[i]) == at) {
            hsp_ci_lease(c, j->leases[i], 0);
        }
    }
    hsp_ci_store_leases(c, j);
    hsp_ci_node_dirty(c, n);
    hsp_ci_jobs_dirty(c);
}

void hsp_ci_resume_kept(struct hsp_cluster *c, struct hsp_job *j)
{
    begin_sealing(c, j);
    j->n_held = 0;
    j->lost_from = j->lost_from > j->stable ? j->lost_from : j->stable;
    j->state_deadline_ms = 0;
    j->sealed_ms = j->planned_ms = 0;
    for (uint32_t i = 0; i < j->n_plans; i++) {
        const struct hsp_plan_info *p = &j->plans[i].info;
        for (uint32_t k = 0; k < p->n_ranks + p->n_replica_holders; k++) {
            uint32_t node = HSP_DEVICE_NODE(hsp_ci_holder(p, k));
            if (c->nodes[node].conn != 0) { /* others tell it when they say hello */
                hsp_ci_mark(c, j, node)->seal = 1;
            }
        }
    }
    hsp_ci_job_move(c, j, HSP_JOB_SEALING);
}

void hsp_ci_give_up_state(struct hsp_cluster *c, struct hsp_job *j)
{
    for (uint32_t i = 0; i < j->n_marks; i++) {
        j->marks[i].seal = 0;
    }
    for (uint32_t i = 0; i < j->n_leases; i++) {
        hsp_ci_ask(c, j->leases[i], HSP_ASK_STOP);
    }
    hsp_ci_store_job(c, j);
    hsp_ci_judge_job(c, j->id);
    while (j->n_plans > 0) {
        hsp_ci_tell_holders(c, j, &j->plans[0]);
        hsp_ci_drop_plan(c, j, j->plans[0].plan);
    }
}
