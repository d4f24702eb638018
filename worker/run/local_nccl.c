#include "worker/run/local_nccl.h"

#include "proto/program/pool.h"
#include "worker/comm/nccl/nccl_make.h"
#include "worker/comm/nccl/nccl_pool.h"

#define TIMEOUT_MS 120000 /* for all communicators of one host */

/* Ranks wait for each other here, so each has a thread. */
static enum hsp_status each(struct hsp_local_direct *d, uint32_t n, void *(*fn)(void *),
                            struct hsp_err *err)
{
    uint32_t started = 0;
    int rc = 0;
    for (; started < n && rc == 0; started++) {
        d[started].rank = started;
        rc = pthread_create(&d[started].thread, NULL, fn, &d[started]);
    }
    started -= rc != 0;
    for (uint32_t k = 0; k < n && rc != 0; k++) {
        d[k].mesh->ops->abort(d[k].mesh);
    }
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < started; k++) {
        (void)pthread_join(d[k].thread, NULL);
        if (d[k].status != HSP_OK && (st == HSP_OK || st == HSP_EPEER || st == HSP_ECANCELED)) {
            st = d[k].status;
            *err = d[k].err;
            (void)hsp_err_wrap(err, "rank %u", k);
        }
    }
    return rc != 0 ? hsp_err_set(err, HSP_ENOMEM, rc, "no thread for rank %u", started) : st;
}

static void *prepare(void *arg)
{
    struct hsp_local_direct *d = arg;
    const struct hsp_program *all[HSP_MAX_POOL + 1] = {d->program};
    struct hsp_nccl_needs needs = {.rank = d->rank};
    bool start;
    d->status = HSP_OK;
    for (uint32_t k = 0; k < d->n_shorter; k++) {
        all[k + 1] = d->shorter[k];
    }
    if (d->nccl != NULL) {
        d->status = hsp_nccl_needs_find(all, 1 + d->n_shorter, &needs, &d->err);
    }
    const struct hsp_nccl_params p = {.mesh = d->mesh, .needs = &needs, .timeout_ms = TIMEOUT_MS};
    if (d->status == HSP_OK) {
        d->status = hsp_nccl_prepare(d->nccl, &p, &d->comm, &start, &d->err);
    }
    if (d->status != HSP_OK) {
        d->mesh->ops->abort(d->mesh);
    }
    hsp_nccl_needs_fini(&needs);
    return NULL;
}

enum hsp_status hsp_local_direct_open(struct hsp_local_direct *d, uint32_t n, const char *library,
                                      struct hsp_err *err)
{
    bool any = false;
    for (uint32_t k = 0; k < n; k++) {
        const struct hsp_nccl_opts o = {
            .backend = d[k].backend, .gpu = d[k].gpu, .process = k + 1, .library = library};
        if (d[k].gpu != 0 && d[k].backend->device) {
            enum hsp_status st = hsp_nccl_open(&o, &d[k].nccl, err);
            if (st != HSP_OK && st != HSP_EUNSUPPORTED) {
                return st;
            }
        }
        any = any || d[k].nccl != NULL;
    }
    return any ? each(d, n, prepare, err) : HSP_OK;
}

static void *close_one(void *arg)
{
    struct hsp_local_direct *d = arg;
    if (d->comm != NULL) {
        d->comm->ops->close(d->comm);
    }
    d->nccl = hsp_nccl_close(d->nccl);
    d->comm = NULL;
    d->status = HSP_OK;
    return NULL;
}

void hsp_local_direct_close(struct hsp_local_direct *d, uint32_t n)
{
    struct hsp_err err = {0};
    if (each(d, n, close_one, &err) != HSP_OK) { /* one after the other takes longer */
        for (uint32_t k = 0; k < n; k++) {
            (void)close_one(&d[k]);
        }
    }
}
