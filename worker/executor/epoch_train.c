/* The update of step t - 1 writes version t. If version t is due (due.h), the replication thread
 * seals it and sends its copies. The update of step t overwrites version t on the device, so it
 * waits until version t is copied from the device. Version t is stable when all records of a vote
 * confirm that it is sealed and copied. Only then can another version be due, which is written to
 * the segment of the version before t (decisions D9, D9a).
 */
#include "worker/executor/epoch_train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/program/program_check.h"
#include "worker/executor/audit.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/epoch_export.h"
#include "worker/executor/epoch_nccl.h"
#include "worker/executor/epoch_replicate.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_trace.h"
#include "worker/executor/replica_check.h"
#include "worker/executor/kill_point.h"
#include "worker/executor/step_log.h"
#include "worker/executor/unprotected.h"

#define CHANNEL_FINAL 0x7ffffff0u
#define METRICS_MAX   ((size_t)1 << 31)

/* Waits until the update of @step may overwrite version @step on the device. If due.h demands that,
 * also waits until the copies of the newest due version are confirmed. Only the calling thread
 * makes versions due. */
static enum hsp_status await_due(struct hsp_ex_epoch *e, uint64_t step, struct hsp_err *err)
{
    const uint64_t due = e->due.newest;
    if (hsp_due_waits(&e->due, step)) {
        return hsp_epoch_await_confirmed(e, due, err);
    }
    if (due == step) { /* the sums of its update are compared before */
        return hsp_epoch_await_saved(e, due, err);
    }
    return HSP_OK;
}

/* Returns true if this is rank 0, rank 0 chooses the due versions of this job, and it wants the
 * next version to be due. */
static bool wishes(const struct hsp_ex_epoch *e, uint64_t step)
{
    bool chooses = e->p->rank == 0 && !e->due.all && e->due.every == 0;
    return chooses && !hsp_unprotected((void *)(uintptr_t)e) &&
           hsp_due_distance_reached(&e->distance, step + 1 - e->due.newest);
}

/* Gives the time of a step, @seconds, to the measurement of the distance (due_distance.h). */
static void measure(struct hsp_ex_epoch *e, const struct hsp_vote *v, double seconds)
{
    if (!hsp_unprotected(e)) {
        hsp_due_distance_step(&e->distance, seconds, e->due.pending, v->eval_tokens > 0);
    }
}

/* Gives the news that vote @step has made @version stable to the measurement of the distance, and
 * to the log. */
static void note_stable(struct hsp_ex_epoch *e, uint64_t version, uint64_t step)
{
    hsp_due_distance_stable(&e->distance);
    if (e->p->rank == 0 && !e->due.all && e->due.every == 0) {
        hsp_log(e->env->log, HSP_LOG_DEBUG, "executor",
                "version %" PRIu64 " of job %u is stable since vote %" PRIu64
                ", the next one is due %" PRIu64
                " steps of %.6f s behind it, for it costs at most %.6f s",
                version, e->p->job, step, hsp_due_distance_choose(&e->distance),
                hsp_due_distance_alone(&e->distance), hsp_due_distance_cost(&e->distance));
    }
}

/* Hook of the engine before a vote: fills the vote record @mine when the samples of the step are
 * read. Fails if a data file has changed since PREPARE, so the step gets no vote. */
static enum hsp_status before_vote(void *ctx, struct hsp_vote_record *mine, struct hsp_err *err)
{
    struct hsp_ex_epoch *e = ctx;
    const struct hsp_data_stop stop = {.asked = hsp_epoch_is_over, .ctx = e};
    hsp_data_watch_ask(e->watch);
    enum hsp_status st = await_due(e, mine->step, err);
    if (st == HSP_OK) {
        st = hsp_epoch_device_await(e, err);
    }
    if (st == HSP_OK && mine->step > e->due.first && mine->step != e->due.newest) {
        st = hsp_epoch_check_update(e, mine->step - 1, err);
    }
    if (st == HSP_OK) {
        st = hsp_data_watch_answer(e->watch, &stop, err);
    }
    if (st == HSP_OK) {
        st = hsp_audit_step(e, mine->step, err);
    }
    (void)pthread_mutex_lock(&e->lock);
    const uint64_t due = e->due.newest;
    bool confirmed = e->confirmed == due, pending = e->due.pending;
    mine->armed = e->armed;
    mine->flags = hsp_due_record(&e->due, e->confirmed, &mine->armed) |
                  (e->want_checkpoint ? HSP_VOTE_CHECKPOINT : 0) | hsp_epoch_trace_flags(e);
    e->want_checkpoint = false;
    mine->flags |= wishes(e, mine->step) ? HSP_VOTE_WISH : 0;
    (void)pthread_mutex_unlock(&e->lock);
    mine->state = st == HSP_OK && confirmed && pending ? hsp_replica_check_sum(e, due) : 0;
    hsp_kill_vote(e, mine);
    return st;
}

