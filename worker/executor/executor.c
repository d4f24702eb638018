/* Runs the control thread of an executor (executor.h). The contract is in worker/agent/EXECUTOR.md.
 *
 * At most three epochs exist at a time: `running`, `next` (being prepared, or ready), and `left`
 * (the epoch that has handed over), which keeps its connections until the running epoch has voted.
 * Without failures, PREPARE opens `next`, and START, or the hand-over of the running epoch, makes
 * `next` the running epoch. If a peer breaks, an I/O thread of the mesh stores the loss and wakes
 * the control thread, which aborts the epoch and reports to the agent. SEAL, DROP and STOP close
 * epochs and wait for their threads. When the agent closes its end of the channel, the executor
 * ends. */
#include "worker/executor/executor.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "worker/backend/cpu/cpu.h"
#include "worker/backend/plugin.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/epoch_copies.h"
#include "worker/executor/epoch_nccl.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_stand.h"
#include "worker/executor/epoch_trace.h"
#include "worker/executor/heartbeat.h"
#include "worker/executor/reaper.h"
#include "worker/state/segment_name.h"

#define CONNECT_MS  10000             /* to connect a mesh; hspmdd's prepare_timeout is longer */
#define MESSAGE_MAX ((size_t)8 << 20) /* most bytes of a decoded body; the blob is not copied */

struct executor {
    struct hsp_exec_env env;
    atomic_uint told; /* `env` points here */
    struct hsp_chan chan;
    struct hsp_arena *arena; /* holds the message being handled */
    struct hsp_heartbeat beats;
    uint32_t job;              /* job of these epochs */
    struct hsp_digest cluster; /* cluster of the job: each cluster numbers its epochs */
    uint64_t newest;           /* newest epoch of the job that was to be prepared here */
    uint64_t floor;            /* epochs of the job up to this number are over; at most `newest` */
    struct hsp_ex_epoch *running, *next, *left;
    struct hsp_reaper device_reaper, reaper; /* `env` points here */
};

static void tell(struct executor *x, struct hsp_msg *m)
{
    struct hsp_err err = {0};
    if (hsp_chan_send(&x->chan, m, &err) != HSP_OK) {
        hsp_log(x->env.log, HSP_LOG_WARN, "executor", "cannot send %s: %s", hsp_msg_name(m->type),
                err.msg);
    }
}

static enum hsp_epoch_phase phase_of(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    enum hsp_epoch_phase p = e->phase;
    (void)pthread_mutex_unlock(&e->lock);
    return p;
}

static void halt_epoch(void *epoch)
{
    hsp_epoch_halt(epoch);
}

/* Ends @e, which may be NULL. After the return no thread of @e writes memory; the reapers free that
 * memory later. Returns NULL. */
static struct hsp_ex_epoch *end_epoch(struct executor *x, struct hsp_ex_epoch *e)
{
    if (e != NULL) {
        hsp_heartbeat_during(&x->beats, halt_epoch, e);
    }
    return hsp_epoch_close(e);
}

/* Ends @e after SEAL; before its end @e may seal the live version (epoch_live.h). The heir of rank
 * 0 (epoch_report.h) reports the newest steps again, because rank 0 may be dead without any peer
 * having noticed. */
static struct hsp_ex_epoch *seal_epoch(struct executor *x, struct hsp_ex_epoch *e)
{
    if (e != NULL) {
        (void)pthread_mutex_lock(&e->lock);
        e->saves = true;
        (void)pthread_mutex_unlock(&e->lock);
        hsp_heartbeat_during(&x->beats, halt_epoch, e);
        hsp_epoch_say_again(e);
    }
    return hsp_epoch_close(e);
}

/* ---- housekeeping after every wake-up ---- */

static bool has_begun(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    bool begun = e->go || (e->phase >= HSP_EPOCH_MOVING && e->phase != HSP_EPOCH_FAILED);
    (void)pthread_mutex_unlock(&e->lock);
    return begun;
}

