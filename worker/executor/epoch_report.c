#include "worker/executor/epoch_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/vec.h"
#include "worker/executor/epoch.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/step_log.h"

/* Returns the heir of rank 0, which also knows the newest steps: the first rank, else the first
 * replica holder, that is on another node than rank 0. Returns 0 if there is no heir. */
static uint32_t heir_of(const struct hsp_ex_epoch *e)
{
    return hsp_package_writer(e->pkg.peers, e->p->n_ranks + e->p->n_keepers);
}

/* Sends STEP for step @s of epoch @epoch. @stable: the newest version known to be stable. */
static void report(const struct hsp_ex_epoch *e, uint64_t epoch, const struct hsp_said_step *s,
                   uint64_t stable, double *compute, uint32_t n)
{
    uint64_t ahead = !e->due.all && s->step > stable ? s->step - stable : 0;
    struct hsp_err err = {0};
    struct hsp_msg m = {.type = HSP_MSG_STEP,
                        .epoch = epoch,
                        .u.step = {.job = e->p->job,
                                   .step = s->step,
                                   .ahead = ahead,
                                   .loss = s->loss,
                                   .val_loss = s->val_loss,
                                   .grad_norm = s->grad_norm,
                                   .lr = s->lr,
                                   .tokens = s->tokens,
                                   .seconds = s->seconds,
                                   .sequence = s->sequence,
                                   .n_compute = compute != NULL ? n : 0,
                                   .compute_s = compute}};
    if (hsp_chan_send(e->env->chan, &m, &err) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "cannot report a step: %s", err.msg);
    }
}

/* Keeps step @s for later reports, and at rank 0 for its replica holders. If there is no room, the
 * step is not sent to the holders; the ranks have noted it. */
static void keep(struct hsp_ex_epoch *e, const struct hsp_said_step *s)
{
    bool tells = e->p->rank == 0 && e->p->n_keepers > 0 && !e->due.all;
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_said *a = &e->said;
    a->step[a->n++ % HSP_EPOCH_SAID] = *s;
    if (tells &&
        hsp_grow(&a->untold, &a->cap_untold, a->n_untold + 1, sizeof *s, HSP_EPOCH_UNTOLD)) {
        a->untold[a->n_untold++] = *s;
    }
    (void)pthread_mutex_unlock(&e->lock);
}

void hsp_epoch_report_step(struct hsp_ex_epoch *e, const struct hsp_vote *v,
                           const struct hsp_vote_record *all, uint32_t n, double seconds,
                           uint32_t sequence)
{
    const struct hsp_said_step s = {.step = v->step,
                                    .tokens = (uint64_t)v->tokens,
                                    .loss = v->loss,
                                    .val_loss = v->eval_tokens > 0 ? v->eval_loss : (double)NAN,
                                    .grad_norm = v->norm,
                                    .lr = v->lr,
                                    .seconds = seconds,
                                    .sequence = sequence};
    if (e->p->rank == 0 || e->p->rank == heir_of(e)) {
        keep(e, &s);
    }
    if (e->p->rank != 0) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    uint64_t stable = e->stable;
    (void)pthread_mutex_unlock(&e->lock);
    double *compute = calloc(n, sizeof *compute);
    for (uint32_t i = 0; compute != NULL && i < n; i++) {
        compute[i] = all[i].compute_s;
    }
    report(e, e->number, &s, stable, compute, n); /* the times are left out if memory is lacking */
    free(compute);
}

void hsp_epoch_say_again(struct hsp_ex_epoch *e)
{
    if (e->p->rank == 0 || e->p->rank != heir_of(e)) {
        return;
    }
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_said said = e->said;
    uint64_t stable = e->stable;
    (void)pthread_mutex_unlock(&e->lock);
    for (uint32_t i = said.n > HSP_EPOCH_SAID ? said.n - HSP_EPOCH_SAID : 0; i < said.n; i++) {
        report(e, e->number, &said.step[i % HSP_EPOCH_SAID], stable, NULL, 0);
    }
}

void hsp_epoch_say_noted(const struct hsp_ex_epoch *e, uint64_t epoch,
                         const struct hsp_said_step *s)
{
    report(e, epoch, s, s->step, NULL, 0);
}

/* Called at a replica holder: notes step @s that rank 0 has sent. The holder may be the only
 * survivor of this epoch. */
