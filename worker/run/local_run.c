#include "worker/run/local_run.h"

#include <inttypes.h> /* PRId64 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "worker/backend/cpu/cpu.h"
#include "worker/comm/loop/loop_comm.h"
#include "worker/data/documents.h"
#include "worker/data/load.h"
#include "worker/data/synthetic.h"
#include "worker/run/local_nccl.h"

struct rank {
    struct hsp_local *l;
    uint32_t k;
    struct hsp_comm *comm;
    struct hsp_backend *backend;
    struct hsp_engine *engine;
    const struct hsp_program *shorter[HSP_MAX_POOL];
    void *state; /* the backend's */
    void *seen;  /* the same for the host to read: of a device a copy */
    pthread_t thread;
    uint64_t from, to;
    enum hsp_status status;
    struct hsp_err err;
};

struct hsp_local {
    struct hsp_local_opts o;
    struct rank *rank;
    struct hsp_local_direct *direct; /* n; NULL: nothing goes by NCCL */
};

static size_t state_bytes(const struct rank *r)
{
    return ((size_t)r->l->o.programs[r->k].bind.state_bytes + 127) / 64 * 64;
}

static enum hsp_status open_state(struct rank *r, struct hsp_err *err)
{
    struct hsp_backend *b = r->backend;
    size_t bytes = state_bytes(r);
    if (b->alloc(b, HSP_MEM_DEVICE, bytes, &r->state, err) != HSP_OK) {
        return hsp_err_wrap(err, "state");
    }
    r->seen = b->device ? aligned_alloc(64, bytes) : r->state;
    return r->seen != NULL ? HSP_OK : hsp_err_nomem(err, "%zu bytes of state", bytes);
}

/* Copies the state from or to a device. */
static enum hsp_status copy_state(struct rank *r, bool to_device, struct hsp_err *err)
{
    struct hsp_backend *b = r->backend;
    uint64_t ticket = 0;
    enum hsp_status st = HSP_OK;
    if (b->device) {
        void *to = to_device ? r->state : r->seen, *from = to_device ? r->seen : r->state;
        st = b->copy(b, HSP_DEVQ_STATE, to, from, state_bytes(r), err);
    }
    if (st == HSP_OK) {
        st = b->mark(b, HSP_DEVQ_STATE, &ticket, err);
    }
    return st == HSP_OK ? b->finish(b, HSP_DEVQ_STATE, ticket, err) : st;
}

/* Version 0, drawn or imported. */
static enum hsp_status first_state(struct rank *r, struct hsp_err *err)
{
    const struct hsp_local_opts *o = &r->l->o;
    const struct hsp_program *p = &o->programs[r->k];
    if (r->backend->device) { /* the gaps between tensors, too */
        memset(r->seen, 0, state_bytes(r));
    }
    hsp_state_init(p, r->seen);
    enum hsp_status st = o->init ? hsp_state_import(p, o->init, r->seen, err) : HSP_OK;
    return st == HSP_OK ? copy_state(r, true, err) : st;
}

static enum hsp_status rank_open(struct rank *r, struct hsp_err *err)
{
    const struct hsp_local_opts *o = &r->l->o;
    enum hsp_status st = o->open ? o->open(o->open_ctx, r->k, o->threads, &r->backend, err)
                                 : hsp_backend_cpu_open(o->threads, &r->backend, err);
    if (st == HSP_OK) {
        st = open_state(r, err);
    }
    for (uint32_t k = 0; k < o->n_shorter; k++) {
        r->shorter[k] = &o->shorter[(size_t)k * o->n + r->k];
    }
    return st == HSP_OK ? first_state(r, err) : st;
}

static enum hsp_status engine_open(struct rank *r, struct hsp_err *err)
{
    const struct hsp_local_opts *o = &r->l->o;
    struct hsp_engine_opts e = {.program = &o->programs[r->k],
                                .shorter = r->shorter,
                                .n_shorter = o->n_shorter,
                                .backend = r->backend,
                                .comm = r->comm,
                                .direct = r->l->direct != NULL ? r->l->direct[r->k].comm : NULL,
                                .dataset = o->dataset,
                                .state = r->state};
    if (o->hooks) {
        e.hooks = o->hooks(o->ctx, r->k);
    }
    return hsp_engine_open(&e, &r->engine, err);
}