/* Makes `next` the running epoch if `next` has begun without a START: the running epoch has handed
 * over to it, or, on a device that joins, its peers have begun it. */
static void promote(struct executor *x)
{
    if (x->next == NULL || !has_begun(x->next)) {
        return;
    }
    if (x->running != NULL) {
        x->left = end_epoch(x, x->left);
        x->left = x->running;
        (void)pthread_mutex_lock(&x->left->lock); /* a replica holder does not hand over itself */
        x->left->phase = x->left->phase == HSP_EPOCH_RUNNING ? HSP_EPOCH_LEFT : x->left->phase;
        (void)pthread_mutex_unlock(&x->left->lock);
    }
    x->running = x->next;
    x->next = NULL;
}

/* Ends `left` when the running epoch has passed a vote: then no rank needs the connections of
 * `left` any more. */
static void reap_left(struct executor *x)
{
    if (x->left == NULL || x->running == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&x->running->lock);
    bool voted = x->running->voted;
    (void)pthread_mutex_unlock(&x->running->lock);
    if (voted) {
        x->left = end_epoch(x, x->left);
    }
}

/* Returns true if a switch is prepared. A replica holder has no vote, so it learns late that the
 * members have left the running epoch. Until then the holder, unlike a member, cannot distinguish a
 * hand-over from a loss. */
static bool switching(const struct executor *x)
{
    return x->next != NULL && x->next->p->mode == HSP_MODE_SWITCH &&
           phase_of(x->next) >= HSP_EPOCH_READY && phase_of(x->next) != HSP_EPOCH_FAILED;
}

/* Aborts an epoch that has lost a peer, and reports it. */
static void check_lost(struct executor *x, struct hsp_ex_epoch *e)
{
    if (e == NULL) {
        return;
    }
    if (e == x->running && e->keeps && switching(x)) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    bool alive = e->phase == HSP_EPOCH_READY || e->phase == HSP_EPOCH_MOVING ||
                 e->phase == HSP_EPOCH_RUNNING ||
                 (e == x->running && e->keeps &&
                  e->phase == HSP_EPOCH_FAILED); /* its run thread leaves the report to us */
    bool act = e->lost && !e->told && !e->cancelled && alive;
    /* True also after ARM: an armed epoch begins only after the vote in which all members are
     * armed. */
    bool before_start = e->phase == HSP_EPOCH_READY && !e->go;
    if (act) {
        e->told = true;
    }
    (void)pthread_mutex_unlock(&e->lock);
    if (!act) {
        return;
    }
    hsp_epoch_abort(e);
    struct hsp_msg m = {.type = HSP_MSG_PEER_LOST,
                        .epoch = e->number,
                        .u.lost = {.job = e->p->job,
                                   .device = x->env.device,
                                   .peer = e->loss.rank,
                                   .by = e->loss.by,
                                   .silent = e->loss.silent,
                                   .before_start = before_start,
                                   .reason = e->lost_why}};
    hsp_log(x->env.log, HSP_LOG_INFO, "executor", "epoch %" PRIu64 " of job %u lost %s", e->number,
            e->p->job, e->lost_why);
    hsp_epoch_say_again(e);
    tell(x, &m);
}

/* Trims the device when no epoch is left: has the reaper free the memory that ended epochs could
 * not free, now or when the device is idle; heartbeats go on meanwhile. If no memory is left to
 * free, lets executors that wait for room of this device go on: the last trim may have ended just
 * before empty_pool made them wait. */
static void trim_idle(struct executor *x)
{
    bool idle = x->running == NULL && x->next == NULL && x->left == NULL;
    if (!idle || x->env.backend == NULL || x->env.backend->trim == NULL ||
        hsp_reaper_busy(&x->device_reaper) || hsp_reaper_busy(&x->reaper)) {
        return;
    }
    if (atomic_load(&x->env.untrimmed)) {
        hsp_reaper_give(&x->device_reaper, &x->env.trim, hsp_epoch_device_trim, &x->env);
    } else if (!hsp_pool_has_out(&x->env)) {
        hsp_reaper_keep(&x->device_reaper, false);
    }
}

