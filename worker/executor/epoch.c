/* Opens, runs and closes an epoch. Its phases:
 *
 *   BUILDING --READY sent--> READY --START or hand-over--> MOVING --weights here--> RUNNING
 *   RUNNING --all steps done--> SERVING     RUNNING --switched--> LEFT
 *   MOVING (source) --> SERVING             any of them --error or cancel--> FAILED
 *
 * In FAILED only the run thread is left, which is ending and writes no state any more.
 */
#include "worker/executor/epoch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/str.h"
#include "proto/program/binding_codec.h"
#include "proto/program/pool.h"
#include "proto/program/program_check.h"
#include "proto/program/template_codec.h"
#include "worker/comm/mesh/mesh_join.h"
#include "worker/comm/mesh/mesh_links.h"
#include "worker/comm/mesh/mesh_start.h"
#include "worker/data/documents.h"
#include "worker/exec/state_init.h"
#include "worker/executor/audit.h"
#include "worker/executor/epoch_control.h"
#include "worker/executor/epoch_copies.h"
#include "worker/executor/epoch_live.h"
#include "worker/executor/epoch_memory.h"
#include "worker/executor/epoch_nccl.h"
#include "worker/executor/epoch_replicate.h"
#include "worker/executor/epoch_report.h"
#include "worker/executor/epoch_restore.h"
#include "worker/executor/epoch_segments.h"
#include "worker/executor/epoch_sources.h"
#include "worker/executor/epoch_train.h"
#include "worker/executor/epoch_transfer.h"
#include "worker/executor/replica_check.h"
#include "worker/executor/epoch_verify.h"
#include "worker/executor/folder_fault.h"
#include "worker/executor/folder_mark.h"
#include "worker/executor/step_share.h"

#define EPOCH_ARENA \
    ((size_t)1 << 30) /* a package of 64 MiB takes less than eight times as much when decoded */

/* Stores the loss of a peer; called on the I/O thread of a mesh. The control thread, which is
 * woken, aborts the epoch and reports the loss. */
static void note_lost(struct hsp_ex_epoch *e, enum hsp_epoch_mesh which,
                      const struct hsp_mesh_loss *loss, const char *why)
{
    hsp_epoch_note_loss(e, which, loss, why);
    hsp_epoch_poke(e->env->wake_fd);
}

static void on_peer_lost(void *ctx, const struct hsp_mesh_loss *loss, const char *why)
{
    note_lost(ctx, HSP_MESH_DATA, loss, why);
}

static void on_mover_lost(void *ctx, const struct hsp_mesh_loss *loss, const char *why)
{
    note_lost(ctx, HSP_MESH_MOVE, loss, why);
}

/* ---- build ---- */

struct failure {
    enum hsp_fact_kind fact;
    uint64_t amount;
    struct hsp_mesh_loss loss; /* for CANNOT_CONNECT: the peer of the failed mesh */
};

static enum hsp_status decode_program(struct hsp_ex_epoch *e, const struct hsp_pkg_program *from,
                                      struct hsp_program *p, struct hsp_err *err)
{
    enum hsp_status st = hsp_template_decode(from->tpl, from->tpl_len, e->arena, &p->tpl, err);
    if (st == HSP_OK) {
        st = hsp_binding_decode(from->binding, from->binding_len, &p->tpl, e->arena, &p->bind, err);
    }
    if (st == HSP_OK) {
        st = hsp_program_check(p, err);
    }
    if (st == HSP_OK && (p->bind.rank != e->p->rank || p->bind.n_ranks != e->p->n_ranks)) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "the binding is for rank %u of %u", p->bind.rank,
                         p->bind.n_ranks);
    }
    return st;
}

static enum hsp_status decode(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    enum hsp_status st = hsp_package_decode(e->msg.blob, e->msg.blob_len, e->arena, &e->pkg, err);
    if (st == HSP_OK && (e->pkg.n_peers != e->p->n_peers || e->p->rank >= e->p->n_peers)) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "PREPARE and its package disagree about the peers");
    }
    if (st == HSP_OK && e->p->n_ranks + e->p->n_keepers > e->p->n_peers) {
        st = hsp_err_set(err, HSP_EPROTO, 0, "more members and replica holders than peers");
    }
    if (st != HSP_OK || !e->member) {
        return st;
    }
    const struct hsp_pkg_program one = {e->pkg.tpl, e->pkg.binding, e->pkg.tpl_len,
                                        e->pkg.binding_len};
    st = decode_program(e, &one, &e->prog, err);
    for (uint32_t k = 0; st == HSP_OK && k < e->pkg.n_shorter; k++) {
        struct hsp_program *p = hsp_arena_alloc(e->arena, sizeof *p);
        if (p == NULL) {
            return hsp_err_nomem(err, "a pool of programs");
        }
        st = decode_program(e, &e->pkg.shorter[k], p, err);
        e->shorter[k] = p;
    }
    return st == HSP_OK ? hsp_pool_check(&e->prog, e->shorter, e->pkg.n_shorter, err) : st;
}