/* Stores the results of vote @v about due versions (hsp_due_passed). *ret_stable: the version that
 * this vote made stable, or HSP_NO_VERSION. */
static void note_due(struct hsp_ex_epoch *e, const struct hsp_vote *v, const uint32_t *flags,
                     uint32_t n, uint64_t *ret_stable)
{
    (void)pthread_mutex_lock(&e->lock);
    const uint64_t due = e->due.newest;
    struct hsp_due_news news = hsp_due_passed(&e->due, v->step, flags, n, v->armed != 0);
    *ret_stable = news.stable ? due : HSP_NO_VERSION;
    e->stable = news.stable ? due : e->stable;
    e->passed = v->step;
    e->voted = true;
    e->want_checkpoint = e->want_checkpoint || (news.refused && e->p->rank == 0);
    if (news.checkpoint != HSP_DUE_NONE) {
        e->checkpoint_at = news.checkpoint;
        e->checkpoint_asked = news.asked;
    }
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
}

/* Appends the step to the file of notes. If that fails, the training goes on: other ranks note the
 * same step. */
static void note_metrics(struct hsp_ex_epoch *e, const struct hsp_vote *v, double seconds,
                         uint32_t sequence)
{
    struct hsp_err err = {0};
    bool failed = hsp_metrics_note(e, v, seconds, sequence, &err) != HSP_OK;
    if (failed && !e->unnoted) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor",
                "step %" PRIu64 " of job %u is not noted here: %s", v->step, e->p->job, err.msg);
    }
    e->unnoted = failed;
}