static void housekeeping(struct executor *x)
{
    promote(x);
    reap_left(x);
    check_lost(x, x->running);
    check_lost(x, x->next);
    trim_idle(x);
}

/* ---- messages ---- */

static void disarm(struct executor *x)
{
    if (x->running != NULL) {
        (void)pthread_mutex_lock(&x->running->lock);
        x->running->armed = 0;
        x->running->next = NULL;
        (void)pthread_mutex_unlock(&x->running->lock);
    }
}

static bool same_layout(const struct hsp_ex_epoch *a, const struct hsp_ex_epoch *b)
{
    return a != NULL && a->p->job == b->p->job && a->p->plan == b->p->plan;
}

/* Ends the next epoch. If no other epoch uses its layout, its unsealed segments become spares
 * (segment_pool.h); they may be as large as the memory of the device. */
static void drop_next(struct executor *x)
{
    if (x->next != NULL) {
        x->next->dropped = !same_layout(x->running, x->next) && !same_layout(x->left, x->next);
        x->next = end_epoch(x, x->next);
    }
}

static void close_next(struct executor *x)
{
    disarm(x);
    promote(x); /* the running epoch may have handed over just now */
    drop_next(x);
}

/* Calls @end for every epoch of the job up to @epoch. After the return no thread of these epochs
 * writes memory. */
static void close_up_to(struct executor *x, uint32_t job, uint64_t epoch,
                        struct hsp_ex_epoch *(*end)(struct executor *x, struct hsp_ex_epoch *e))
{
    disarm(x);
    promote(x);
    if (x->next != NULL && x->next->p->job == job && x->next->number <= epoch) {
        drop_next(x);
    }
    if (x->running != NULL && x->running->p->job == job && x->running->number <= epoch) {
        x->running->alone = !same_layout(x->left, x->running) && !same_layout(x->next, x->running);
        x->running = end(x, x->running);
    }
    if (x->left != NULL && x->left->p->job == job && x->left->number <= epoch) {
        x->left = end(x, x->left);
    }
    epoch = epoch < x->newest ? epoch : x->newest; /* @epoch may be a number of another cluster */
    if (x->job == job && x->floor < epoch) {
        x->floor = epoch;
    }
}

/* Returns true if @e is epoch @number of @job. Each job has its own numbers of epochs. */
static bool is_epoch(const struct hsp_ex_epoch *e, uint32_t job, uint64_t number)
{
    return e != NULL && e->p->job == job && e->number == number;
}

static void refuse(struct executor *x, const struct hsp_msg *m, const char *why)
{
    struct hsp_msg fail = {.type = HSP_MSG_PREPARE_FAILED,
                           .epoch = m->epoch,
                           .u.failed = {.job = m->u.prepare.job,
                                        .device = x->env.device,
                                        .fact = HSP_FACT_OTHER,
                                        .peer = HSP_MSG_RANKS,
                                        .reason = why}};
    tell(x, &fail);
}

/* Refuses @m, a PREPARE for an epoch that is over. */
static void refuse_over(struct executor *x, const struct hsp_msg *m)
{
    char why[HSP_TEXT_MAX + 1];
    hsp_str_printf(why, sizeof why,
                   "epoch %" PRIu64 " of the job is over on this device, which has seen epoch "
                   "%" PRIu64 " of it; see RECOVERY in hspmdd(8) if hspmdd has an older store",
                   m->epoch, x->newest);
    refuse(x, m, why);
}

/* Empties the pool of segments. The room of pinned segments is freed when the device is trimmed,
 * after the answer to the agent. Another executor that lacks room waits for this trim. */