static enum hsp_status open_dataset(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    const struct hsp_data_bind *d = &e->prog.bind.data;
    const struct hsp_data_stop stop = {.asked = hsp_epoch_is_cancelled, .ctx = e};
    const struct hsp_data_wish wish = {.path = e->p->data_path,
                                       .format = (enum hsp_data_format)d->format,
                                       .vocab = d->vocab,
                                       .cut = hsp_data_cut_of(d),
                                       .stop = &stop};
    struct hsp_corpus corpus; /* reports too few tokens before a step runs */
    enum hsp_status st =
        e->member ? hsp_data_cache_get(e->env->data, &wish, &e->data, err) : HSP_OK;
    if (st == HSP_OK && e->member) {
        st = hsp_dataset_corpus(&e->data->set, d, &corpus, err);
        st = st == HSP_OK ? st : hsp_err_wrap(err, "%s", e->p->data_path);
    }
    return st;
}

static void count_links(struct hsp_ex_epoch *e, enum hsp_epoch_mesh which,
                        const struct hsp_comm *comm)
{
    static const char *const names[HSP_EPOCH_MESHES] = {"data", "state", "move"};
    struct hsp_mesh_links n = hsp_mesh_count_links(comm);
    hsp_log(e->env->log, HSP_LOG_INFO, "executor",
            "epoch %" PRIu64
            " of job %u, %s: %u peers by shared memory, %u by Unix sockets, %u by TLS, %u in clear",
            e->number, e->p->job, names[which], n.shm, n.local, n.tls, n.clear);
    if (which != HSP_MESH_MOVE) {
        e->links.shm += n.shm;
        e->links.local += n.local;
        e->links.tls += n.tls;
        e->links.clear += n.clear;
    }
}

