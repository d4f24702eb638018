#include "tests/unit/worker/exec/device_comm.h"

#include <stdlib.h>

#include "tests/lib/testlib.h"
#include "worker/comm/collective.h"
#include "worker/comm/reduce.h"

enum { MAX_REQS = 64 };

struct devcomm {
    struct hsp_comm base;
    struct hsp_comm *inner;
    struct hsp_backend *b;
    uint32_t largest;
    bool batching;
    struct hsp_devcomm_tally tally;
    struct {
        struct hsp_comm_req *req; /* NULL: the element is free */
        struct hsp_comm_req inner;
        void *image, *to;
        size_t bytes;
    } posted[MAX_REQS];
};

static struct devcomm *of(struct hsp_comm *c)
{
    return (struct devcomm *)c;
}

static void *image(size_t bytes)
{
    void *p = malloc(bytes + 1);
    assert_non_null(p);
    return p;
}

/* Copies between device and host, and waits until the device has done this copy and all work given
 * before. */
static enum hsp_status copy(struct devcomm *d, void *dst, const void *src, size_t bytes,
                            struct hsp_err *err)
{
    uint64_t ticket = 0;
    enum hsp_status st = d->b->copy(d->b, HSP_DEVQ_COMM, dst, src, bytes, err);
    if (st == HSP_OK) {
        st = d->b->mark(d->b, HSP_DEVQ_COMM, &ticket, err);
    }
    return st == HSP_OK ? d->b->finish(d->b, HSP_DEVQ_COMM, ticket, err) : st;
}

static enum hsp_status dev_send(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                const void *buf, size_t bytes, struct hsp_err *err)
{
    struct devcomm *d = of(c);
    void *x = image(bytes);
    enum hsp_status st = copy(d, x, buf, bytes, err);
    d->tally.sends++;
    if (st == HSP_OK) {
        st = d->inner->ops->send(d->inner, peer, channel, x, bytes, err);
    }
    free(x);
    return st;
}

static enum hsp_status dev_irecv(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                 struct hsp_runs data, struct hsp_comm_req *req,
                                 struct hsp_err *err)
{
    struct devcomm *d = of(c);
    size_t k = 0;
    assert_int_equal(data.n, 1);
    while (k < MAX_REQS && d->posted[k].req != NULL) {
        k++;
    }
    assert_true(k < MAX_REQS);
    d->tally.receives++;
    d->posted[k].req = req;
    d->posted[k].to = data.base;
    d->posted[k].bytes = data.run;
    d->posted[k].image = image(data.run);
    return d->inner->ops->irecv(d->inner, peer, channel, hsp_run(d->posted[k].image, data.run),
                                &d->posted[k].inner, err);
}

static enum hsp_status dev_wait(struct hsp_comm *c, struct hsp_comm_req *req, struct hsp_err *err)
{
    struct devcomm *d = of(c);
    size_t k = 0;
    assert_false(d->batching);
    while (d->posted[k].req != req) {
        assert_true(++k < MAX_REQS);
    }
    enum hsp_status st = d->inner->ops->wait(d->inner, &d->posted[k].inner, err);
    if (st == HSP_OK) {
        st = copy(d, d->posted[k].to, d->posted[k].image, d->posted[k].bytes, err);
    }
    free(d->posted[k].image);
    d->posted[k].req = NULL;
    return st;
}

static enum hsp_status dev_batch(struct hsp_comm *c, bool on, struct hsp_err *err)
{
    struct devcomm *d = of(c);
    (void)err;
    assert_true(d->batching != on);
    d->batching = on;
    d->tally.batches += on;
    return HSP_OK;
}

static bool dev_reaches(struct hsp_comm *c, const uint32_t *ranks, uint32_t n)
{
    (void)ranks;
    return n <= of(c)->largest;
}

/* ---- collectives ---- */

static enum hsp_status dev_all_reduce(struct hsp_comm *c, const struct hsp_group *g,
                                      uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                      void *buf, size_t count, struct hsp_err *err)
{
    struct devcomm *d = of(c);
    size_t bytes = count * hsp_dtype_size(t);
    void *x = image(bytes);
    d->tally.collectives++;
    enum hsp_status st = copy(d, x, buf, bytes, err);
    if (st == HSP_OK) {
        st = hsp_comm_all_reduce(d->inner, g, channel, t, how, x, count, err);
    }
    st = st == HSP_OK ? copy(d, buf, x, bytes, err) : st;
    free(x);
    return st;
}

static size_t total(const struct hsp_group *g, const size_t *count, enum hsp_dtype t)
{
    size_t n = 0;
    for (uint32_t k = 0; k < g->n; k++) {
        n += count[k];
    }
    return n * hsp_dtype_size(t);
}

static enum hsp_status dev_reduce_scatter(struct hsp_comm *c, const struct hsp_group *g,
                                          uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                          const void *in, const size_t *count, void *out,
                                          struct hsp_err *err)
{
    struct devcomm *d = of(c);
    size_t all = total(g, count, t), mine = count[g->me] * hsp_dtype_size(t);
    void *x = image(all), *y = image(mine);
    d->tally.collectives++;
    enum hsp_status st = copy(d, x, in, all, err);
    if (st == HSP_OK) {
        st = hsp_comm_reduce_scatter(d->inner, g, channel, t, how, x, count, y, err);
    }
    st = st == HSP_OK ? copy(d, out, y, mine, err) : st;
    free(x);
    free(y);
    return st;
}

static enum hsp_status dev_all_gather(struct hsp_comm *c, const struct hsp_group *g,
                                      uint32_t channel, enum hsp_dtype t, const void *in,
                                      const size_t *count, void *out, struct hsp_err *err)
{
    struct devcomm *d = of(c);
    size_t all = total(g, count, t), mine = count[g->me] * hsp_dtype_size(t);
    void *x = image(mine), *y = image(all);
    d->tally.collectives++;
    enum hsp_status st = copy(d, x, in, mine, err);
    if (st == HSP_OK) {
        st = hsp_comm_all_gather(d->inner, g, channel, t, x, count, y, err);
    }
    st = st == HSP_OK ? copy(d, out, y, all, err) : st;
    free(x);
    free(y);
    return st;
}

/* ---- life ---- */

static void dev_abort(struct hsp_comm *c)
{
    of(c)->inner->ops->abort(of(c)->inner);
}

static void dev_close(struct hsp_comm *c)
{
    free(c);
}

static const struct hsp_collect_ops collect = {.all_reduce = dev_all_reduce,
                                               .reduce_scatter = dev_reduce_scatter,
                                               .all_gather = dev_all_gather};
static const struct hsp_comm_ops ops = {.name = "device",
                                        .collect = &collect,
                                        .send = dev_send,
                                        .irecv = dev_irecv,
                                        .wait = dev_wait,
                                        .reaches = dev_reaches,
                                        .batch = dev_batch,
                                        .abort = dev_abort,
                                        .close = dev_close};

struct hsp_comm *hsp_devcomm_open(struct hsp_comm *inner, struct hsp_backend *b, uint32_t largest)
{
    struct devcomm *d = calloc(1, sizeof(*d));
    assert_non_null(d);
    *d = (struct devcomm){
        .base = {.ops = &ops, .rank = inner->rank, .n_ranks = inner->n_ranks, .device = true},
        .inner = inner,
        .b = b,
        .largest = largest};
    return &d->base;
}

struct hsp_devcomm_tally hsp_devcomm_tally(const struct hsp_comm *c)
{
    return ((const struct devcomm *)c)->tally;
}
