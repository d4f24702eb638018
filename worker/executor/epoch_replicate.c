/* A replica holder computes nothing, so its run thread does the work of a replication thread.
 *
 * Every rank works in the same order: first the checkpoint of version t, whose vote has passed,
 * then the copies of version t + 1, which is sealed after that vote. So all ranks use the state
 * mesh in the same order. A vote waits for the copies of its version, and these wait for the
 * checkpoint. So the segment of a checkpoint is not overwritten before the checkpoint is read.
 */
#include "worker/executor/epoch_replicate.h"

#include <inttypes.h>

#include "worker/executor/audit.h"
#include "worker/executor/disk_retry.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_checkpoint.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/epoch_copies.h"
#include "worker/executor/epoch_damage.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_trace.h"
#include "worker/executor/epoch_transfer.h"
#include "worker/executor/replica_check.h"
#include "worker/executor/kill_point.h"
#include "worker/executor/step_share.h"

static void note_work(struct hsp_ex_epoch *e, enum hsp_replication_work w)
{
    e->at.work = w;
    e->at.work_ns = hsp_clock_ns();
}

/* Returns true if the newest due version is written and not sealed. The caller has locked the
 * epoch. */
static bool to_seal(const struct hsp_ex_epoch *e)
{
    return e->due.newest > e->sealed && e->written == e->due.newest;
}

/* Returns true if rank 0 has to send steps to its replica holders: many steps are not sent yet, or
 * the first steps of the epoch. From the first steps a holder learns that this epoch has voted, and
 * then closes the previous epoch. The caller has locked the epoch. */
static bool tells(const struct hsp_ex_epoch *e)
{
    uint32_t n = (uint32_t)e->said.n_untold;
    return n >= HSP_EPOCH_SAID / 2 || (n > 0 && n == e->said.n);
}

/* Waits for the next work. *ret_version: the version of the work. */
static enum hsp_replication_work next_work(struct hsp_ex_epoch *e, uint64_t next_copy,
                                           uint64_t *ret_version, bool *ret_asked)
{
    enum hsp_replication_work w = HSP_KEEPER_END;
    (void)pthread_mutex_lock(&e->lock);
    for (;;) {
        if (e->cancelled || e->lost || e->phase == HSP_EPOCH_FAILED) {
            break;
        }
        if (e->fetch != NULL) {
            w = HSP_REPLICATION_FETCH;
            *ret_version = e->sealed;
            break;
        }
        if (to_seal(e) && e->phase != HSP_EPOCH_LEFT) {
            w = HSP_REPLICATION_SEAL;
            break;
        }
        if (e->checkpoint_at != HSP_NO_VERSION) {
            w = HSP_REPLICATION_CHECKPOINT;
            *ret_version = e->checkpoint_at;
            *ret_asked = e->checkpoint_asked;
            e->checkpoint_at = HSP_NO_VERSION;
            break;
        }
        if (e->sealed >= next_copy && e->phase != HSP_EPOCH_LEFT) {
            w = HSP_KEEPER_COPY;
            *ret_version = e->sealed;
            break;
        }
        if (e->no_more_versions || e->phase == HSP_EPOCH_LEFT) {
            break;
        }
        if (tells(e)) {
            w = HSP_REPLICATION_TELL;
            break;
        }
        note_work(e, HSP_KEEPER_IDLE);
        (void)pthread_cond_wait(&e->cond, &e->lock);
    }
    note_work(e, w);
    (void)pthread_mutex_unlock(&e->lock);
    return w;
}

enum hsp_status hsp_epoch_check_update(struct hsp_ex_epoch *e, uint64_t version,
                                       struct hsp_err *err)
{
    uint32_t row = hsp_epoch_device_changed(e, version);
    if (row == UINT32_MAX) {
        return HSP_OK;
    }
    /* No replica of the next version is right for certain: all were made with the same gradients,
     * which may come from the damaged state. */
    hsp_epoch_tell_given_up(e, version + 1, "made of state that was damaged");
    struct hsp_state_segment *s = hsp_epoch_home(e, version);
    const bool sealed = hsp_segment_version(s) == version;
    (void)pthread_mutex_lock(&e->lock);
    const bool saved = e->saved == version; /* the replication thread may be sealing @version */
    (void)pthread_mutex_unlock(&e->lock);
    bool fits = sealed ? hsp_segment_row_fits(s, row) : saved;
    enum hsp_status st = sealed ? hsp_epoch_disown_read(e, s, row, err)
                                : hsp_epoch_disown_unsealed(e, s, row, version, true, err);
    if (fits && hsp_epoch_device_unlike(e, version) != UINT32_MAX) { /* its copies, too */
        hsp_epoch_tell_given_up(e, version, "sealed when it was damaged");
        if (sealed) {
            hsp_segment_unseal(s);
        }
    }
    return st;
}