static enum hsp_status connect_mesh(struct hsp_ex_epoch *e, enum hsp_epoch_mesh which,
                                    struct failure *f, struct hsp_err *err)
{
    struct hsp_mesh_peer *peers = calloc(e->pkg.n_peers, sizeof *peers);
    uint32_t n = which == HSP_MESH_MOVE    ? e->pkg.n_peers
                 : which == HSP_MESH_STATE ? e->p->n_ranks + e->p->n_keepers
                                           : e->p->n_ranks;
    if (peers == NULL) {
        return hsp_err_nomem(err, "%u peers", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        peers[i] = (struct hsp_mesh_peer){.name = e->pkg.peers[i].name,
                                          .address = e->pkg.peers[i].address,
                                          .apart = e->pkg.peers[i].apart};
    }
    struct hsp_mesh_params params = {.job = e->p->job,
                                     .epoch = HSP_EPOCH_MESHES * e->number + which,
                                     .rank = e->p->rank,
                                     .n = n,
                                     .peers = peers,
                                     .timeout_ms = e->env->connect_ms,
                                     .cancel_fd = e->cancel_fd,
                                     .tls = e->p->data_tls,
                                     .silent_ms = e->p->silent_ms,
                                     .on_peer_lost =
                                         which == HSP_MESH_MOVE ? on_mover_lost : on_peer_lost,
                                     .ctx = e,
                                     .ret_loss = &f->loss};
    memcpy(params.key, e->p->key, sizeof params.key);
    struct hsp_comm *comm = NULL;
    enum hsp_status st = hsp_mesh_connect(e->env->listener, &params, &comm, err);
    free(peers);
    if (st == HSP_OK) {
        count_links(e, which, comm);
    }
    (void)pthread_mutex_lock(&e->lock); /* the control thread may be about to abort it */
    e->mesh[which] = comm;
    (void)pthread_mutex_unlock(&e->lock);
    return st;
}

static void unseal_from(struct hsp_state_segment *s, uint64_t version)
{
    if (hsp_segment_version(s) != HSP_NO_VERSION && hsp_segment_version(s) >= version) {
        hsp_segment_unseal(s);
    }
}

/* Unseals @version and all later versions of this layout, in the home and in copies, because the
 * job has given them up. */
static void void_from(struct hsp_ex_epoch *e, uint64_t version)
{
    for (int slot = 0; slot < 2; slot++) {
        if (e->member) {
            unseal_from(e->seg[slot], version);
        }
        for (uint32_t i = 0; i < e->n_copies; i++) {
            unseal_from(e->copies[i].seg[slot], version);
        }
    }
}

static void unseal_other(struct hsp_state_segment *s, uint64_t version, uint64_t keep)
{
    uint64_t v = s != NULL ? hsp_segment_version(s) : HSP_NO_VERSION;
    if (v != HSP_NO_VERSION && v != version && v != keep) {
        hsp_segment_unseal(s);
    }
}

/* Frees a segment for @version, with which a recovery begins. The version that hspmdd names in
 * `keep` stays sealed until @version is stable. Any third version, which a survivor may have
 * sealed, is unsealed. */
static void make_way(struct hsp_ex_epoch *e, uint64_t version)
{
    for (int slot = 0; e->p->mode == HSP_MODE_RECOVER && e->p->keeps && slot < 2; slot++) {
        unseal_other(e->seg[slot], version, e->p->keep);
        for (uint32_t i = 0; i < e->n_copies; i++) {
            unseal_other(e->copies[i].seg[slot], version, e->p->keep);
        }
    }
}

/* Decodes the program of the epoch, and takes the memory that the epoch needs. */
static enum hsp_status take_place(struct hsp_ex_epoch *e, struct failure *f, struct hsp_err *err)
{
    f->fact = HSP_FACT_BAD_PROGRAM;
    enum hsp_status st = decode(e, err);
    if (st == HSP_OK && (e->member || e->keeps)) {
        st = hsp_epoch_take_memory(e, &f->fact, &f->amount, err);
    } else if (st == HSP_OK) { /* a source: other executors wait for the room of ended epochs */
        hsp_epoch_device_clear(e);
    }
    if (st == HSP_OK && e->p->mode == HSP_MODE_RECOVER && e->p->void_from != HSP_NO_VERSION) {
        void_from(e, e->p->void_from);
    }
    if (st == HSP_OK && e->member) {
        f->fact = HSP_FACT_OTHER;
        st = hsp_replica_check_open(e, err);
    }
    return st;
}

/* Returns true if the status @st of hsp_st_open is the same on every try and every device: the file
 * at init_from is no file of weights, or is damaged. */
static bool is_wrong_file(enum hsp_status st)
{
    return st == HSP_EPARSE || st == HSP_EDIGEST;
}

/* Tries to open the file of weights that the job names (init_from). A device that cannot read the
 * file is excluded before a step runs, like a device without the training data. If the file itself
 * is wrong, this function returns HSP_OK, and the job fails later in take_weights. */
static enum hsp_status find_weights(const struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_st_reader *r = NULL;
    if (!e->member || e->p->mode != HSP_MODE_FRESH || e->pkg.init_from[0] == '\0') {
        return HSP_OK;
    }
    enum hsp_status st = hsp_st_open(e->pkg.init_from, &r, err);
    (void)hsp_st_close(r);
    return st == HSP_OK || is_wrong_file(st) ? HSP_OK : hsp_err_wrap(err, "init_from");
}

static enum hsp_status meet_peers(struct hsp_ex_epoch *e, struct failure *f, struct hsp_err *err)
{
    f->fact = HSP_FACT_NO_DATA;
    enum hsp_status st = open_dataset(e, err);
    st = st == HSP_OK ? find_weights(e, err) : st;
    f->fact = st == HSP_OK ? HSP_FACT_CANNOT_CONNECT : f->fact;
    if (st == HSP_OK && e->member) {
        st = connect_mesh(e, HSP_MESH_DATA, f, err);
    }
    if (st == HSP_OK && e->member) {
        st = hsp_epoch_direct_prepare(e, err);
        struct hsp_mesh_loss lost;
        f->fact = st == HSP_OK || hsp_epoch_loss(e, &lost) ? f->fact : HSP_FACT_OTHER;
    }
    if (st == HSP_OK && (e->member || e->keeps)) {
        st = connect_mesh(e, HSP_MESH_STATE, f, err);
    }
    bool moves = e->p->mode == HSP_MODE_SWITCH || e->p->mode == HSP_MODE_RECOVER;
    return st == HSP_OK && moves ? connect_mesh(e, HSP_MESH_MOVE, f, err) : st;
}

/* Builds the epoch. In a recovery idle processors verify the state of this device meanwhile. */
static enum hsp_status build(struct hsp_ex_epoch *e, struct failure *f, struct hsp_err *err)
{
    struct hsp_err ignored = {0};
    enum hsp_status st = take_place(e, f, err);
    if (st == HSP_OK) {
        f->fact = HSP_FACT_OTHER;
        st = hsp_epoch_verify_begin(e, err);
    }
    st = st == HSP_OK ? meet_peers(e, f, err) : st;
    bool connected = st == HSP_OK;
    enum hsp_status verified = hsp_epoch_verify_end(e, connected, connected ? err : &ignored);
    if (connected && verified != HSP_OK) {
        f->fact = verified == HSP_ENOENT                           ? HSP_FACT_NO_STATE
                  : hsp_folder_fault(err) == HSP_FACT_STATE_FOLDER ? HSP_FACT_STATE_FOLDER
                                                                   : HSP_FACT_OTHER;
        return verified;
    }
    if (connected) {
        hsp_epoch_device_pin(e);
    }
    return st;
}

/* Reports the failure of PREPARE with the fact f->fact, from which the planner plans again. If
 * memory was lacking while data were read, a program was decoded or peers were connected, the fact
 * sent is HSP_FACT_OTHER: the data, the program or the peer is not to blame. HSP_FACT_OUT_OF_MEMORY
 * (the plan needs too much memory) and HSP_FACT_STATE_FOLDER are sent as they are. */
static void tell_failure(struct hsp_ex_epoch *e, enum hsp_status st, const struct failure *f,
                         const struct hsp_err *err)
{
    bool unknown = st == HSP_ENOMEM && f->fact != HSP_FACT_OUT_OF_MEMORY &&
                   f->fact != HSP_FACT_STATE_FOLDER; /* its errno names the cause */
    struct hsp_mesh_loss loss = f->loss;
    if (f->fact != HSP_FACT_NO_STATE) { /* missing state is not the fault of a peer */
        (void)hsp_epoch_loss(e, &loss);
    }
    struct hsp_msg m = {.type = HSP_MSG_PREPARE_FAILED,
                        .u.failed = {.job = e->p->job,
                                     .device = e->env->device,
                                     .fact = (uint32_t)(unknown ? HSP_FACT_OTHER : f->fact),
                                     .amount = f->amount,
                                     .peer = loss.rank,
                                     .by = loss.by,
                                     .silent = loss.silent,
                                     .reason = err->msg}};
    hsp_epoch_send_msg(e, &m);
}

/* ---- state at the start ---- */

static double now_ms(void)
{
    return (double)hsp_clock_ns() * 1e-6;
}

/* Reads the weights of the file init_from to @area. Returns HSP_ESTATE if the file is damaged or
 * has the weights of another model. */
static enum hsp_status take_weights(struct hsp_ex_epoch *e, void *area, struct hsp_err *err)
{
    struct hsp_st_reader *r = NULL;
    enum hsp_status st = hsp_st_open(e->pkg.init_from, &r, err);
    bool wrong = is_wrong_file(st);
    if (st == HSP_OK) {
        st = hsp_state_import(&e->prog, r, area, err);
        wrong = st == HSP_EPARSE || st == HSP_EINVAL || st == HSP_ENOENT || st == HSP_EDIGEST;
        if (st != HSP_OK && st != HSP_EDIGEST && st != HSP_EIO) { /* these name the file */
            (void)hsp_err_wrap(err, "%s", e->pkg.init_from);
        }
    }
    (void)hsp_st_close(r);
    if (st != HSP_OK) {
        (void)hsp_err_wrap(err, "init_from");
    }
    return wrong ? HSP_ESTATE : st;
}

static enum hsp_status make_fresh(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_state_segment *s = hsp_epoch_home_take(e, 0);
    enum hsp_status st = HSP_OK;
    hsp_segment_unseal(s);
    hsp_state_init(&e->prog, hsp_segment_area(s));
    if (e->pkg.init_from[0] != '\0') {
        st = take_weights(e, hsp_segment_area(s), err);
    }
    if (st == HSP_OK) {
        hsp_segment_seal(s, 0);
    }
    return st;
}

/* Gets the state of @version. If the host has enough processors (hsp_epoch_fetch_beside), the run
 * thread of a member fetches only the weights, and the replication thread fetches the rest beside
 * the first step. */
static enum hsp_status get_state(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    void_from(e, version + 1);
    make_way(e, version);
    switch ((enum hsp_epoch_mode)e->p->mode) {
    case HSP_MODE_FRESH: return e->member ? make_fresh(e, err) : HSP_OK;
    case HSP_MODE_RESTORE: return !e->member ? HSP_OK : hsp_epoch_restore(e, version, err);
    case HSP_MODE_SWITCH:
    case HSP_MODE_RECOVER: st = hsp_epoch_fetch_weights(e, version, err); break;
    default: return hsp_err_set(err, HSP_EPROTO, 0, "unknown mode %u of an epoch", e->p->mode);
    }
    e->fetched.weights_ms = now_ms() - e->version_ms;
    if (st != HSP_OK || (e->member && hsp_epoch_fetch_beside(e))) {
        return st;
    }
    st = hsp_epoch_fetch_rest(e, version, &e->fetched, err);
    if (st == HSP_OK && e->member) {
        hsp_audit_state(e, version, true);
    }
    return st;
}

/* ---- the run thread ---- */

/* Waits for START or the hand-over. Returns false if the epoch was cancelled. A joiner of a switch
 * goes on at once: the members of the running epoch send it the version when the version exists. */
static bool await_go(struct hsp_ex_epoch *e, uint64_t *version)
{
    bool joiner = e->p->mode == HSP_MODE_SWITCH && !e->pkg.peers[e->p->rank].voted;
    (void)pthread_mutex_lock(&e->lock);
    while (!e->go && !joiner && !e->cancelled) {
        (void)pthread_cond_wait(&e->cond, &e->lock);
    }
    *version = e->go_version;
    bool ok = !e->cancelled;
    (void)pthread_mutex_unlock(&e->lock);
    return ok;
}

static enum hsp_status start(struct hsp_ex_epoch *e, uint64_t *version, struct hsp_err *err)
{
    hsp_epoch_mark_folder(e); /* short: the running epoch may wait for this joiner */
    enum hsp_status st =
        e->p->mode == HSP_MODE_SWITCH ? hsp_epoch_learn_version(e, version, err) : HSP_OK;
    /* The times of the transfer begin here: before the version is known a joiner only waits. */
    e->version_ms = now_ms();
    if (st == HSP_OK) {
        hsp_epoch_set_phase(e, HSP_EPOCH_MOVING);
        hsp_epoch_poke(e->env->wake_fd); /* from now on this epoch is the running one */
        st = hsp_epoch_device_begin(e, err);
    }
    if (st == HSP_OK) {
        st = get_state(e, *version, err);
    }
    if (st == HSP_OK) {
        st = hsp_epoch_device_load(e, *version,
                                   e->fetch != NULL ? HSP_EPOCH_WEIGHTS : HSP_EPOCH_ALL, err);
    }
    if (st == HSP_OK && e->fetch == NULL) { /* else the replication thread does both */
        st = hsp_notes_share(e, err);
    }
    if (st == HSP_OK && e->fetch == NULL) {
        hsp_epoch_tell_started(e, *version);
    }
    return st;
}

static enum hsp_status serve_or_train(struct hsp_ex_epoch *e, uint64_t version, struct hsp_err *err)
{
    if (!e->member && !e->keeps) {
        hsp_epoch_set_phase(e, HSP_EPOCH_SERVING);
        return HSP_OK;
    }
    (void)pthread_mutex_lock(&e->lock);
    e->first = e->passed = e->written = e->saved = e->sealed = e->stable = version;
    hsp_due_begin(&e->due, version);
    e->phase = e->cancelled ? HSP_EPOCH_FAILED : HSP_EPOCH_RUNNING;
    (void)pthread_mutex_unlock(&e->lock);
    if (e->keeps) {
        return hsp_epoch_keep(e, version, err);
    }
    if (pthread_create(&e->replication, NULL, hsp_epoch_replication, e) != 0) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "cannot start a thread");
    }
    e->has_replication = true;
    return hsp_epoch_train(e, version, err);
}