static enum hsp_status passed(void *ctx, const struct hsp_vote *v,
                              const struct hsp_vote_record *all, uint32_t n, struct hsp_err *err)
{
    struct hsp_ex_epoch *e = ctx;
    int64_t now = hsp_clock_ns();
    uint64_t stable;
    hsp_kill_point(e, v->armed != 0 ? HSP_KILL_ARM_AFTER : HSP_KILL_VOTE_AFTER, v->step);
    uint32_t *flags = calloc(n, sizeof *flags);
    if (flags == NULL) {
        return hsp_err_nomem(err, "%u votes", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        flags[i] = all[i].flags;
    }
    if (hsp_due_confirmed(&e->due, flags, n) &&
        !hsp_vote_state_agrees(all, n)) { /* replicas differ: this vote has not passed */
        free(flags);
        return hsp_replica_check_settle(e, e->due.newest, err);
    }
    double seconds = (double)(now - e->vote_ns) * 1e-9;
    e->vote_ns = now;
    uint32_t sequence =
        e->pkg.n_shorter > 0 ? hsp_engine_program(e->engine)->bind.data.sequence : 0;
    measure(e, v, seconds);
    note_due(e, v, flags, n, &stable);
    free(flags);
    hsp_epoch_trace_passed(e, v, all[0].flags);
    hsp_epoch_report_step(e, v, all, n, seconds, sequence);
    if (stable != HSP_NO_VERSION) { /* no recovery needs the older version */
        note_stable(e, stable, v->step);
        hsp_segment_unseal(e->seg[1 - hsp_slot_of(&e->slots, e->seg, stable)]);
    }
    note_metrics(e, v, seconds, sequence);
    hsp_kill_point(e, HSP_KILL_UPDATE_BEFORE, v->step);
    return HSP_OK;
}

/* Hook of the engine: has the update make hashes if it writes a due version, because the seal is
 * compared with these hashes; else only sums. */
static enum hsp_state_watch watch(void *ctx)
{
    struct hsp_ex_epoch *e = ctx;
    (void)pthread_mutex_lock(&e->lock);
    bool due = e->due.newest == e->passed + 1;
    (void)pthread_mutex_unlock(&e->lock);
    if (!e->due.all && hsp_unprotected(e)) {
        return HSP_WATCH_NONE;
    }
    return due ? HSP_WATCH_HASHES : HSP_WATCH_SUMS;
}

/* Hook of the engine: stores that a version is written. If that version is due, the replication
 * thread seals it beside the next step, by a pass over the complete state. */
static enum hsp_status sealed(void *ctx, const struct hsp_written *w, struct hsp_err *err)
{
    struct hsp_ex_epoch *e = ctx;
    (void)err;
    hsp_kill_point(e, HSP_KILL_UPDATE_AFTER, w->version);
    (void)pthread_mutex_lock(&e->lock);
    e->dev.newest = *w;
    e->written = w->version;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    return HSP_OK;
}

static enum hsp_status traced(void *ctx, uint32_t instr, uint32_t micro, bool eval,
                              struct hsp_err *err)
{
    (void)micro;
    (void)eval;
    (void)err;
    hsp_audit_instr(ctx, instr);
    hsp_kill_instr(ctx, instr);
    return HSP_OK;
}

/* Logs, once for each job, if this device computes in another element type than the job asks
 * for. */
static void tell_arithmetic(const struct hsp_ex_epoch *e)
{
    const struct hsp_backend *b = e->env->backend;
    bool tf32 = e->prog.bind.hyper.tf32 && !b->tf32, bf16 = !b->bf16 && hsp_program_low(&e->prog);
    if ((tf32 || bf16) && atomic_exchange(e->env->told, e->p->job) != e->p->job) {
        hsp_log(e->env->log, HSP_LOG_INFO, "executor",
                tf32 ? "job %u asks for tf32: device %u has none and computes in fp32"
                     : "job %u asks for bf16: device %u computes in fp32 on numbers stored as bf16",
                e->p->job, e->env->device);
    }
}

static enum hsp_status open_engine(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    bool traces = e->env->audit_dir != NULL || e->env->kill_dir != NULL;
    struct hsp_engine_opts o = {.program = &e->prog,
                                .shorter = e->shorter,
                                .n_shorter = e->pkg.n_shorter,
                                .backend = e->env->backend,
                                .comm = e->mesh[HSP_MESH_DATA],
                                .direct = e->direct,
                                .dataset = &e->data->set,
                                .data_digest = e->data->digest,
                                .state = e->dev.state,
                                .watches = true,
                                .speed = e->env->speed,
                                .n_noop = e->n_noop,
                                .hooks = {.ctx = e,
                                          .before_vote = before_vote,
                                          .passed = passed,
                                          .sealed = sealed,
                                          .ended = hsp_epoch_is_over,
                                          .watch = watch,
                                          .traced = traces ? traced : NULL}};
    struct hsp_engine *engine = NULL;
    tell_arithmetic(e);
    enum hsp_status st = hsp_engine_open(&o, &engine, err);
    (void)pthread_mutex_lock(&e->lock); /* the control thread may be about to abort it */
    e->engine = engine;
    bool stop = e->cancelled || e->lost;
    (void)pthread_mutex_unlock(&e->lock);
    if (st == HSP_OK && stop) {
        return hsp_err_set(err, HSP_ECANCELED, 0, "the epoch has ended");
    }
    return st;
}

/* Compares the replicas of @version, which all ranks have sealed. Called when no further vote of
 * this epoch can compare them. */
static enum hsp_status compare_replicas(struct hsp_ex_epoch *e, uint64_t version,
                                        struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_DATA];
    uint64_t mine = hsp_replica_check_sum(e, version), sum = mine, other = 0;
    enum hsp_status st = HSP_OK;
    for (uint32_t r = 0; st == HSP_OK && r < e->p->n_ranks; r++) {
        if (r != e->p->rank) {
            st = comm->ops->send(comm, r, CHANNEL_FINAL, &mine, sizeof mine, err);
        }
    }
    for (uint32_t r = 0; st == HSP_OK && r < e->p->n_ranks; r++) {
        if (r != e->p->rank) {
            st = comm->ops->recv(comm, r, CHANNEL_FINAL, &other, sizeof other, err);
            sum += other;
        }
    }
    return st == HSP_OK && sum != 0 ? hsp_replica_check_settle(e, version, err) : st;
}