/* Called before @next is sealed: checks @version, the newest sealed version, and then version @next
 * - 1, from which the update computed @next. If @version is no longer sealed, damage of @version
 * was found meanwhile, for example by a checkpoint. */
static enum hsp_status check_read(struct hsp_ex_epoch *e, uint64_t version, uint64_t next,
                                  struct hsp_err *err)
{
    if (hsp_segment_version(hsp_epoch_home(e, version)) != version) {
        return hsp_err_set(err, HSP_EDIGEST, 0, "version %" PRIu64 " here is damaged", version);
    }
    return hsp_epoch_check_update(e, next - 1, err);
}

/* Copies the hashes that the device made of @version when it was written, to compare them with the
 * seal: the engine overwrites its hashes soon. *ret: the hashes; NULL: none were made, and the
 * segment was compared with the sums of the update instead. Returns HSP_EDIGEST if the segment
 * differs from these sums.
 *
 * After a no-op step, which writes nothing, the hashes are made of a version that was in memory for
 * a whole step. So its segment is also compared with the sums of the last update. If this epoch has
 * made no update yet, the hashes are taken from the seal of the version with which the epoch
 * began. */
static enum hsp_status keep_hashes(struct hsp_ex_epoch *e, uint64_t version, const uint64_t **ret,
                                   struct hsp_err *err)
{
    (void)pthread_mutex_lock(&e->lock);
    const struct hsp_written w = e->dev.newest;
    (void)pthread_mutex_unlock(&e->lock);
    const struct hsp_state_segment *s = w.loaded ? hsp_epoch_device_loaded(e, version - 1) : NULL;
    uint32_t row = UINT32_MAX;
    *ret = s != NULL || w.hash != NULL ? e->dev.wrote : NULL;
    for (uint32_t i = 0; *ret != NULL && i < e->prog.bind.n_state; i++) {
        e->dev.wrote[i] = s != NULL ? hsp_segment_row_hash(s, i) : w.hash[i];
    }
    if (w.noop || w.hash == NULL) {
        row = hsp_epoch_device_unlike(e, version);
    }
    return row == UINT32_MAX
               ? HSP_OK
               : hsp_epoch_disown_unsealed(e, hsp_epoch_home(e, version), row, version, false, err);
}

/* Stores that @version is copied from the device to its segment, and wakes await_version: the next
 * update may overwrite @version on the device. */
static void note_saved(struct hsp_ex_epoch *e, uint64_t version)
{
    (void)pthread_mutex_lock(&e->lock);
    e->saved = version;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
}

enum hsp_status hsp_epoch_seal_version(struct hsp_ex_epoch *e, uint64_t version, uint64_t before,
                                       struct hsp_err *err)
{
    int64_t begin = hsp_clock_ns();
    hsp_kill_point(e, HSP_KILL_SEAL_BEFORE, version);
    enum hsp_status st = hsp_epoch_device_save(e, version, err);
    int64_t copied = hsp_clock_ns();
    st = st == HSP_OK ? check_read(e, before, version, err) : st;
    hsp_kill_point(e, HSP_KILL_SEAL_IN, version);
    const uint64_t *wrote = NULL;
    st = st == HSP_OK ? keep_hashes(e, version, &wrote, err) : st;
    if (st == HSP_OK) {
        note_saved(e, version);
        st = hsp_replica_check_seal(e, version, wrote, err);
    }
    hsp_kill_point(e, HSP_KILL_SEAL_AFTER, version);
    e->seals.n++;
    e->seals.copy_ns += copied - begin;
    e->seals.seal_ns += hsp_clock_ns() - copied;
    return st;
}

