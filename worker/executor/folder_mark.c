#include "worker/executor/folder_mark.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/executor/disk_retry.h"
#include "worker/executor/epoch_report.h"
#include "worker/state/ckpt_sign.h"

void hsp_epoch_ckpt_dir(const struct hsp_ex_epoch *e, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s", e->p->checkpoint_path, e->p->job_name);
}

/* A member that joins a job with a shared folder does not make the folder: if the folder is
 * missing, the path is not mounted. A folder with a mark below the mount point would say, whenever
 * the mount is missing, that the job has no checkpoints. For the same reason the member that has
 * made the folder does not make it again. If each node has its own folder, a joining node has no
 * mark yet, so each member makes its folder. */
bool hsp_epoch_marks_folder(const struct hsp_ex_epoch *e)
{
    bool begins = e->p->mode == HSP_MODE_FRESH && e->p->rank == 0 && !atomic_load(&e->marked);
    return e->member && e->p->checkpoint_path[0] != '\0' && (begins || !e->p->checkpoint_shared);
}

struct mark {
    char dir[PATH_MAX];
    struct hsp_ckpt_info us;
    bool shared;
};

static enum hsp_status do_mark(void *ctx, struct hsp_err *err)
{
    const struct mark *m = ctx;
    return hsp_ckpt_sign(m->dir, &m->us, m->shared, err);
}

static enum hsp_status mark(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct mark *m = calloc(1, sizeof *m);
    struct hsp_disk_thread *disk = NULL;
    const struct hsp_disk_wait wait = {.ms = HSP_MARK_MS, .over = hsp_epoch_is_over, .of = e};
    if (m == NULL) {
        return hsp_err_nomem(err, "a mark");
    }
    hsp_epoch_ckpt_dir(e, m->dir);
    m->us = (struct hsp_ckpt_info){.job_id = e->p->job, .whose.cluster = e->p->ckpt_cluster};
    m->shared = e->p->checkpoint_shared;
    enum hsp_status st = hsp_disk_open(&e->env->disks, e->p->checkpoint_path, m, free, &disk, err);
    if (st != HSP_OK) {
        free(m);
        return st;
    }
    st = hsp_disk_do(disk, do_mark, &wait, err);
    (void)hsp_disk_end(disk, &wait);
    return st;
}

/* Reports a failed mark if the job begins with this epoch, so that a missing mount is known before
 * the first checkpoint. */
static void tell_begin(struct hsp_ex_epoch *e, struct hsp_err *why)
{
    if (e->p->mode != HSP_MODE_FRESH || e->p->rank != 0) {
        return;
    }
    (void)hsp_err_wrap(why, "%s", e->pkg.peers[0].name);
    hsp_disk_explain(why);
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINTED,
                        .epoch = e->number,
                        .u.ckpt = {.job = e->p->job, .term = e->pkg.term, .reason = why->msg}};
    hsp_epoch_send_msg(e, &m);
}

void hsp_epoch_mark_folder(struct hsp_ex_epoch *e)
{
    struct hsp_err err = {0};
    bool marks = hsp_epoch_marks_folder(e);
    enum hsp_status st = marks ? mark(e, &err) : HSP_OK;
    if (st == HSP_OK) {
        atomic_store(&e->marked, marks);
        return;
    }
    hsp_log(e->env->log, HSP_LOG_WARN, "executor",
            st == HSP_ETIMEDOUT
                ? "checkpoint.path of job %u does not answer here: %s: training continues, and its "
                  "checkpoints wait until there is an answer; is its file server up?"
                : "checkpoint.path of job %u cannot be used here: %s",
            e->p->job, err.msg);
    if (st != HSP_ETIMEDOUT) { /* the mark may still succeed; the first checkpoint will show that */
        tell_begin(e, &err);
    }
}