static void empty_pool(struct executor *x)
{
    hsp_pool_empty(&x->env);
    if (hsp_pool_has_out(&x->env)) {
        hsp_reaper_keep(&x->device_reaper, true);
    }
}

static void on_prepare(struct executor *x, const struct hsp_msg *m)
{
    const struct hsp_m_prepare *p = &m->u.prepare;
    struct hsp_err err = {0};
    if (x->job != p->job || !hsp_digest_equal(x->cluster, p->cluster)) {
        close_up_to(x, x->job, UINT64_MAX, end_epoch); /* one job at a time */
        empty_pool(x);
        x->job = p->job;
        x->cluster = p->cluster;
        x->newest = x->floor = 0;
    }
    if (is_epoch(x->running, p->job, m->epoch)) {
        return; /* the epoch has begun, and STARTED reports that */
    }
    if (m->epoch <= x->floor || (x->running != NULL && x->running->number > m->epoch)) {
        refuse_over(x, m);
        return;
    }
    enum hsp_epoch_phase phase = x->next != NULL ? phase_of(x->next) : HSP_EPOCH_FAILED;
    if (is_epoch(x->next, p->job, m->epoch) && phase != HSP_EPOCH_FAILED) {
        if (phase == HSP_EPOCH_READY) {
            hsp_epoch_tell_ready(x->next);
        }
        return; /* else an answer will come; that of a failed epoch was lost: try again */
    }
    close_next(x);
    x->newest = m->epoch > x->newest ? m->epoch : x->newest;
    if (hsp_epoch_open(&x->env, m, &x->next, &err) != HSP_OK) {
        refuse(x, m, err.msg);
    }
}

static void on_start(struct executor *x, const struct hsp_msg *m)
{
    if (!is_epoch(x->next, m->u.start.job, m->epoch)) {
        return; /* dropped meanwhile */
    }
    x->running = end_epoch(x, x->running);
    x->left = end_epoch(x, x->left);
    x->running = x->next;
    x->next = NULL;
    hsp_epoch_go(x->running, m->u.start.step);
}

static void on_arm(struct executor *x, const struct hsp_msg *m)
{
    if (!is_epoch(x->next, m->u.jobref.job, m->epoch) || x->running == NULL ||
        !x->running->member) {
        return;
    }
    (void)pthread_mutex_lock(&x->running->lock);
    x->running->armed = m->epoch;
    x->running->next = x->next;
    hsp_epoch_hurry_copies(x->running);
    (void)pthread_cond_broadcast(&x->running->cond);
    (void)pthread_mutex_unlock(&x->running->lock);
}

static void on_drop(struct executor *x, const struct hsp_msg *m)
{
    struct hsp_msg answer = {.type = HSP_MSG_DROPPED,
                             .epoch = m->epoch,
                             .u.devref = {.job = m->u.devref.job, .device = x->env.device}};
    if (x->next != NULL && x->next->p->job == m->u.devref.job && x->next->number <= m->epoch) {
        close_next(x);
    }
    tell(x, &answer);
}

static void on_seal(struct executor *x, const struct hsp_msg *m)
{
    struct hsp_msg answer = {
        .type = HSP_MSG_SEALED, .epoch = m->epoch, .u.sealed = {.job = m->u.jobref.job}};
    close_up_to(x, m->u.jobref.job, m->epoch, seal_epoch);
    tell(x, &answer);
}

static void discard(struct executor *x, uint32_t job, uint64_t keep_plan)
{
    struct hsp_err err = {0};
    if (hsp_segname_discard(x->env.state_dir, job, x->env.device, keep_plan, &err) != HSP_OK) {
        hsp_log(x->env.log, HSP_LOG_WARN, "executor", "state of job %u stays behind: %s", job,
                err.msg);
    }
}

/* Frees cached data and segments when no epoch is left, because the device may work for another job
 * next, or stay idle for long. Not called after SEAL, because mostly the same job goes on. */