/* Stores that the epoch of a replica holder has ended: it broke, or its members have switched to
 * the next epoch. The control thread, which knows the prepared epoch, decides which of the two it
 * was. After HSP_EPEER the mesh stores the lost peer itself. */
static void replica_holder_failed(struct hsp_ex_epoch *e, enum hsp_status st,
                                  const struct hsp_err *err)
{
    (void)pthread_mutex_lock(&e->lock);
    if (!e->lost && !e->cancelled && st != HSP_EPEER) {
        e->lost = true;
        e->loss = (struct hsp_mesh_loss){.rank = HSP_MSG_RANKS, .by = e->p->rank};
        hsp_str_printf(e->lost_why, sizeof e->lost_why, "%s", err->msg);
    }
    (void)pthread_mutex_unlock(&e->lock);
    hsp_epoch_poke(e->env->wake_fd);
}

static void fail(struct hsp_ex_epoch *e, enum hsp_status st, const struct hsp_err *err)
{
    struct hsp_err first;
    hsp_epoch_device_check(e->env);
    (void)pthread_mutex_lock(&e->lock);
    if (e->uncopied.code != HSP_OK) { /* the error of the replication thread has ended the steps */
        first = e->uncopied;
        st = first.code;
        err = &first;
    }
    bool before_start = e->phase == HSP_EPOCH_READY;
    bool kept = e->keeps && (e->phase == HSP_EPOCH_RUNNING || e->phase == HSP_EPOCH_LEFT);
    bool moving = e->phase == HSP_EPOCH_MOVING;
    e->phase = HSP_EPOCH_FAILED;
    (void)pthread_mutex_unlock(&e->lock);
    bool own = st != HSP_EPEER && st != HSP_ECANCELED; /* an error of this rank */
    if (moving || (own && !kept)) { /* reported before the abort, which peers see and report */
        hsp_epoch_tell_broken(e, st, err, before_start);
    }
    hsp_epoch_abort(e);
    if (!e->has_replication) { /* else the replication thread ends the transfer */
        hsp_epoch_fetch_end(e);
    }
    if (kept) {
        replica_holder_failed(e, st, err);
    } else {
        hsp_epoch_tell_broken(e, st, err, before_start);
    }
}