/* Opens NCCL for direct traffic, where ranks have GPUs. */
static enum hsp_status open_direct(struct hsp_local *l, struct hsp_err *err)
{
    const struct hsp_local_opts *o = &l->o;
    if (o->gpu == NULL || o->n < 2) {
        return HSP_OK;
    }
    l->direct = calloc(o->n, sizeof(*l->direct));
    if (l->direct == NULL) {
        return hsp_err_nomem(err, "%u ranks", o->n);
    }
    for (uint32_t k = 0; k < o->n; k++) {
        struct rank *r = &l->rank[k];
        l->direct[k] = (struct hsp_local_direct){.backend = r->backend,
                                                 .mesh = r->comm,
                                                 .program = &o->programs[k],
                                                 .shorter = r->shorter,
                                                 .n_shorter = o->n_shorter,
                                                 .gpu = o->gpu(o->open_ctx, k)};
    }
    return hsp_local_direct_open(l->direct, o->n, o->nccl, err);
}

enum hsp_status hsp_local_open(const struct hsp_local_opts *o, struct hsp_local **ret,
                               struct hsp_err *err)
{
    struct hsp_local *l = calloc(1, sizeof(*l));
    struct hsp_comm **comm = calloc(o->n, sizeof(struct hsp_comm *));
    struct rank *rank = calloc(o->n, sizeof(*rank));
    enum hsp_status st = HSP_OK;
    if (!l || !comm || !rank) {
        st = hsp_err_nomem(err, "%u ranks", o->n);
    } else {
        st = hsp_loop_open(o->n, comm, err);
    }
    if (st != HSP_OK) {
        free(l);
        free(comm);
        free(rank);
        return st;
    }
    *l = (struct hsp_local){.o = *o, .rank = rank};
    for (uint32_t k = 0; k < o->n; k++) {
        rank[k] = (struct rank){.l = l, .k = k, .comm = comm[k]};
    }
    free(comm);
    for (uint32_t k = 0; k < o->n && st == HSP_OK; k++) {
        if (rank_open(&rank[k], err) != HSP_OK) {
            st = hsp_err_wrap(err, "rank %u", k);
        }
    }
    st = st == HSP_OK ? open_direct(l, err) : st;
    for (uint32_t k = 0; k < o->n && st == HSP_OK; k++) {
        if (engine_open(&rank[k], err) != HSP_OK) {
            st = hsp_err_wrap(err, "rank %u", k);
        }
    }
    if (st != HSP_OK) {
        hsp_local_close(l);
        return st;
    }
    *ret = l;
    return HSP_OK;
}

struct hsp_local *hsp_local_close(struct hsp_local *l)
{
    if (!l) {
        return NULL;
    }
    for (uint32_t k = 0; k < l->o.n; k++) {
        l->rank[k].engine = hsp_engine_close(l->rank[k].engine);
    }
    if (l->direct != NULL) {
        hsp_local_direct_close(l->direct, l->o.n);
        free(l->direct);
    }
    for (uint32_t k = 0; k < l->o.n; k++) {
        struct rank *r = &l->rank[k];
        r->comm->ops->close(r->comm);
        if (r->backend) {
            if (r->backend->device) {
                free(r->seen);
            }
            r->backend->release(r->backend, HSP_MEM_DEVICE, r->state);
            r->backend->close(r->backend);
        }
    }
    free(l->rank);
    free(l);
    return NULL;
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    const struct hsp_local_opts *o = &r->l->o;
    r->status = HSP_OK;
    for (uint64_t t = r->from; t < r->to && r->status == HSP_OK; t++) {
        struct hsp_step_result res;
        r->status = hsp_engine_step(r->engine, t, &res, &r->err);
        if (r->status == HSP_OK && o->on_step) {
            r->status = o->on_step(o->ctx, r->k, &res, &r->err);
        }
    }
    if (r->status == HSP_OK) {
        r->status = hsp_engine_finish(r->engine, &r->err);
    }
    if (r->status == HSP_OK) {
        r->status = copy_state(r, false, &r->err);
    }
    for (uint32_t k = 0; k < o->n && r->status != HSP_OK; k++) {
        hsp_engine_abort(r->l->rank[k].engine);
    }
    return NULL;
}