enum hsp_status hsp_epoch_seal_written(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    (void)pthread_mutex_lock(&e->lock);
    while (e->sealing) {
        (void)pthread_cond_wait(&e->cond, &e->lock);
    }
    struct hsp_err why = e->unsealed;
    uint64_t version = e->due.newest, before = e->sealed;
    bool todo = why.code == HSP_OK && to_seal(e);
    e->sealing = todo;
    (void)pthread_mutex_unlock(&e->lock);
    if (todo) {
        why.code = hsp_epoch_seal_version(e, version, before, &why);
        (void)pthread_mutex_lock(&e->lock);
        e->sealed = why.code == HSP_OK ? version : e->sealed;
        e->unsealed = why;
        e->sealing = false;
        (void)pthread_cond_broadcast(&e->cond);
        (void)pthread_mutex_unlock(&e->lock);
    }
    if (why.code != HSP_OK && err != NULL) {
        *err = why;
    }
    return why.code;
}

static void confirm(struct hsp_ex_epoch *e, uint64_t version)
{
    (void)pthread_mutex_lock(&e->lock);
    e->confirmed = version;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
}

static bool has_come(uint64_t newest, uint64_t version)
{
    return newest != HSP_NO_VERSION && newest >= version;
}

/* Waits until *@newest, a field of the epoch, is at least @version. */
static enum hsp_status await_version(struct hsp_ex_epoch *e, const uint64_t *newest,
                                     uint64_t version, struct hsp_err *err)
{
    struct hsp_err why = {0};
    (void)pthread_mutex_lock(&e->lock);
    e->at.awaits_copies = true;
    e->at.awaits_ns = hsp_clock_ns();
    if (newest == &e->confirmed) {
        e->at.hurries = true;
        hsp_epoch_hurry_copies(e);
    }
    while (!e->cancelled && !e->lost && e->uncopied.code == HSP_OK && !has_come(*newest, version)) {
        (void)pthread_cond_wait(&e->cond, &e->lock);
    }
    e->at.awaits_copies = e->at.hurries = false;
    if (e->cancelled || e->lost) {
        (void)hsp_err_set(&why, HSP_ECANCELED, 0, "the epoch has ended");
    } else {
        why = e->uncopied;
    }
    (void)pthread_mutex_unlock(&e->lock);
    if (why.code != HSP_OK && err != NULL) {
        *err = why;
    }
    return why.code;
}

enum hsp_status hsp_epoch_await_confirmed(struct hsp_ex_epoch *e, uint64_t version,
                                          struct hsp_err *err)
{
    return await_version(e, &e->confirmed, version, err);
}

enum hsp_status hsp_epoch_await_saved(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    return await_version(e, &e->saved, version, err);
}

static enum hsp_status checkpoint(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    int64_t t0 = hsp_clock_ns();
    struct hsp_ckpt_sum sum = {0};
    struct hsp_err why = {0};
    enum hsp_status disk, st = hsp_epoch_checkpoint(e, version, &sum, &disk, &why);
    if (st != HSP_OK) {
        *err = why;
        return st;
    }
    if (disk == HSP_ECANCELED || (disk == HSP_ETIMEDOUT && hsp_epoch_is_over(e))) {
        /* the end of the epoch has cut the writing off, on this rank or on a writer: no disk has
         * failed */
        return HSP_OK;
    }
    hsp_disk_explain(disk == HSP_OK ? NULL : &why);
    struct hsp_msg m = {.type = HSP_MSG_CHECKPOINTED,
                        .epoch = e->number,
                        .u.ckpt = {.job = e->p->job,
                                   .step = version,
                                   .term = e->pkg.term,
                                   .complete = disk == HSP_OK,
                                   .content = disk == HSP_OK ? sum.content : 0,
                                   .bytes = sum.bytes,
                                   .seconds = (double)(hsp_clock_ns() - t0) * 1e-9,
                                   .reason = disk == HSP_OK ? "" : why.msg}};
    struct hsp_err lost = {0};
    if (e->p->rank == 0 && hsp_chan_send(e->env->chan, &m, &lost) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "cannot report a checkpoint: %s", lost.msg);
    }
    return HSP_OK; /* a full disk is reported, and the training goes on */
}

/* Fetches the rest of the state at the start, while the run thread computes the first forward pass.
 * The first update, which needs this state, comes after the first vote, and that vote waits for the
 * copies of this version. */
