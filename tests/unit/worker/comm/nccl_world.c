#include "tests/unit/worker/comm/nccl_world.h"

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#include "worker/backend/cpu/cpu.h"
#include "worker/comm/nccl/nccl_make.h"
#include "worker/comm/nccl/nccl_pool.h"

static const struct hsp_fakenccl *fake;
uint32_t nw_patience_ms = NW_PATIENCE_MS;

const char *nw_library(void)
{
    static char path[512];
    const char *build = getenv("HSPMD_BUILD");
    (void)snprintf(path, sizeof path, "%s/%s", build != NULL ? build : ".", HSP_FAKENCCL_FILE);
    return path;
}

const struct hsp_fakenccl *nw_fake(void)
{
    if (fake == NULL) {
        void *handle = dlopen(nw_library(), RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL) {
            fail_msg("%s", dlerror());
        }
        fake = dlsym(handle, "hsp_fakenccl");
        assert_non_null(fake);
    }
    return fake;
}

/* ---- a backend ---- */

static struct nw_backend *backend_of(struct hsp_backend *b)
{
    return (struct nw_backend *)b;
}

static void *native(struct hsp_backend *b, enum hsp_devq q)
{
    struct nw_backend *n = backend_of(b);
    fake->enter(n->process);
    return q >= HSP_DEVQ_GREET ? &n->stream[q - HSP_DEVQ_GREET] : NULL;
}

static enum hsp_status mark(struct hsp_backend *b, enum hsp_devq q, uint64_t *ret,
                            struct hsp_err *err)
{
    uint64_t given = 0, done = 0;
    (void)err;
    if (q >= HSP_DEVQ_GREET) {
        fake->work(&backend_of(b)->stream[q - HSP_DEVQ_GREET], &given, &done);
    }
    *ret = given + 1;
    return HSP_OK;
}

static bool reached(struct hsp_backend *b, enum hsp_devq q, uint64_t ticket)
{
    uint64_t given, done;
    if (q < HSP_DEVQ_GREET || ticket == 0) {
        return true;
    }
    fake->work(&backend_of(b)->stream[q - HSP_DEVQ_GREET], &given, &done);
    return done + 1 >= ticket;
}

static enum hsp_status finish(struct hsp_backend *b, enum hsp_devq q, uint64_t ticket,
                              struct hsp_err *err)
{
    const struct timespec nap = {.tv_nsec = 50000};
    (void)err;
    while (!reached(b, q, ticket)) {
        (void)nanosleep(&nap, NULL);
    }
    return HSP_OK;
}

static enum hsp_status run(struct hsp_backend *b, enum hsp_devq q, const struct hsp_call *c,
                           struct hsp_err *err)
{
    struct hsp_backend *cpu = backend_of(b)->cpu;
    return cpu->run(cpu, q, c, err);
}

static enum hsp_status accumulate(struct hsp_backend *b, enum hsp_devq q, enum hsp_dtype dst_type,
                                  void *dst, enum hsp_dtype src_type, const void *src, int64_t n,
                                  struct hsp_err *err)
{
    struct hsp_backend *cpu = backend_of(b)->cpu;
    return cpu->accumulate(cpu, q, dst_type, dst, src_type, src, n, err);
}

/* ---- executors ---- */

void nw_open_one(struct nw_process *p, int process, uint64_t gpu)
{
    struct hsp_err err = {0};
    *p = (struct nw_process){.backend = {.process = process}};
    assert_ok(hsp_backend_cpu_open(1, &p->backend.cpu, &err), &err);
    p->backend.base = *p->backend.cpu; /* the functions used here need no more of it */
    p->backend.base.run = run;
    p->backend.base.accumulate = accumulate;
    p->backend.base.native = native;
    p->backend.base.mark = mark;
    p->backend.base.reached = reached;
    p->backend.base.finish = finish;
    const struct hsp_nccl_opts o = {.backend = &p->backend.base,
                                    .gpu = gpu,
                                    .process = 0x1000 + (uint64_t)process,
                                    .patience_ms = nw_patience_ms,
                                    .greeting_bytes = NW_GREETING_BYTES,
                                    .library = nw_library()};
    if (gpu != 0) {
        assert_ok(hsp_nccl_open(&o, &p->nccl, &err), &err);
    }
}