/* The error that began it: a rank that merely lost a peer says nothing about the cause. */
static enum hsp_status first_error(const struct hsp_local *l, struct hsp_err *err)
{
    const struct rank *worst = NULL;
    for (uint32_t k = 0; k < l->o.n; k++) {
        const struct rank *r = &l->rank[k];
        bool echo = r->status == HSP_EPEER || r->status == HSP_ECANCELED;
        if (r->status != HSP_OK &&
            (!worst || (!echo && (worst->status == HSP_EPEER || worst->status == HSP_ECANCELED)))) {
            worst = r;
        }
    }
    if (!worst) {
        return HSP_OK;
    }
    if (err) {
        *err = worst->err;
    }
    (void)hsp_err_wrap(err, "rank %u", worst->k);
    return worst->status;
}

enum hsp_status hsp_local_run(struct hsp_local *l, uint64_t from, uint64_t to, struct hsp_err *err)
{
    uint32_t started = 0;
    int rc = 0;
    for (; started < l->o.n; started++) {
        struct rank *r = &l->rank[started];
        r->from = from;
        r->to = to;
        rc = pthread_create(&r->thread, NULL, rank_main, r);
        if (rc != 0) {
            break;
        }
    }
    if (rc != 0) {
        for (uint32_t k = 0; k < l->o.n; k++) {
            hsp_engine_abort(l->rank[k].engine);
        }
    }
    for (uint32_t k = 0; k < started; k++) {
        (void)pthread_join(l->rank[k].thread, NULL);
    }
    return rc != 0 ? hsp_err_set(err, HSP_ENOMEM, rc, "no thread for rank %u", started)
                   : first_error(l, err);
}

enum hsp_status hsp_local_put(struct hsp_local *l, uint32_t rank, struct hsp_err *err)
{
    return copy_state(&l->rank[rank], true, err);
}

void *hsp_local_state(const struct hsp_local *l, uint32_t rank)
{
    return l->rank[rank].seen;
}

struct hsp_engine *hsp_local_engine(const struct hsp_local *l, uint32_t rank)
{
    return l->rank[rank].engine;
}

/* Goes on with @st; closes the data set after a failure. */
static enum hsp_status list_samples(const struct hsp_data_bind *d, enum hsp_status st,
                                    struct hsp_dataset *set, struct hsp_err *err)
{
    struct hsp_data_cut cut = hsp_data_cut_of(d);
    st = st == HSP_OK ? hsp_dataset_cut(set, &cut, NULL, err) : st;
    if (st != HSP_OK) {
        hsp_dataset_close(set);
    }
    return st;
}

enum hsp_status hsp_local_dataset(const struct hsp_program_file *f, struct hsp_dataset *ret,
                                  struct hsp_err *err)
{
    const struct hsp_data_bind *d = &f->programs[0].bind.data;
    if (f->data_path[0] != '\0') {
        enum hsp_status st =
            hsp_dataset_open(f->data_path, (enum hsp_data_format)d->format, ret, err);
        if (st != HSP_OK) {
            return st;
        }
        st = hsp_dataset_read(ret, d->vocab, NULL, NULL, err);
        return list_samples(d, st, ret, err);
    }
    uint64_t window = (uint64_t)d->sequence + 1;
    uint64_t n = 8 * window * ((uint64_t)d->global_batch + d->eval_seqs + 8);
    if (d->validation_fraction > 0.0) {
        n += (uint64_t)(2.0 * (double)window / d->validation_fraction);
    }
    enum hsp_status st = hsp_dataset_synthetic(d, n, ret, err);
    return st == HSP_OK ? list_samples(d, st, ret, err) : st;
}