static void *run_thread(void *arg)
{
    struct hsp_ex_epoch *e = arg;
    struct hsp_err err = {0};
    struct failure f = {.loss = {.rank = HSP_MSG_RANKS, .by = HSP_MSG_RANKS}};
    uint64_t version = 0;
    enum hsp_status st = build(e, &f, &err);
    if (st != HSP_OK) {
        hsp_epoch_device_check(e->env);
        hsp_epoch_set_phase(e, HSP_EPOCH_FAILED);
        if (st != HSP_ECANCELED) {
            tell_failure(e, st, &f, &err);
        }
        return NULL;
    }
    hsp_epoch_set_phase(e, HSP_EPOCH_READY);
    hsp_epoch_tell_ready(e);
    if (!await_go(e, &version)) {
        hsp_epoch_set_phase(e, HSP_EPOCH_FAILED);
        return NULL;
    }
    st = start(e, &version, &err);
    if (st == HSP_OK) {
        st = serve_or_train(e, version, &err);
    }
    if (st != HSP_OK) {
        fail(e, st, &err);
        hsp_epoch_live_seal(e, st);
    }
    return NULL;
}

/* ---- open, go, cancel, close ---- */

/* Opens @cond with the monotonic clock. */
static void init_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr); /* none of these can fail on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

enum hsp_status hsp_epoch_open(struct hsp_exec_env *env, const struct hsp_msg *m,
                               struct hsp_ex_epoch **ret, struct hsp_err *err)
{
    struct hsp_ex_epoch *e = calloc(1, sizeof *e);
    enum hsp_status st = HSP_OK;
    if (e == NULL || (e->arena = hsp_arena_new(EPOCH_ARENA)) == NULL) {
        free(e);
        return hsp_err_nomem(err, "an epoch");
    }
    e->env = env;
    e->number = m->epoch;
    e->confirmed = e->checkpoint_at = HSP_NO_VERSION;
    (void)pthread_mutex_init(&e->lock, NULL); /* cannot fail on Linux */
    init_cond(&e->cond);
    e->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->cancel_fd < 0) {
        st = hsp_err_set(err, HSP_EIO, errno, "cannot make an event descriptor");
    } else {
        st = hsp_msg_clone(m, e->arena, &e->msg, err);
    }
    if (st == HSP_OK) {
        struct hsp_m_prepare *p = &e->msg.u.prepare;
        if (hsp_cluster_none(p->ckpt_cluster)) { /* hspmdd below protocol 15 sends no such field */
            p->ckpt_cluster = p->cluster;
        }
        e->p = p;
        e->due = (struct hsp_due){.all = p->due_every == 0,
                                  .every = p->due_every != HSP_DUE_AUTO ? p->due_every : 0,
                                  .ckpt_every = p->checkpoint_every,
                                  .steps = p->steps};
        e->distance = (struct hsp_due_distance){.overhead = p->due_overhead,
                                                .recompute_s = p->due_recompute_s};
        e->member = e->p->rank < e->p->n_ranks;
        e->keeps = !e->member && e->p->rank - e->p->n_ranks < e->p->n_keepers;
        e->has_run = pthread_create(&e->run, NULL, run_thread, e) == 0;
        st = e->has_run ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "cannot start a thread");
    }
    if (st != HSP_OK) {
        return hsp_epoch_close(e), st;
    }
    *ret = e;
    return HSP_OK;
}