void nw_open(struct nw_process *p, uint32_t n, const uint64_t *gpu)
{
    (void)nw_fake();
    for (uint32_t k = 0; k < n; k++) {
        nw_open_one(&p[k], (int)k, gpu != NULL ? gpu[k] : k + 1);
    }
}

static void close_one(void *ctx, uint32_t k)
{
    struct nw_process *p = &((struct nw_process *)ctx)[k];
    p->nccl = hsp_nccl_close(p->nccl);
    p->backend.cpu->close(p->backend.cpu);
}

void nw_close(struct nw_process *p, uint32_t n)
{
    nw_each(n, NULL, close_one, p);
}

void nw_expect_clean(void)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    if (fake->misuses() > 0) {
        fail_msg("misuse: %s", fake->misuse(0));
    }
    fake->let_go(); /* a thread left in the library comes back */
    for (int ms = 0; fake->alive() > 0 && ms < 60000; ms++) {
        (void)nanosleep(&nap, NULL);
    }
    assert_int_equal(fake->alive(), 0);
}

/* ---- threads ---- */

struct call {
    void (*fn)(void *ctx, uint32_t k);
    void *ctx;
    uint32_t k;
    int process;
};

static void *call_main(void *arg)
{
    struct call *c = arg;
    fake->enter(c->process);
    c->fn(c->ctx, c->k);
    return NULL;
}

void nw_each(uint32_t n, const int *process, void (*fn)(void *ctx, uint32_t k), void *ctx)
{
    pthread_t thread[NW_RANKS];
    struct call call[NW_RANKS];
    for (uint32_t k = 0; k < n; k++) {
        call[k] = (struct call){fn, ctx, k, process != NULL ? process[k] : (int)k};
        assert_int_equal(pthread_create(&thread[k], NULL, call_main, &call[k]), 0);
    }
    for (uint32_t k = 0; k < n; k++) {
        (void)pthread_join(thread[k], NULL);
    }
}

/* ---- epochs ---- */

static const uint32_t ascending[NW_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

void nw_want(struct nw_epoch *e, const uint32_t *ranks, uint32_t n)
{
    uint32_t list;
    struct hsp_err err = {0};
    for (uint32_t k = 0; k < n; k++) {
        struct hsp_nccl_needs *d = &e->needs[ranks[k]];
        assert_ok(hsp_nccl_need_list(d, ranks, n, &list, &err), &err);
        d->list[list].asked = d->list[list].collective = true;
    }
}

void nw_epoch_init(struct nw_epoch *e, struct nw_process *all, const int *member, uint32_t n)
{
    struct hsp_err err = {0};
    *e = (struct nw_epoch){.n = n, .timeout_ms = 20000};
    assert_ok(hsp_loop_open(n, e->mesh, &err), &err);
    for (uint32_t k = 0; k < n; k++) {
        e->number[k] = member != NULL ? member[k] : (int)k;
        e->process[k] = &all[e->number[k]];
        e->needs[k].rank = k;
    }
    nw_want(e, ascending, n);
    for (uint32_t k = 0; k < n; k++) {
        e->needs[k].list[0].messages = true;
        for (uint32_t p = 0; p < n; p++) {
            for (int out = 0; out < 2 && p != k; out++) {
                assert_ok(hsp_nccl_need_message(&e->needs[k], p, out == 1, 7, &err), &err);
            }
        }
    }
}

static void prepare_one(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    const struct hsp_nccl_params p = {.mesh = e->mesh[k],
                                      .needs = &e->needs[k],
                                      .place = e->place[k],
                                      .timeout_ms = e->timeout_ms};
    e->st[k] = hsp_nccl_prepare(e->process[k]->nccl, &p, &e->comm[k], &e->starts[k], &e->err[k]);
    if (e->st[k] != HSP_OK) {
        e->mesh[k]->ops->abort(e->mesh[k]); /* as an executor does */
    }
}

void nw_prepare(struct nw_epoch *e)
{
    nw_each(e->n, e->number, prepare_one, e);
}

static void close_rank(void *ctx, uint32_t k)
{
    struct nw_epoch *e = ctx;
    if (e->comm[k] != NULL) {
        e->comm[k]->ops->close(e->comm[k]);
    }
    e->mesh[k]->ops->close(e->mesh[k]);
    hsp_nccl_needs_fini(&e->needs[k]);
}

void nw_epoch_close(struct nw_epoch *e)
{
    nw_each(e->n, e->number, close_rank, e);
}
