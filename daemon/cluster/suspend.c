#include "daemon/cluster/suspend.h"

#include <stdio.h>

#include "daemon/cluster/cluster.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/lookup.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/rows.h"
#include "proto/base/str.h"
#include "proto/op/op.h"

void hsp_ci_suspend_origin(struct hsp_job *j)
{
    j->origin = j->has_ckpt ? HSP_MODE_RESTORE : HSP_MODE_FRESH;
    j->origin_step = j->has_ckpt ? j->ckpt_step : 0;
    j->origin_ckpt = j->has_ckpt ? j->ckpt : (struct hsp_ckpt_mark){0};
    j->stable = j->origin_step;
}

static void answer(struct hsp_cluster *c, const struct hsp_admin_event *a, const struct hsp_job *j,
                   enum hsp_status st, const char *text)
{
    struct hsp_action *r = hsp_ci_emit(c, HSP_ACT_REPLY);
    r->request = a->request;
    r->status = st;
    r->job = j->id;
    r->text = hsp_ci_printf(c, "%s", text);
}

/* No state of @j exists but that of its origin. */
static bool not_begun(const struct hsp_job *j)
{
    return j->state == HSP_JOB_PENDING ||
           (j->state == HSP_JOB_STARTING && j->att.phase != HSP_ATT_GO);
}

static const char *resumes_with(struct hsp_cluster *c, const struct hsp_job *j)
{
    return j->has_ckpt ? hsp_ci_printf(c, "at step %llu; resume continues it",
                                       (unsigned long long)j->origin_step)
                       : "before its first step; resume starts it";
}

static void suspended(struct hsp_cluster *c, struct hsp_job *j)
{
    hsp_ci_suspend_origin(j);
    hsp_ci_job_end(c, j, HSP_JOB_SUSPENDED, resumes_with(c, j));
}

/* Why @j cannot be suspended; NULL: it can. */
static const char *refusal(struct hsp_cluster *c, const struct hsp_job *j)
{
    if (j->state == HSP_JOB_SUSPENDED) {
        return hsp_ci_printf(c, "job %s is suspended already", j->name);
    }
    if (j->suspending) {
        return hsp_ci_printf(c, "job %s is being suspended already", j->name);
    }
    if (hsp_job_terminal(j->state) || j->state == HSP_JOB_FINISHING || j->state == HSP_JOB_BEHIND) {
        return hsp_ci_printf(c, "job %s is %s: there is nothing to suspend", j->name,
                             hsp_job_state_name(j->state));
    }
    return !not_begun(j) && j->checkpoint_path[0] == '\0'
               ? hsp_ci_printf(c, "job %s has no checkpoint.path to store its state in", j->name)
               : NULL;
}

/* Sets which checkpoint is wanted: that of the newest version that is known, or a later one. */
static void ask(struct hsp_cluster *c, struct hsp_job *j)
{
    j->suspend_from = j->passed > j->stable ? j->passed : j->stable;
    j->suspend_epoch = 0;
    j->suspend_unheard = j->cur.n_ranks > 0 && hsp_ci_node(c, j->cur.peers[0].device)->conn == 0;
}

void hsp_ci_suspend(struct hsp_cluster *c, const struct hsp_admin_event *a, struct hsp_job *j)
{
    const char *no = refusal(c, j);
    if (no != NULL) {
        answer(c, a, j, HSP_ESTATE, no);
        return;
    }
    struct hsp_fact *f = hsp_ci_fact(c, "admin.suspend", HSP_SEV_NOTICE, j, NULL, "%s", j->name);
    if (f != NULL && a->actor != NULL) {
        f->actor = hsp_ci_printf(c, "%s", a->actor);
    }
    if (not_begun(j)) {
        suspended(c, j);
    } else {
        j->suspending = true;
        ask(c, j);
        hsp_ci_store_job(c, j);
    }
    answer(c, a, j, HSP_OK, "");
}

void hsp_ci_checkpoint(struct hsp_cluster *c, struct hsp_job *j)
{
    j->ckpt_asked = true;
    if (j->suspending) {
        j->suspend_epoch = 0; /* the checkpoint that was asked for before is still good enough */
    } else {
        ask(c, j);
    }
    hsp_ci_store_job(c, j);
    hsp_ci_suspend_advance(c, j);
}

void hsp_ci_suspend_advance(struct hsp_cluster *c, struct hsp_job *j)
{
    bool runs = j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING;
    bool wanted = j->suspending || j->ckpt_asked;
    if (!wanted || !runs || j->suspend_epoch == j->cur.epoch) {
        return;
    }
    hsp_device_id first = j->cur.peers[0].device;
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINT,
                        .epoch = j->cur.epoch,
                        .u.devref = {j->id, HSP_DEVICE_INDEX(first)}};
    if (hsp_ci_node(c, first)->conn != 0) {
        hsp_ci_send(c, hsp_ci_node(c, first)->conn, &m);
        j->suspend_epoch = j->cur.epoch;
    }
}

void hsp_ci_suspend_recorded(struct hsp_cluster *c, struct hsp_job *j, uint64_t before)
{
    bool newest = j->origin_step >= before; /* else an older one was asked for */
    if (j->state == HSP_JOB_SUSPENDED || (j->state == HSP_JOB_PENDING && newest)) {
        hsp_ci_suspend_origin(j);
    }
    if (j->state == HSP_JOB_SUSPENDED) {
        (void)snprintf(j->reason, sizeof(j->reason), "%s", resumes_with(c, j));
    }
}

void hsp_ci_suspend_checkpointed(struct hsp_cluster *c, struct hsp_job *j, uint64_t epoch,
                                 const struct hsp_m_ckpt *k)
{
    bool runs = j->state == HSP_JOB_RUNNING || j->state == HSP_JOB_SWITCHING;
    bool before =
        k->step < j->suspend_from || j->suspend_unheard; /* its newest is said again at a hello */
    if (!runs || (k->complete && before)) {
        return; /* one that was begun before */
    }
    if (!k->complete && epoch != j->cur.epoch) {
        return;
    }
    bool asked = j->ckpt_asked;
    j->ckpt_asked = false;
    if (!j->suspending) {
        if (asked) {
            hsp_ci_store_job(c, j);
        }
        return;
    }
    if (k->complete) {
        suspended(c, j);
        return;
    }
    j->suspending = false;
    hsp_str_tell(j->reason, sizeof(j->reason), "not suspended, its checkpoint failed: %s",
                 k->reason);
    hsp_ci_fact(c, "job.unsuspended", HSP_SEV_WARN, j, NULL, "it continues: %s", j->reason);
    hsp_ci_store_job(c, j);
}