/* Makes every thread and operation of the epoch stop; does not wait for their end. */
static void cancel_epoch(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    e->cancelled = true;
    (void)pthread_mutex_unlock(&e->lock);
    hsp_epoch_poke(e->cancel_fd);
    hsp_epoch_verify_stop(e);
    hsp_epoch_abort(e);
}

static void log_seals(const struct hsp_ex_epoch *e)
{
    const struct hsp_seal_times *t = &e->seals;
    if (t->n > 0) {
        hsp_log(e->env->log, HSP_LOG_INFO, "executor",
                "epoch %" PRIu64 " of job %u: %" PRIu64
                " versions copied in %.3f ms each, with the wait for their updates, and sealed in "
                "%.3f ms",
                e->number, e->p->job, t->n, (double)t->copy_ns * 1e-6 / (double)t->n,
                (double)t->seal_ns * 1e-6 / (double)t->n);
    }
}

void hsp_epoch_halt(struct hsp_ex_epoch *e)
{
    if (e->cancel_fd >= 0) {
        cancel_epoch(e);
    }
    if (e->has_run) {
        (void)pthread_join(e->run, NULL); /* fails only for threads that are not ours */
    }
    if (e->has_replication) {
        (void)pthread_join(e->replication, NULL);
    }
    hsp_engine_halt(e->engine);
    hsp_epoch_direct_close(e);
    (void)hsp_epoch_device_await(e, NULL); /* a failed device has no work under way */
    hsp_epoch_hurry_copies(e);             /* the state mesh stops yielding to a closed mesh */
    for (int i = 0; i < HSP_EPOCH_MESHES; i++) {
        if (e->mesh[i] != NULL) {
            e->mesh[i]->ops->close(e->mesh[i]);
        }
    }
    hsp_epoch_leave_segments(e);
    e->halted = true;
}