static void note(struct hsp_ex_epoch *e, const struct hsp_said_step *s)
{
    struct hsp_err err = {0};
    (void)pthread_mutex_lock(&e->lock);
    bool known = e->said.n > 0 && e->said.step[(e->said.n - 1) % HSP_EPOCH_SAID].step == s->step;
    e->voted = true; /* rank 0 sends only steps whose vote has passed */
    (void)pthread_mutex_unlock(&e->lock);
    if (known) {
        return;
    }
    keep(e, s);
    bool failed = hsp_metrics_note_said(e, s, &err) != HSP_OK;
    if (failed && !e->unnoted) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor",
                "step %" PRIu64 " of job %u is not noted here: %s", s->step, e->p->job, err.msg);
    }
    e->unnoted = failed;
}

/* Returns true if rank 0 sends steps to @peer. Ranks know each step by its vote. Rank 0 sends each
 * step to all replica holders, because each holder may be the last device that knows the step. If a
 * peer runs an older program (share_notes is false), rank 0 sends steps only to its heir, and only
 * if the heir is a replica holder. */
static bool is_told(const struct hsp_ex_epoch *e, uint32_t peer)
{
    return peer >= e->p->n_ranks && (e->p->share_notes || peer == heir_of(e));
}

enum hsp_status hsp_epoch_share_step(struct hsp_ex_epoch *e, uint32_t channel, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    struct hsp_said_step s = {.step = HSP_NO_VERSION};
    enum hsp_status st = HSP_OK;
    if (e->p->rank != 0) {
        if (!is_told(e, e->p->rank)) {
            return HSP_OK;
        }
        st = comm->ops->recv(comm, 0, channel, &s, sizeof s, err);
        if (st == HSP_OK && s.step != HSP_NO_VERSION) {
            note(e, &s);
        }
        return st;
    }
    (void)pthread_mutex_lock(&e->lock);
    if (e->said.n > 0) {
        s = e->said.step[(e->said.n - 1) % HSP_EPOCH_SAID];
    }
    (void)pthread_mutex_unlock(&e->lock);
    for (uint32_t i = e->p->n_ranks; st == HSP_OK && i < e->p->n_ranks + e->p->n_keepers; i++) {
        st = is_told(e, i) ? comm->ops->send(comm, i, channel, &s, sizeof s, err) : HSP_OK;
    }
    return st;
}

/* The head of a message of steps to replica holders. */
struct steps_head {
    uint64_t version; /* the version whose copies follow; HSP_NO_VERSION: no copies follow */
    uint64_t n;
};

static enum hsp_status tell_replica_holders(struct hsp_ex_epoch *e, uint32_t channel,
                                            const struct steps_head *head,
                                            const struct hsp_said_step *s, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    enum hsp_status st = HSP_OK;
    for (uint32_t i = e->p->n_ranks; st == HSP_OK && i < e->p->n_ranks + e->p->n_keepers; i++) {
        st = comm->ops->send(comm, i, channel, head, sizeof *head, err);
        if (st == HSP_OK && head->n > 0) {
            st = comm->ops->send(comm, i, channel, s, head->n * sizeof *s, err);
        }
    }
    return st;
}

enum hsp_status hsp_epoch_share_steps(struct hsp_ex_epoch *e, uint32_t channel, uint64_t version,
                                      struct hsp_err *err)
{
    struct steps_head head = {.version = HSP_NO_VERSION, .n = HSP_EPOCH_SAID};
    enum hsp_status st = HSP_OK;
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_said_step *s = e->said.untold;
    size_t left = e->said.n_untold, at = 0;
    e->said.untold = NULL;
    e->said.n_untold = e->said.cap_untold = 0;
    (void)pthread_mutex_unlock(&e->lock);
    for (; st == HSP_OK && left - at > HSP_EPOCH_SAID; at += HSP_EPOCH_SAID) {
        st = tell_replica_holders(e, channel, &head, s + at, err);
    }
    head = (struct steps_head){.version = version, .n = left - at};
    st = st == HSP_OK ? tell_replica_holders(e, channel, &head, s + at, err) : st;
    free(s);
    return st;
}

enum hsp_status hsp_epoch_take_steps(struct hsp_ex_epoch *e, uint32_t channel,
                                     uint64_t *ret_version, struct hsp_err *err)
{
    struct hsp_comm *comm = e->mesh[HSP_MESH_STATE];
    struct hsp_said_step s[HSP_EPOCH_SAID];
    struct steps_head head;
    enum hsp_status st = comm->ops->recv(comm, 0, channel, &head, sizeof head, err);
    if (st == HSP_OK && head.n > HSP_EPOCH_SAID) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "rank 0 sends %" PRIu64 " steps at once", head.n);
    }
    if (st == HSP_OK && head.n > 0) {
        st = comm->ops->recv(comm, 0, channel, s, head.n * sizeof s[0], err);
    }
    for (uint64_t i = 0; st == HSP_OK && i < head.n; i++) {
        note(e, &s[i]);
    }
    if (st == HSP_OK) {
        *ret_version = head.version;
    }
    return st;
}

