#include "daemon/cluster/ckpt_marks.h"

#include <string.h>

#include "daemon/cluster/ckpt_cuts.h"
#include "daemon/cluster/cluster.h"
#include "daemon/cluster/job_state.h"
#include "daemon/cluster/outbox.h"
#include "daemon/cluster/rows.h"
#include "daemon/cluster/standing.h"
#include "proto/base/str.h"

/* Leaves the @keep newest of the older checkpoints on record. */
static void keep_newest(struct hsp_job *j, uint32_t keep)
{
    if (j->n_older > keep) {
        memmove(j->older, j->older + (j->n_older - keep), keep * sizeof(j->older[0]));
        j->n_older = keep;
    }
}

/* Drops the older checkpoints of @step and above: they are not older. */
static void drop_from(struct hsp_job *j, uint64_t step)
{
    while (j->n_older > 0 && j->older[j->n_older - 1].step >= step) {
        j->n_older--;
    }
}

void hsp_ci_ckpt_record(struct hsp_job *j, uint64_t step, const struct hsp_ckpt_mark *mark)
{
    uint32_t keep = j->checkpoint_keep > 0 ? j->checkpoint_keep - 1 : 1; /* 0: not known */
    if (j->has_ckpt && j->ckpt_step < step) {
        keep_newest(j, HSP_OLDER_CKPTS - 1);
        j->older[j->n_older++] = (struct hsp_ckpt_kept){j->ckpt_step, j->ckpt};
    }
    keep_newest(j, keep);
    j->has_ckpt = true;
    j->ckpt_step = step;
    j->ckpt = *mark;
}

void hsp_ci_ckpt_only(struct hsp_job *j, uint64_t step, const struct hsp_ckpt_mark *mark)
{
    drop_from(j, step);
    hsp_ci_ckpt_record(j, step, mark);
}

/* Epoch @epoch begins at the origin, and the checkpoints that the cuts leave out leave the
 * record. */
static void begins(struct hsp_job *j, uint64_t epoch)
{
    uint32_t n = 0;
    j->begun = epoch;
    for (uint32_t i = 0; i < j->n_older; i++) {
        if (hsp_ci_cuts_allow(j, &j->older[i])) {
            j->older[n++] = j->older[i];
        }
    }
    j->n_older = n;
    const struct hsp_ckpt_kept newest = {j->ckpt_step, j->ckpt};
    if (j->has_ckpt && !hsp_ci_cuts_allow(j, &newest)) {
        j->has_ckpt = n > 0;
        j->n_older = n > 0 ? n - 1 : 0;
        j->ckpt_step = n > 0 ? j->older[n - 1].step : 0;
        j->ckpt = n > 0 ? j->older[n - 1].mark : (struct hsp_ckpt_mark){0};
    }
}

void hsp_ci_ckpt_cut(struct hsp_job *j, uint64_t epoch, uint64_t step,
                     const struct hsp_ckpt_mark *mark)
{
    hsp_ci_cuts_add(&j->cuts, epoch, step, mark->epoch);
    begins(j, epoch);
}

void hsp_ci_ckpt_began(struct hsp_job *j)
{
    const struct hsp_ckpt_mark mark = j->origin_ckpt;
    struct hsp_ckpt_cuts cuts;
    if (j->cur.mode == HSP_MODE_RESTORE) {
        hsp_ci_ckpt_only(j, j->origin_step, &mark);
    }
    if (j->cur.mode == HSP_MODE_RESTORE || j->cur.mode == HSP_MODE_FRESH) {
        hsp_ci_cuts_of(j, &j->cur, &cuts);
        j->cuts = cuts;
        begins(j, j->cur.epoch);
    }
}

void hsp_ci_ckpt_begin_at(struct hsp_job *j, uint64_t step, const struct hsp_ckpt_mark *mark)
{
    j->origin = HSP_MODE_RESTORE;
    j->origin_step = step;
    j->origin_ckpt = *mark;
    j->stable = step;
}

void hsp_ci_ckpt_try_anew(struct hsp_job *j)
{
    j->ckpt_deadline_ms = 0;
    j->unseen_told[0] = '\0';
    j->tries = (struct hsp_ckpt_tries){0};
}

struct hsp_digest hsp_ci_ckpt_cluster(const struct hsp_cluster *c, const struct hsp_job *j)
{
    return hsp_cluster_none(j->born) ? c->id : j->born;
}

bool hsp_ci_ckpt_before(const struct hsp_job *j, uint64_t step, uint64_t *ret)
{
    bool newest = j->has_ckpt && j->ckpt_step < step;
    uint32_t n = newest || !j->has_ckpt ? 0 : j->n_older;
    while (n > 0 && j->older[n - 1].step >= step) {
        n--;
    }
    if (newest || n > 0) {
        *ret = newest ? j->ckpt_step : j->older[n - 1].step;
    }
    return newest || n > 0;
}

const char *hsp_ci_ckpt_steps(struct hsp_cluster *c, const struct hsp_job *j)
{
    const char *text = "";
    for (uint32_t i = 0; i < j->n_older; i++) {
        text = hsp_ci_printf(c, "%s%llu, ", text, (unsigned long long)j->older[i].step);
    }
    return j->has_ckpt ? hsp_ci_printf(c, "%s%llu", text, (unsigned long long)j->ckpt_step) : text;
}

void hsp_ci_ckpt_fallback(struct hsp_cluster *c, const struct hsp_job *j, uint64_t from,
                          uint64_t to, const char *why)
{
    const uint64_t again = from - to;
    const char *what =
        again > 0 ? hsp_ci_printf(c, "checkpoint %llu and computes %llu step%s again",
                                  (unsigned long long)to, (unsigned long long)again, hsp_s(again))
                  : "another one of that step";
    struct hsp_fact *f = hsp_ci_fact(c, "ckpt.fallback", HSP_SEV_WARN, j, NULL,
                                     "checkpoint %llu cannot be used: %s; the job resumes from %s",
                                     (unsigned long long)from, why, what);
    if (f != NULL) {
        f->step = to;
        f->lost_steps = again;
    }
}

void hsp_ci_ckpt_give_up(struct hsp_cluster *c, struct hsp_job *j, uint64_t step, const char *why)
{
    hsp_ci_job_end(
        c, j, HSP_JOB_FAILED,
        hsp_ci_printf(c,
                      "checkpoint %llu cannot be used, and there is no older one: %s; put "
                      "it back and resume the job, or submit it again",
                      (unsigned long long)step, why));
}