/* Called by the second reaper: frees the rest of the epoch. */
static void give_rest_back(void *epoch)
{
    struct hsp_ex_epoch *e = epoch;
    if (e->from != NULL) {
        hsp_epoch_sources_free(e->from);
    }
    log_seals(e);
    hsp_replica_check_close(e);
    e->watch = hsp_data_watch_end(e->watch);
    e->data = hsp_data_cache_put(e->env->data, e->data);
    if (e->cancel_fd >= 0) {
        (void)close(e->cancel_fd);
    }
    free(e->said.untold);
    (void)pthread_cond_destroy(&e->cond);
    (void)pthread_mutex_destroy(&e->lock);
    (void)hsp_arena_free(e->arena);
    free(e);
}

/* Called by the device's reaper: frees device memory, then gives the rest to the second reaper. */
static void give_device_back(void *epoch)
{
    struct hsp_ex_epoch *e = epoch;
    e->engine = hsp_engine_close(e->engine);
    hsp_epoch_device_close(e);
    hsp_reaper_give(e->env->reaper, &e->ended, give_rest_back, e);
}

struct hsp_ex_epoch *hsp_epoch_close(struct hsp_ex_epoch *e)
{
    if (e == NULL) {
        return NULL;
    }
    if (!e->halted) {
        hsp_epoch_halt(e);
    }
    hsp_reaper_give(e->env->device_reaper, &e->ended, give_device_back, e);
    return NULL;
}