void hsp_epoch_send_msg(struct hsp_ex_epoch *e, struct hsp_msg *m)
{
    struct hsp_err err = {0};
    m->epoch = e->number;
    if (hsp_chan_send(e->env->chan, m, &err) != HSP_OK) {
        hsp_log(e->env->log, HSP_LOG_WARN, "executor", "cannot report %s: %s",
                hsp_msg_name(m->type), err.msg);
    }
}

void hsp_epoch_tell_ready(struct hsp_ex_epoch *e)
{
    struct hsp_msg m = {
        .type = HSP_MSG_READY,
        .u.ready = {.job = e->p->job, .device = e->env->device, .mem_bytes = e->mem_bytes}};
    m.u.ready.links_shm = e->links.shm;
    m.u.ready.links_unix = e->links.local;
    m.u.ready.links_tls = e->links.tls;
    m.u.ready.links_tcp = e->links.clear;
    if (e->data != NULL) {
        m.u.ready.data_bytes = e->data->set.n_bytes;
        m.u.ready.data_tokens = e->data->set.n_tokens;
        m.u.ready.data_digest = e->data->digest;
    }
    hsp_epoch_send_msg(e, &m);
}

void hsp_epoch_tell_started(struct hsp_ex_epoch *e, uint64_t version)
{
    struct hsp_msg m = {.type = HSP_MSG_STARTED,
                        .u.started = {.job = e->p->job,
                                      .device = e->env->device,
                                      .step = version,
                                      .transfer_ms = (double)hsp_clock_ns() * 1e-6 - e->version_ms,
                                      .weights_ms = e->fetched.weights_ms,
                                      .optimizer_ms = e->fetched.optimizer_ms,
                                      .seal_ms = e->fetched.seal_ms,
                                      .transfer_bytes = e->fetched.bytes,
                                      .passed_on_bytes = e->fetched.passed_on}};
    (void)pthread_mutex_lock(&e->lock); /* set before the message, after which a source may leave */
    e->moved = true;
    (void)pthread_mutex_unlock(&e->lock);
    hsp_epoch_send_msg(e, &m);
}

void hsp_epoch_tell_broken(struct hsp_ex_epoch *e, enum hsp_status st, const struct hsp_err *err,
                           bool before_start)
{
    const struct hsp_mesh_loss nobody = {.rank = HSP_MSG_RANKS, .by = e->p->rank};
    struct hsp_mesh_loss loss = nobody;
    if (st == HSP_EPEER || st == HSP_ECANCELED) { /* else no lost peer is the cause */
        (void)hsp_epoch_loss(e, &loss);
    }
    (void)pthread_mutex_lock(&e->lock);
    bool tell = !e->cancelled && !e->told;
    bool lost_one = e->lost && st != HSP_ENOENT; /* a peer is not the cause of missing state */
    e->told = true;
    loss = lost_one ? e->loss : nobody;
    (void)pthread_mutex_unlock(&e->lock);
    if (!tell) {
        return;
    }
    bool hopeless = st == HSP_ESTATE; /* a full disk may have room at the next try */
    bool refused = !lost_one && e->refused != HSP_CKPT_TAKEN;
    struct hsp_msg lost = {.type = HSP_MSG_PEER_LOST,
                           .u.lost = {.job = e->p->job,
                                      .device = e->env->device,
                                      .peer = loss.rank,
                                      .by = loss.by,
                                      .silent = loss.silent,
                                      .before_start = before_start,
                                      .reason = lost_one ? e->lost_why : err->msg}};
    struct hsp_msg fail = {
        .type = HSP_MSG_JOB_FAILED,
        .u.jobfail = {.job = e->p->job, .device = e->env->device, .reason = err->msg}};
    hsp_log(e->env->log, HSP_LOG_WARN, "executor", "epoch %" PRIu64 " of job %u broke: %s",
            e->number, e->p->job, lost_one ? e->lost_why : err->msg);
    hsp_epoch_say_again(e);
    struct hsp_msg none = {.type = HSP_MSG_CKPT_REFUSED,
                           .u.refused = {.job = e->p->job,
                                         .device = e->env->device,
                                         .step = e->p->step,
                                         .damaged = e->refused == HSP_CKPT_DAMAGED,
                                         .reason = err->msg}};
    hsp_epoch_send_msg(e, hopeless ? &fail : refused ? &none : &lost);
}