static void tidy_idle(struct executor *x)
{
    if (x->running == NULL && x->next == NULL && x->left == NULL) {
        hsp_data_cache_drop(x->env.data);
        empty_pool(x);
    }
}

static void on_stop(struct executor *x, const struct hsp_msg *m)
{
    uint32_t job = m->u.jobref.job;
    struct hsp_msg answer = {.type = HSP_MSG_STOPPED,
                             .epoch = m->epoch,
                             .u.devref = {.job = job, .device = x->env.device}};
    close_up_to(x, job, m->epoch, end_epoch);
    tidy_idle(x);
    discard(x, job, 0);
    tell(x, &answer);
}

/* Returns true if RELEASE ends @e: @e is a source, or its layout is deleted. */
static bool goes_with(const struct hsp_ex_epoch *e, const struct hsp_m_release *r)
{
    return e != NULL && e->p->job == r->job &&
           (e->p->plan < r->keep_plan || (!e->member && !e->keeps));
}

static void on_release(struct executor *x, const struct hsp_msg *m)
{
    const struct hsp_m_release *r = &m->u.release;
    struct hsp_msg answer = {.type = HSP_MSG_RELEASED,
                             .epoch = m->epoch,
                             .u.devref = {.job = r->job, .device = x->env.device}};
    promote(x);
    x->left = end_epoch(x, x->left);
    if (goes_with(x->running, r)) {
        disarm(x);
        promote(x);
    }
    if (goes_with(x->running, r)) {
        x->running = end_epoch(x, x->running);
    }
    tidy_idle(x);
    hsp_pool_release(&x->env, r->job, r->keep_plan);
    discard(x, r->job, r->keep_plan);
    tell(x, &answer);
}

static void on_checkpoint(struct executor *x, const struct hsp_msg *m)
{
    promote(x); /* the order may be for the epoch that has just begun */
    if (x->running != NULL && x->running->p->job == m->u.jobref.job && x->running->p->rank == 0) {
        (void)pthread_mutex_lock(&x->running->lock);
        x->running->want_checkpoint = true;
        (void)pthread_mutex_unlock(&x->running->lock);
    }
}

/* Begins a trace. A TRACE for an epoch that is over is ignored; hspmdd notices that the epoch is
 * over. */
static void on_trace(struct executor *x, const struct hsp_msg *m)
{
    const struct hsp_m_trace *t = &m->u.trace;
    if (is_epoch(x->running, t->job, m->epoch) && x->running->member && x->running->p->rank == 0) {
        hsp_epoch_trace_want(x->running, t->number, t->steps);
    }
}

/* Answers WHERE for the running epoch, or for the prepared epoch if none runs. */
static void on_where(struct executor *x, const struct hsp_msg *m)
{
    struct hsp_ex_epoch *e = x->running != NULL ? x->running : x->next;
    if (e != NULL && e->p->job == m->u.where.job) {
        hsp_epoch_tell_stand(e, m->u.where.round);
    }
}

static void handle(struct executor *x, const struct hsp_msg *m)
{
    switch (m->type) {
    case HSP_MSG_PREPARE: on_prepare(x, m); break;
    case HSP_MSG_START: on_start(x, m); break;
    case HSP_MSG_ARM: on_arm(x, m); break;
    case HSP_MSG_DROP: on_drop(x, m); break;
    case HSP_MSG_SEAL: on_seal(x, m); break;
    case HSP_MSG_STOP: on_stop(x, m); break;
    case HSP_MSG_RELEASE: on_release(x, m); break;
    case HSP_MSG_CHECKPOINT: on_checkpoint(x, m); break;
    case HSP_MSG_TRACE: on_trace(x, m); break;
    case HSP_MSG_WHERE: on_where(x, m); break;
    case HSP_MSG_WELCOME:
        hsp_heartbeat_pace(&x->beats, m->u.welcome.heartbeat_ms);
        hsp_direct_silence(x->env.nccl, m->u.welcome.dead_ms);
        break;
    default:
        hsp_log(x->env.log, HSP_LOG_WARN, "executor", "unexpected message %s",
                hsp_msg_name(m->type));
        break;
    }
}

