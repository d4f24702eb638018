#include "worker/comm/nccl/nccl_start.h"

#include <time.h>

#include "worker/comm/nccl/nccl_abort.h"
#include "worker/comm/nccl/nccl_agree.h"
#include "worker/comm/nccl/nccl_end.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_stage.h"
#include "worker/comm/nccl/nccl_tell.h"

#define NAP_NS 500000

enum hsp_status hsp_nccl_may_wait(const struct hsp_nccl_params *p, uint64_t until,
                                  struct hsp_err *err)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (p->stop != NULL && p->stop(p->ctx)) {
        return hsp_err_set(err, HSP_ECANCELED, 0, "communicators are not wanted any more");
    }
    if (hsp_nccl_now_ms() >= until) {
        return HSP_ETIMEDOUT;
    }
    (void)nanosleep(&nap, NULL);
    return HSP_AGAIN;
}

/* A broken one is not waited for: the others hear that it is not there. NULL is fine. */
static enum hsp_status await_quiet(struct hsp_link *l, const struct hsp_nccl_params *p,
                                   uint64_t until, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    while (l != NULL && hsp_link_state(l, NULL) == HSP_OK && !hsp_link_quiet(l)) {
        st = hsp_nccl_may_wait(p, until, err);
        if (st == HSP_ETIMEDOUT) {
            return hsp_err_set(err, st, 0, "the communicator of %s still has work of the last step",
                               l->name);
        }
        if (st != HSP_AGAIN) {
            return st;
        }
    }
    return HSP_OK;
}

static enum hsp_status same_past(const struct hsp_nccl_offer *offer, const struct hsp_link *l,
                                 const uint32_t *ranks, uint32_t n, struct hsp_err *err)
{
    return hsp_nccl_kept(offer, ranks, n, l->key) == l->nonce
               ? HSP_OK
               : hsp_err_set(err, HSP_EPEER, 0,
                             "the communicator of %s is not quiet, or not the same everywhere",
                             l->name);
}

/* @taken_over: those that the epoch before has used, only. */
static enum hsp_status all_quiet(struct hsp_nccl_comm *c, bool taken_over,
                                 const struct hsp_nccl_params *p, struct hsp_err *err)
{
    uint64_t until = hsp_nccl_now_ms() + p->timeout_ms;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < c->n_groups; k++) {
        if (c->group[k].taken_over || !taken_over) {
            st = await_quiet(c->group[k].link, p, until, err);
        }
    }
    for (uint32_t k = 0; st == HSP_OK && k < c->n_ways; k++) {
        if (c->way[k].taken_over || !taken_over) {
            st = await_quiet(c->way[k].link, p, until, err);
        }
    }
    return st;
}

static enum hsp_status all_same(const struct hsp_nccl_comm *c, const struct hsp_nccl_offer *offer,
                                struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; st == HSP_OK && k < c->n_groups; k++) {
        const struct hsp_nccl_group *g = &c->group[k];
        if (g->taken_over) {
            st = same_past(offer, g->link, g->ranks, g->n, err);
        }
    }
    for (uint32_t k = 0; st == HSP_OK && k < c->n_ways; k++) {
        const struct hsp_nccl_way *w = &c->way[k];
        if (w->taken_over) {
            const uint32_t ranks[2] = {w->out ? c->base.rank : w->peer,
                                       w->out ? w->peer : c->base.rank};
            st = same_past(offer, w->link, ranks, 2, err);
        }
    }
    return st;
}

enum hsp_status hsp_nccl_start(struct hsp_comm *base, const struct hsp_nccl_params *p,
                               struct hsp_err *err)
{
    struct hsp_nccl_comm *c = base != NULL ? hsp_nccl_of(base) : NULL;
    struct hsp_nccl_offer *offer = NULL;
    enum hsp_status st = c != NULL ? all_quiet(c, true, p, err) : HSP_OK;
    if (st == HSP_OK) {
        st = hsp_nccl_exchange(c != NULL ? c->of : NULL, p, false, &offer, err);
    }
    if (st == HSP_OK && c != NULL) {
        st = all_same(c, offer, err);
    }
    hsp_nccl_offers_free(offer, p->mesh->n_ranks);
    return st;
}

enum hsp_status hsp_nccl_rest(struct hsp_comm *base, const struct hsp_nccl_params *p,
                              struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    const uint64_t until = hsp_nccl_now_ms() + p->timeout_ms;
    enum hsp_status st = all_quiet(c, false, p, err);
    if (st != HSP_OK) {
        return st;
    }
    /* A queue that is quiet may have a copy and a mark before it that no link knows of. */
    do {
        st = !hsp_nccl_stages_rest(c) && hsp_nccl_alive(c, NULL) == HSP_OK
                 ? hsp_nccl_may_wait(p, until, err)
                 : HSP_OK;
    } while (st == HSP_AGAIN);
    return st == HSP_ETIMEDOUT ? HSP_OK : st; /* that memory stays */
}