/* Ends the training. No vote follows the last version, so it is stable when its copies are
 * confirmed and its replicas are compared. */
static enum hsp_status finish(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    enum hsp_status st = hsp_epoch_await_confirmed(e, e->p->steps, err);
    st = st == HSP_OK ? compare_replicas(e, e->p->steps, err) : st;
    (void)pthread_mutex_lock(&e->lock);
    e->stable = st == HSP_OK ? e->p->steps : e->stable;
    e->voted = true;
    e->no_more_versions = st == HSP_OK;
    (void)pthread_cond_broadcast(&e->cond);
    (void)pthread_mutex_unlock(&e->lock);
    return st;
}

static void tell(struct hsp_ex_epoch *e, struct hsp_msg *m)
{
    struct hsp_err err = {0};
    m->epoch = e->number;
    if (hsp_chan_send(e->env->chan, m, &err) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "cannot report the end: %s", err.msg);
    }
}

/* Attaches the newest complete lines of @metrics that fit to FINISHED. */
static void attach_metrics(const struct hsp_buf *metrics, struct hsp_msg *m)
{
    size_t from = metrics->len > HSP_MSG_METRICS_MAX ? metrics->len - HSP_MSG_METRICS_MAX : 0;
    while (from > 0 && from < metrics->len && metrics->data[from - 1] != '\n') {
        from++;
    }
    m->blob = metrics->data + from;
    m->blob_len = (uint32_t)(metrics->len - from);
}

static bool is_next(const struct hsp_ex_epoch *e, uint64_t epoch)
{
    return e->next != NULL && e->next->number == epoch;
}

/* Returns the reason why the epoch cannot hand over to @epoch; code HSP_OK: the epoch can hand
 * over, or @epoch was dropped. *ret_leaves: true if the epoch hands over; its phase is LEFT
 * then. */
static struct hsp_err may_leave(struct hsp_ex_epoch *e, uint64_t epoch, bool *ret_leaves)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_err why = e->uncopied;
    if (why.code == HSP_OK && e->cancelled) {
        (void)hsp_err_set(&why, HSP_ECANCELED, 0, "the epoch has ended");
    }
    *ret_leaves = why.code == HSP_OK && is_next(e, epoch);
    e->phase = *ret_leaves ? HSP_EPOCH_LEFT : e->phase;
    (void)pthread_mutex_unlock(&e->lock);
    return why;
}

/* Lets @epoch begin with @version, unless @epoch was dropped. Called when this epoch has freed its
 * device memory. */
