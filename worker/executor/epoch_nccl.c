#include "worker/executor/epoch_nccl.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "proto/base/str.h"
#include "worker/comm/nccl/nccl_make.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_start.h"

#define MAX_FAILURES    2
#define PATIENCE_MAX_MS 500u

struct hsp_nccl *hsp_direct_open(const struct hsp_direct_opts *o, struct hsp_logger *log)
{
    struct hsp_nccl *n = NULL;
    struct hsp_err err = {0};
    struct hsp_nccl_opts opts = {.backend = o->backend,
                                 .gpu = o->gpu,
                                 .patience_ms = PATIENCE_MAX_MS,
                                 .library = o->library};
    enum hsp_status st = HSP_OK;
    if (!o->backend->device) {
        return NULL;
    }
    if (o->gpu == 0) {
        st = hsp_err_set(&err, HSP_EUNSUPPORTED, 0, "the GPU cannot be identified");
    } else if (getrandom(&opts.process, sizeof opts.process, 0) != sizeof opts.process) {
        st = hsp_err_set(&err, HSP_EIO, 0, "no random numbers");
    }
    st = st == HSP_OK ? hsp_nccl_open(&opts, &n, &err) : st;
    if (st != HSP_OK) {
        hsp_log(log, HSP_LOG_INFO, "executor", "%s: messages of this GPU go through host memory",
                err.msg);
        return NULL;
    }
    hsp_log(log, HSP_LOG_INFO, "executor", "NCCL %d", hsp_nccl_version(n));
    return n;
}

void hsp_direct_silence(struct hsp_nccl *n, uint32_t dead_ms)
{
    uint32_t ms = dead_ms / 6 < PATIENCE_MAX_MS ? dead_ms / 6 : PATIENCE_MAX_MS;
    if (n != NULL) {
        hsp_nccl_patience(n, ms > 0 ? ms : 1);
    }
}

/* ---- epochs ---- */

/* Writes those networks of @n whose bits are set in @mask as a text. */
static void text_of(const struct hsp_ipnets *n, uint8_t mask, char ret[HSP_IPNETS_TEXT])
{
    struct hsp_ipnets some = {0};
    for (uint32_t i = 0; i < n->n; i++) {
        if ((mask >> i & 1) != 0) {
            some.net[some.n++] = n->net[i];
        }
    }
    hsp_ipnets_text(&some, ret);
}

/* Logs whether NCCL connects to other hosts, or why not, and again only after a change. */
static void note_place(struct hsp_exec_env *env, const struct hsp_nccl_place *p,
                       const struct hsp_ipnets *nets, const char *why_not)
{
    char text[sizeof env->nccl_place_told], on[HSP_IPNETS_TEXT];
    if (p->trusted != 0) {
        text_of(nets, p->trusted, on);
        hsp_str_printf(text, sizeof text, "NCCL may talk to other hosts in clear, on %s", on);
    } else {
        hsp_str_printf(text, sizeof text, "%s: data_plane is tls and %s",
                       p->host != 0 ? "NCCL serves devices of this host only" : "NCCL is not used",
                       why_not);
    }
    if (strcmp(text, env->nccl_place_told) != 0) {
        hsp_str_printf(env->nccl_place_told, sizeof env->nccl_place_told, "%s", text);
        hsp_log(env->log, nets->n > 0 && p->trusted == 0 ? HSP_LOG_WARN : HSP_LOG_INFO, "executor",
                "%s", text);
    }
}

static enum hsp_status find_place(struct hsp_ex_epoch *e, struct hsp_nccl_place *ret,
                                  struct hsp_err *err)
{
    struct hsp_ipnets nets;
    char why_not[HSP_NCCL_WHY] = "";
    if (!e->p->data_tls) {
        return HSP_OK;
    }
    if (hsp_ipnets_parse(e->p->trusted_network, &nets, err) != HSP_OK) {
        return hsp_err_wrap(err, "trusted_network of PREPARE");
    }
    hsp_nccl_place_find(&e->env->nccl_look, &nets, ret, why_not);
    note_place(e->env, ret, &nets, why_not);
    return HSP_OK;
}

static struct hsp_nccl_params params_of(struct hsp_ex_epoch *e)
{
    return (struct hsp_nccl_params){.mesh = e->mesh[HSP_MESH_DATA],
                                    .timeout_ms = e->env->connect_ms,
                                    .stop = hsp_epoch_is_over,
                                    .ctx = e};
}