/* ---- the loop ---- */

/* Handles all messages that have arrived. If it returns another status than HSP_OK, the executor
 * ends. */
static enum hsp_status receive(struct executor *x, struct hsp_err *err)
{
    for (;;) {
        struct hsp_frame frame;
        struct hsp_msg m;
        hsp_arena_reset(x->arena);
        enum hsp_status st = hsp_chan_recv(&x->chan, x->arena, &frame, &m, err);
        if (st == HSP_AGAIN) {
            return HSP_OK;
        }
        if (st != HSP_OK) {
            return st;
        }
        handle(x, &m);
        hsp_frame_fini(&frame);
        housekeeping(x);
    }
}

static int serve(struct executor *x)
{
    struct pollfd p[2] = {{.fd = x->chan.fd, .events = POLLIN},
                          {.fd = x->env.wake_fd, .events = POLLIN}};
    struct hsp_err err = {0};
    for (;;) {
        /* If the driver of the GPU hangs, the executor sends no heartbeats, and the agent kills it.
         * Only device_reaper is asked: the other reaper may take minutes to free host memory, which
         * stops no epoch. */
        bool silent = hsp_reaper_hangs(&x->device_reaper);
        int n = poll(p, 2, silent ? -1 : hsp_heartbeat_wait_ms(&x->beats));
        uint64_t count;
        if (n < 0 && errno != EINTR) {
            hsp_log(x->env.log, HSP_LOG_ERROR, "executor", "poll fails: %s", strerror(errno));
            return 1;
        }
        if (n > 0 && p[1].revents != 0 && read(x->env.wake_fd, &count, sizeof count) < 0) {
            count = 0; /* another read has reset the counter: housekeeping runs anyway */
        }
        housekeeping(x);
        if (n > 0 && p[0].revents != 0) {
            enum hsp_status st = receive(x, &err);
            if (st == HSP_ECLOSED) {
                /* The agent is gone. The process exits without closing its meshes, so that the
                 * peers see a lost peer. An abort would not tell them which peer is the cause. */
                hsp_nccllog_tell(x->env.nccl_log, x->env.log);
                hsp_pool_tidy(&x->env);
                _exit(0);
            }
            if (st != HSP_OK) {
                hsp_log(x->env.log, HSP_LOG_ERROR, "executor", "message of the agent: %s", err.msg);
                return 1;
            }
        }
        hsp_heartbeat_beat(&x->beats);
    }
}

static enum hsp_status open_device(const struct hsp_executor_opts *o, struct hsp_backend **ret,
                                   struct hsp_err *err)
{
    const struct hsp_device_opts d = {.memory_bytes = o->mem_bytes};
    if (o->open != NULL) {
        return o->open(o, ret, err);
    }
    return o->gpu_index >= 0 ? hsp_backend_device_open(o->gpu_index, &d, ret, err)
                             : hsp_backend_cpu_open((int)o->threads, ret, err);
}

/* Returns the hash of the GPU's identity; 0: not known. */
static uint64_t gpu_of(const struct hsp_executor_opts *o)
{
    bool told = o->gpu != 0 || o->open != NULL || o->gpu_index < 0;
    return told ? o->gpu : hsp_device_identity(NULL, o->gpu_index);
}

