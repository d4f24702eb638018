#include "worker/executor/epoch_live.h"

#include <inttypes.h>

#include "worker/executor/epoch_replicate.h"

/* Returns true if the epoch ended by a lost or ended peer, or by SEAL, and without an error
 * here. */
static bool by_loss(struct hsp_ex_epoch *e, enum hsp_status st)
{
    (void)pthread_mutex_lock(&e->lock);
    enum hsp_status replication = e->uncopied.code;
    bool well =
        e->unsealed.code == HSP_OK && (replication == HSP_OK || replication == HSP_ECANCELED);
    (void)pthread_mutex_unlock(&e->lock);
    return well && (st == HSP_EPEER || st == HSP_ECANCELED) && !hsp_epoch_is_stopped(e);
}

/* Sets `sealing`, so that no other thread seals. Returns false if there is no version to seal, or
 * sealing is not safe. */
static bool begin(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    const uint64_t version = e->written, due = e->due.newest;
    /* The due version itself goes into the segment into which the replication thread, which ends at
     * a loss, would have sealed it. */
    bool pending = e->due.pending && !e->due.all && version != due;
    bool whole = e->voted && version == e->passed + 1; /* no update is under way */
    bool may = !e->due.all && !pending && !e->sealing && whole && version > e->sealed;
    e->sealing = e->sealing || may;
    (void)pthread_mutex_unlock(&e->lock);
    if (pending && version > due) {
        hsp_log(e->env->log, HSP_LOG_INFO, "executor",
                "epoch %" PRIu64 " of job %u has ended at version %" PRIu64
                ", which is not sealed: version %" PRIu64 " is not known to be stable",
                e->number, e->p->job, version, due);
    }
    return may;
}

/* A due version that is sealed here is not sealed again by the replication thread, which may be
 * about to. */
static void end(struct hsp_ex_epoch *e, uint64_t version, bool sealed)
{
    (void)pthread_mutex_lock(&e->lock);
    e->sealed = sealed && version == e->due.newest ? version : e->sealed;
    e->sealing = false;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
}

void hsp_epoch_live_seal(struct hsp_ex_epoch *e, enum hsp_status st)
{
    struct hsp_err err = {0};
    if (!e->p->live || !e->member || e->engine == NULL || !hsp_engine_is_lone(e->engine) ||
        !by_loss(e, st) || !begin(e)) {
        return;
    }
    const uint64_t version = e->written, before = e->sealed;
    e->seals_live = true;
    int64_t from = hsp_clock_ns();
    st = hsp_epoch_seal_version(e, version, before, &err);
    end(e, version, st == HSP_OK);
    if (st == HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_INFO, "executor",
                "epoch %" PRIu64 " of job %u has ended at version %" PRIu64 ", which is sealed "
                "(%.3f ms)",
                e->number, e->p->job, version, (double)(hsp_clock_ns() - from) * 1e-6);
    } else if (st != HSP_ECANCELED) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor",
                "epoch %" PRIu64 " of job %u has ended at version %" PRIu64
                ", which cannot be sealed: %s; the job goes back to version %" PRIu64,
                e->number, e->p->job, version, err.msg, before);
    }
}