static struct hsp_err begin_next(struct hsp_ex_epoch *e, uint64_t epoch, uint64_t version,
                                 uint32_t n_noop)
{
    struct hsp_err why = {0};
    (void)pthread_mutex_lock(&e->lock);
    if (is_next(e, epoch)) {
        /* The lock of this epoch is held: the control thread takes that lock to disarm this epoch
         * before it closes the next epoch. */
        e->next->n_noop = n_noop;
        hsp_epoch_go(e->next, version);
    } else {
        (void)hsp_err_set(&why, HSP_ECANCELED, 0,
                          "epoch %" PRIu64 " was dropped as it was to begin", epoch);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return why;
}

enum hsp_status hsp_epoch_hand_over(struct hsp_ex_epoch *e, uint64_t epoch, uint64_t version,
                                    uint32_t n_noop, bool *ret_left, struct hsp_err *err)
{
    /* The next epoch, or a recovery, begins with this version. All ranks have ended the step. The
     * waits below, for the work of the device and until its memory is freed, may take seconds. The
     * lock is not held during these waits, because the control thread needs the lock. */
    enum hsp_status st = hsp_epoch_seal_written(e, err);
    *ret_left = false;
    st = st == HSP_OK ? hsp_epoch_direct_rest(e, err) : st;
    if (st != HSP_OK) {
        return st;
    }
    hsp_audit_state(e, version, false);
    struct hsp_err why = may_leave(e, epoch, ret_left);
    if (*ret_left) { /* the next epoch takes the memory */
        hsp_epoch_device_leave(e);
        why = begin_next(e, epoch, version, n_noop);
        *ret_left = why.code == HSP_OK;
    }
    if (why.code != HSP_OK && err != NULL) {
        *err = why;
    }
    return why.code;
}

/* Writes the outputs of the job. *ret_left: true if the next epoch has begun, which writes them
 * instead. */
static enum hsp_status write_outputs(struct hsp_ex_epoch *e, bool *ret_left, struct hsp_err *err)
{
    uint64_t epoch = 0;
    struct hsp_msg last = {.type = HSP_MSG_STEP,
                           .u.step = {.job = e->p->job,
                                      .step = e->p->steps,
                                      .loss = (double)NAN,
                                      .val_loss = (double)NAN,
                                      .grad_norm = (double)NAN,
                                      .lr = (double)NAN,
                                      .final = true}};
    struct hsp_notes_faults faults = {{0}, {0}};
    struct hsp_msg done = {.type = HSP_MSG_FINISHED,
                           .u.finished = {.job = e->p->job,
                                          .step = e->p->steps,
                                          .damage = faults.damage,
                                          .lacking = faults.lacking}};
    if (e->p->rank == 0) {
        tell(e, &last);
    }
    struct hsp_buf metrics;
    hsp_buf_init(&metrics, METRICS_MAX);
    enum hsp_status st = hsp_epoch_write_final(e, &metrics, &faults, &epoch, err);
    *ret_left = epoch != 0;
    if (st == HSP_OK && epoch != 0) {
        st = hsp_epoch_hand_over(e, epoch, e->p->steps, 0, ret_left, err);
        if (st == HSP_OK && !*ret_left) {
            st = hsp_err_set(err, HSP_ECANCELED, 0, "epoch %" PRIu64 " was dropped", epoch);
        }
    } else if (st == HSP_OK && epoch == 0 && e->p->rank == 0) {
        attach_metrics(&metrics, &done);
        tell(e, &done);
    }
    hsp_buf_fini(&metrics);
    return st;
}

/* Seals @version, the last version of this epoch, compares its replicas, and hands over to the next
 * epoch, which begins with it. */
static enum hsp_status leave(struct hsp_ex_epoch *e, const struct hsp_step_result *r,
                             uint64_t version, bool *ret_left, struct hsp_err *err)
{
    enum hsp_status st = hsp_epoch_seal_written(e, err);
    st = st == HSP_OK ? compare_replicas(e, version, err) : st;
    return st == HSP_OK ? hsp_epoch_hand_over(e, r->vote.armed, version, r->n_noop, ret_left, err)
                        : st;
}

enum hsp_status hsp_epoch_train(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    bool left = false;
    enum hsp_status st = hsp_data_watch_begin(e->env->data, e->data, &e->watch, err);
    st = st == HSP_OK ? hsp_epoch_direct_start(e, err) : st;
    st = st == HSP_OK ? open_engine(e, err) : st;
    if (st == HSP_OK) {
        hsp_audit_memory(e);
        e->vote_ns = hsp_clock_ns(); /* before the first step there is no vote */
    }
    for (uint64_t t = version; st == HSP_OK && t < e->p->steps; t++) {
        struct hsp_step_result r;
        st = hsp_engine_step(e->engine, t, &r, err);
        hsp_epoch_trace_tell(e, st != HSP_OK || r.vote.armed != 0 || t + 1 == e->p->steps);
        if (st == HSP_OK && r.vote.armed != 0) {
            st = leave(e, &r, t + 1, &left, err);
        }
        if (left) {
            return HSP_OK;
        }
    }
    if (st == HSP_OK) {
        st = finish(e, err);
    }
    if (st == HSP_OK) {
        st = write_outputs(e, &left, err);
    }
    if (st == HSP_OK && !left) {
        (void)pthread_mutex_lock(&e->lock);
        e->phase = e->cancelled ? HSP_EPOCH_FAILED : HSP_EPOCH_SERVING;
        (void)pthread_mutex_unlock(&e->lock);
    }
    return st;
}