static enum hsp_status prepare(struct hsp_ex_epoch *e, struct hsp_nccl *n, struct hsp_comm **ret,
                               struct hsp_err *err)
{
    const struct hsp_program *program[HSP_PKG_POOL + 1] = {&e->prog};
    struct hsp_nccl_needs needs = {.rank = e->p->rank};
    struct hsp_nccl_params p = params_of(e);
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < e->pkg.n_shorter; k++) {
        program[k + 1] = e->shorter[k];
    }
    if (n != NULL) {
        st = find_place(e, &p.place, err);
        st = st == HSP_OK ? hsp_nccl_needs_find(program, 1 + e->pkg.n_shorter, &needs, err) : st;
    }
    p.needs = &needs;
    if (st == HSP_OK) {
        (void)pthread_mutex_lock(&e->env->greets);
        st = hsp_nccl_prepare(n, &p, ret, &e->direct_starts, err);
        (void)pthread_mutex_unlock(&e->env->greets);
    }
    hsp_nccl_needs_fini(&needs);
    return st;
}

/* Counts a failure to make communicators although all peers are connected. */
static void note_failure(struct hsp_ex_epoch *e, const struct hsp_err *why)
{
    unsigned times = atomic_fetch_add(&e->env->nccl_failed, 1) + 1;
    hsp_log(e->env->log, HSP_LOG_WARN, "executor", "epoch %" PRIu64 " of job %u: %s%s", e->number,
            e->p->job, why->msg,
            times >= MAX_FAILURES ? "; from now on messages between GPUs use the mesh" : "");
}

/* Returns true if hsp_nccl_prepare was stopped because a peer was lost, and the loss is to be
 * reported; @why is then the reason of the loss. A cancelled epoch reports nothing. */
static bool for_a_loss(struct hsp_ex_epoch *e, enum hsp_status st, struct hsp_err *why)
{
    (void)pthread_mutex_lock(&e->lock);
    bool is = st == HSP_ECANCELED && e->lost && !e->cancelled;
    if (is) {
        (void)hsp_err_set(why, HSP_EPEER, 0, "%s", e->lost_why);
    }
    (void)pthread_mutex_unlock(&e->lock);
    return is;
}

enum hsp_status hsp_epoch_direct_prepare(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    struct hsp_comm *mesh = e->mesh[HSP_MESH_DATA], *direct = NULL;
    struct hsp_nccl *n = atomic_load(&e->env->nccl_failed) < MAX_FAILURES ? e->env->nccl : NULL;
    struct hsp_err why = {0};
    enum hsp_status st = prepare(e, n, &direct, &why);
    hsp_nccllog_tell(e->env->nccl_log, e->env->log);
    if (st != HSP_OK) {
        bool over = hsp_epoch_is_over(e) || st == HSP_ECANCELED;
        mesh->ops->abort(mesh); /* the other members wait for this one */
        if (n != NULL && !over) {
            note_failure(e, &why);
        }
        st = for_a_loss(e, st, &why) ? HSP_EPEER : st;
        return hsp_err_set(err, st, 0, "%s", why.msg);
    }
    if (direct != NULL) {
        atomic_store(&e->env->nccl_failed, 0);
        hsp_log(e->env->log, HSP_LOG_INFO, "executor",
                "epoch %" PRIu64 " of job %u: %u communicators of NCCL %d", e->number, e->p->job,
                hsp_nccl_count(n), hsp_nccl_version(n));
    }
    (void)pthread_mutex_lock(&e->lock); /* the control thread may be about to abort it */
    e->direct = direct;
    (void)pthread_mutex_unlock(&e->lock);
    return HSP_OK;
}

enum hsp_status hsp_epoch_direct_start(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    const struct hsp_nccl_params p = params_of(e);
    return e->direct_starts ? hsp_nccl_start(e->direct, &p, err) : HSP_OK;
}

enum hsp_status hsp_epoch_direct_rest(struct hsp_ex_epoch *e, struct hsp_err *err)
{
    const struct hsp_nccl_params p = params_of(e);
    return e->direct != NULL ? hsp_nccl_rest(e->direct, &p, err) : HSP_OK;
}

void hsp_epoch_direct_abort(struct hsp_ex_epoch *e)
{
    (void)pthread_mutex_lock(&e->lock);
    struct hsp_comm *direct = e->direct;
    (void)pthread_mutex_unlock(&e->lock);
    if (direct != NULL) {
        direct->ops->abort(direct);
    }
}

void hsp_epoch_direct_close(struct hsp_ex_epoch *e)
{
    if (e->direct != NULL) {
        e->direct->ops->close(e->direct);
        e->direct = NULL;
        hsp_nccllog_tell(e->env->nccl_log, e->env->log); /* warnings of its steps */
    }
}