static enum hsp_status fetch(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    enum hsp_status st = hsp_epoch_fetch_rest(e, version, &e->fetched, err);
    if (st == HSP_OK) {
        st = hsp_epoch_device_load(e, version, HSP_EPOCH_REST, err);
    }
    st = st == HSP_OK ? hsp_notes_share(e, err) : st;
    if (st == HSP_OK) {
        hsp_audit_state(e, version, true);
        hsp_epoch_tell_started(e, version);
    }
    return st;
}

/* Stores the error of the replication thread in e->uncopied. The cause of a failed transfer is
 * reported to hspmdd here, before the peers see that the transfer has ended, unless the run thread
 * has ended the transfer. */
static void note_failure(struct hsp_ex_epoch *e, enum hsp_status st, const struct hsp_err *err)
{
    (void)pthread_mutex_lock(&e->lock);
    bool planned = e->cancelled || e->phase == HSP_EPOCH_LEFT;
    bool tell = e->fetch != NULL && e->phase != HSP_EPOCH_FAILED;
    if (st != HSP_EPEER) { /* the mesh stores the lost peer itself */
        e->uncopied = *err;
        e->uncopied.code = st;
    }
    (void)pthread_mutex_unlock(&e->lock);
    if (tell) {
        hsp_epoch_tell_broken(e, st, err, false);
    } else {
        hsp_log(e->env->log, planned ? HSP_LOG_DEBUG : HSP_LOG_INFO, "executor",
                "copies of epoch %" PRIu64 " end: %s", e->number, err->msg);
    }
}

void *hsp_epoch_replication(void *arg)
{
    struct hsp_ex_epoch *e = arg;
    struct hsp_err err = {0};
    uint64_t next_copy, version = 0;
    bool asked = false;
    enum hsp_status st = HSP_OK;
    enum hsp_replication_work w;
    (void)pthread_mutex_lock(&e->lock);
    next_copy = e->sealed;
    (void)pthread_mutex_unlock(&e->lock);
    while (st == HSP_OK && (w = next_work(e, next_copy, &version, &asked)) != HSP_KEEPER_END) {
        int64_t from = hsp_clock_ns();
        if (w == HSP_REPLICATION_CHECKPOINT) {
            st = checkpoint(e, version, &err);
            hsp_epoch_trace_state(e, "checkpoint", from);
            continue;
        }
        if (w == HSP_REPLICATION_SEAL) {
            st = hsp_epoch_seal_written(e, &err);
            hsp_epoch_trace_state(e, "seal", from);
            continue;
        }
        if (w == HSP_REPLICATION_FETCH) {
            st = fetch(e, version, &err);
            continue;
        }
        if (w == HSP_REPLICATION_TELL) {
            st = hsp_epoch_tell_replica_holders(e, &err);
            continue;
        }
        st = hsp_epoch_copy_version(e, version, &err);
        if (st == HSP_OK) {
            hsp_epoch_trace_state(e, "copies", from);
            confirm(e, version);
            next_copy = version + 1;
        }
    }
    if (st != HSP_OK) {
        hsp_epoch_device_check(e->env);
        note_failure(e, st, &err);
        hsp_epoch_abort(e); /* ends the steps, which must not go on without copies */
    }
    if (e->fetch != NULL) { /* the transfer failed, or has not begun before the end of the epoch */
        hsp_epoch_abort(e);
        hsp_epoch_fetch_end(e);
    }
    return NULL;
}

enum hsp_status hsp_epoch_keep(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    bool stop = false;
    for (uint64_t t = version; st == HSP_OK && !stop && t <= e->p->steps; t++) {
        st = hsp_epoch_next_copy(e, &t, err);
        st = st == HSP_OK ? hsp_epoch_copy_version(e, t, err) : st;
        (void)pthread_mutex_lock(&e->lock);
        e->stable = st == HSP_OK ? e->sealed : e->stable; /* a later version is due */
        e->sealed = st == HSP_OK ? t : e->sealed;
        e->voted = e->voted || (st == HSP_OK && t > version); /* vote t - 1 precedes copies of t */
        stop = e->cancelled || e->phase == HSP_EPOCH_LEFT;
        (void)pthread_mutex_unlock(&e->lock);
    }
    (void)pthread_mutex_lock(&e->lock);
    if (stop) {
        st = HSP_OK; /* the end was planned */
    } else if (st == HSP_OK) {
        e->phase = HSP_EPOCH_SERVING;
    }
    (void)pthread_mutex_unlock(&e->lock);
    return st;
}
