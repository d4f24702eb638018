#include "daemon/cluster/attempt_end.h"

#include "daemon/cluster/ckpt_marks.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/epoch_peers.h"
#include "daemon/cluster/index.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/marks.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/past_epochs.h"
#include "daemon/cluster/plan_requests.h"
#include "daemon/cluster/recover.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/slow.h"

#define FIRST_MS     1000u /* the pause after the second switch in a row that came to nothing */
#define MAX_DOUBLING 6u    /* 64 s */

enum over { FAILED, REFUSED, NOT_NEEDED };

void hsp_ci_promote(struct hsp_cluster *c, struct hsp_job *j)
{
    enum hsp_epoch_mode mode = j->att.mode;
    if (mode == HSP_MODE_SWITCH && j->unwritten == j->cur.epoch) {
        j->problem[0] = '\0'; /* the trouble is of a node that tries no more */
    }
    hsp_ci_switches_anew(j);
    hsp_ci_epoch_over(j, &j->cur);
    hsp_ci_epoch_fini(&j->over);
    j->cur = j->att;
    j->att = (struct hsp_cl_epoch){0};
    j->cur.phase = HSP_ATT_NONE;
    j->cur.settled = false;
    j->passed = j->cur.step;
    j->cur.trace.started_ms = c->now_ms;
    hsp_ci_ckpt_began(j);
    j->lost_from = mode == HSP_MODE_SWITCH ? j->cur.step : j->lost_from;
    if (j->suspend_from > j->cur.step) {
        /* the steps behind are lost: the next checkpoint is of this step */
        j->suspend_from = j->cur.step;
    }
    j->suspend_unheard = false;
    hsp_ci_watch_begin(c, j);
    j->n_held = 0; /* the pieces are used up; SEALED lists those of the next time */
    j->reached = 0;
    j->state_deadline_ms = 0;
    hsp_ci_ckpt_try_anew(j);
    hsp_ci_disk_forget(j);
    j->reason[0] = '\0';
    hsp_ci_job_move(c, j, HSP_JOB_RUNNING);
    hsp_ci_store_job(c, j);
    for (uint32_t i = 0; i < j->n_leases; i++) { /* a former source may be none now */
        hsp_ci_node_dirty(c, hsp_ci_node(c, j->leases[i]));
    }
}

/* Of a job that has begun, and whose state was given up since, @d may still have layouts. */
static void give_back(struct hsp_cluster *c, const struct hsp_job *j, hsp_device_id d)
{
    const struct hsp_cluster_node *n = hsp_ci_node(c, d);
    struct hsp_msg m = {.type = HSP_MSG_RELEASE,
                        .u.release = {.job = j->id,
                                      .device = HSP_DEVICE_INDEX(d),
                                      .keep_plan = j->n_plans > 0 ? j->plans[0].plan : j->next_plan,
                                      .known = j->next_epoch - 1}};
    if (j->cur.epoch == 0 && n->conn != 0 && hsp_ci_any_ran(j)) {
        hsp_ci_send(c, n->conn, &m);
    }
}

void hsp_ci_free_leases(struct hsp_cluster *c, struct hsp_job *j)
{
    /* backwards: a lease that is given up leaves the list */
    for (uint32_t k = j->n_leases; k-- > 0;) {
        hsp_device_id d = j->leases[k];
        if (hsp_ci_device(c, d)->ask != HSP_ASK_NONE) {
            continue;
        }
        bool needed = hsp_ci_peer(&j->att, d) != NULL ||
                      (j->cur.epoch != 0 && hsp_ci_peer(&j->cur, d) != NULL);
        for (uint32_t i = 0; !needed && i < j->n_held; i++) {
            const struct hsp_job_plan *p = hsp_ci_plan(j, j->held[i].plan);
            needed = j->held[i].device == d && p != NULL && p->started;
        }
        if (!needed) {
            hsp_ci_lease(c, d, 0);
            give_back(c, j, d);
        }
    }
}

/* A switch failed or was refused. The job trains on, so its steps say nothing about the next one.
 * The first may have met a node that just died. */
static void switch_in_vain(struct hsp_cluster *c, struct hsp_job *j)
{
    uint32_t k = j->vain++;
    if (k > 0) {
        k = k - 1 < MAX_DOUBLING ? k - 1 : MAX_DOUBLING;
        j->switch_retry_ms = c->now_ms + ((hsp_msec)FIRST_MS << k);
    }
}

static void attempt_over(struct hsp_cluster *c, struct hsp_job *j, const char *why, enum over how)
{
    struct hsp_cl_epoch *e = &j->att;
    uint64_t plan = e->plan;
    for (uint32_t i = 0; i < e->n_peers; i++) {
        if (e->peers[i].prepare_sent) {
            struct hsp_msg m = {.type = HSP_MSG_DROP,
                                .epoch = e->epoch,
                                .u.devref = {j->id, HSP_DEVICE_INDEX(e->peers[i].device)}};
            hsp_ci_send(c, hsp_ci_node(c, e->peers[i].device)->conn, &m);
        }
    }
    struct hsp_fact *f =
        hsp_ci_fact(c, "switch.aborted", how == NOT_NEEDED ? HSP_SEV_INFO : HSP_SEV_WARN, j, NULL,
                    "epoch %llu: %s", (unsigned long long)e->epoch, why);
    if (f != NULL) {
        f->epoch = e->epoch;
    }
    bool was_switch = j->state == HSP_JOB_SWITCHING;
    hsp_ci_epoch_over(j, e);
    hsp_ci_disk_forget(j); /* a node that said hello meanwhile may have a newer checkpoint */
    const struct hsp_job_plan *p = hsp_ci_plan(j, plan);
    if (p != NULL && !p->started) {
        hsp_ci_drop_plan(c, j, plan);
    }
    hsp_ci_free_leases(c, j);
    j->asked_valid = false;
    if (was_switch) {
        hsp_ci_job_move(c, j, HSP_JOB_RUNNING);
        j->retune = true;
        if (how != NOT_NEEDED) {
            switch_in_vain(c, j);
        }
    } else if (j->state == HSP_JOB_STARTING) {
        hsp_ci_job_move(c, j, HSP_JOB_PENDING);
    }
    j->over_counts = how == FAILED && !was_switch;
    if (j->over_counts) {
        hsp_ci_job_failure(c, j, why);
    }
    if (!hsp_job_terminal(j->state) && how != NOT_NEEDED) {
        if (j->state == HSP_JOB_FINISHING) {
            hsp_ci_finishing_stays(c, j, why);
        } else {
            hsp_ci_job_blocked(c, j, "%s", why);
        }
        hsp_ci_store_job(c, j);
    }
}

void hsp_ci_attempt_fail(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    attempt_over(c, j, why, FAILED);
}

void hsp_ci_attempt_refused(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    attempt_over(c, j, why, REFUSED);
}

void hsp_ci_attempt_drop(struct hsp_cluster *c, struct hsp_job *j, const char *why)
{
    attempt_over(c, j, why, NOT_NEEDED);
}