static enum hsp_status open_all(struct executor *x, const struct hsp_executor_opts *o,
                                struct hsp_err *err)
{
    enum hsp_status st = hsp_heartbeat_open(&x->beats, &x->chan, o->heartbeat_ms, o->log, err);
    x->env = (struct hsp_exec_env){
        .state_dir = o->state_dir,
        .node = o->node,
        .device = o->device,
        .speed = o->speed < 1 ? o->speed : 0,
        .mem_bytes = o->mem_bytes,
        .connect_ms = CONNECT_MS,
        .audit_dir = o->audit_dir,
        .kill_dir = o->kill_dir,
        .bare_file = o->bare_file,
        .chan = &x->chan,
        .data = hsp_data_cache_new(NULL),
        .log = o->log,
        .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .nccl_look = {.apart = o->transport == HSP_MESH_TCP, .unknown = o->nccl_unknown},
        .nccl_log = o->nccl_log,
        .device_reaper = &x->device_reaper,
        .reaper = &x->reaper,
        .told = &x->told};
    x->arena = hsp_arena_new(MESSAGE_MAX);
    if (x->env.wake_fd < 0 || x->arena == NULL || x->env.data == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, errno, "cannot start");
    }
    st = st == HSP_OK ? hsp_reaper_open(&x->device_reaper, o->state_dir, err) : st;
    st = st == HSP_OK ? hsp_reaper_open(&x->reaper, o->state_dir, err) : st;
    st = st == HSP_OK ? open_device(o, &x->env.backend, err) : st;
    if (st == HSP_OK && x->env.backend->device) {
        x->env.mem_bytes = hsp_device_offer(o->mem_bytes);
    }
    if (st == HSP_OK) {
        const struct hsp_direct_opts d = {
            .backend = x->env.backend, .gpu = gpu_of(o), .library = o->nccl};
        x->env.nccl = hsp_direct_open(&d, o->log);
        st = hsp_mesh_listener_open(o->listen, o->advertise, o->transport, &x->env.listener, err);
    }
    return st;
}

static void close_all(struct executor *x)
{
    x->next = hsp_epoch_close(x->next);
    x->running = hsp_epoch_close(x->running);
    x->left = hsp_epoch_close(x->left);
    hsp_pool_empty(&x->env);
    hsp_reaper_close(&x->device_reaper); /* passes its work on to the second reaper */
    hsp_reaper_close(&x->reaper);
    hsp_disk_threads_close(&x->env.disks);
    x->env.data = hsp_data_cache_free(x->env.data);
    hsp_mesh_listener_close(x->env.listener);
    x->env.nccl = hsp_nccl_close(x->env.nccl);
    hsp_nccllog_tell(x->env.nccl_log, x->env.log);
    x->env.nccl_log = hsp_nccllog_close(x->env.nccl_log);
    if (x->env.backend != NULL) {
        hsp_epoch_device_trim(&x->env);
        x->env.backend->close(x->env.backend);
    }
    if (x->env.wake_fd >= 0) {
        (void)close(x->env.wake_fd);
    }
    hsp_heartbeat_close(&x->beats);
    (void)hsp_arena_free(x->arena);
    hsp_chan_fini(&x->chan);
}

int hsp_executor_main(const struct hsp_executor_opts *o)
{
    struct executor *x = calloc(1, sizeof *x);
    struct hsp_err err = {0};
    int rc = 1;
    if (x == NULL) {
        hsp_log(o->log, HSP_LOG_ERROR, "executor", "out of memory");
        return 1;
    }
    hsp_chan_init(&x->chan, o->fd);
    if (hsp_segname_tidy_device(o->state_dir, o->device, &err) != HSP_OK) {
        hsp_log(o->log, HSP_LOG_WARN, "executor", "unfinished state stays behind: %s", err.msg);
    }
    if (open_all(x, o, &err) == HSP_OK) {
        struct hsp_msg up = {
            .type = HSP_MSG_EXECUTOR_UP,
            .u.up = {.device = o->device, .address = hsp_mesh_listener_address(x->env.listener)}};
        tell(x, &up);
        rc = serve(x);
    } else {
        hsp_log(o->log, HSP_LOG_ERROR, "executor", "device %u cannot start: %s", o->device,
                err.msg);
        rc = o->gpu_index >= 0 && x->env.backend == NULL ? HSP_EXIT_DEVICE : 1;
    }
    close_all(x);
    free(x);
    return rc;
}
