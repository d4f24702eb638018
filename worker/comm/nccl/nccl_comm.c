#include "worker/comm/nccl/nccl_comm.h"

#include <stdlib.h>
#include <string.h>

#include "worker/comm/nccl/nccl_abort.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_send.h"
#include "worker/comm/nccl/nccl_stage.h"
#include "worker/comm/nccl/nccl_sum.h"

/* ---- death ---- */

static void on_broken(void *ctx, const struct hsp_err *why)
{
    hsp_nccl_kill(ctx, why);
}

static void comm_abort(struct hsp_comm *base)
{
    struct hsp_err why = {0};
    (void)hsp_err_set(&why, HSP_ECANCELED, 0, "communication of rank %u was aborted", base->rank);
    hsp_nccl_kill(hsp_nccl_of(base), &why);
}

/* ---- making and closing ---- */

static bool reaches(struct hsp_comm *base, const uint32_t *ranks, uint32_t n)
{
    const struct hsp_nccl_comm *c = hsp_nccl_of(base);
    for (uint32_t k = 0; k < c->n_groups; k++) {
        const struct hsp_nccl_group *g = &c->group[k];
        if (g->n == n && memcmp(g->ranks, ranks, n * sizeof *ranks) == 0) {
            return g->asked;
        }
    }
    return false;
}

/* Waits until the messages sent are delivered, unless this rank is dead. */
static void deliver(struct hsp_nccl_comm *c)
{
    struct hsp_backend *b = c->of->o.backend;
    struct hsp_err err = {0};
    enum hsp_status st = hsp_nccl_alive(c, &err);
    st = st == HSP_OK ? hsp_nccl_flush(c, &err) : st;
    for (const struct hsp_nccl_stage *s = c->stages; s != NULL && st == HSP_OK; s = s->next) {
        st = b->finish(b, s->q, s->ticket, &err);
    }
}

static void watch(struct hsp_nccl_comm *c, bool on)
{
    for (uint32_t k = 0; k < c->n_groups; k++) {
        if (c->group[k].link != NULL) {
            hsp_link_watch(c->group[k].link, on ? on_broken : NULL, c);
        }
    }
    for (uint32_t k = 0; k < c->n_ways; k++) {
        hsp_link_watch(c->way[k].link, on ? on_broken : NULL, c);
    }
}

void hsp_nccl_parts_fini(struct hsp_nccl *n, struct hsp_nccl_comm *parts)
{
    for (uint32_t k = 0; k < parts->n_groups; k++) {
        hsp_nccl_give_back(n, parts->group[k].link);
        free(parts->group[k].ranks);
    }
    for (uint32_t k = 0; k < parts->n_ways; k++) {
        hsp_nccl_give_back(n, parts->way[k].link);
    }
    free(parts->group);
    free(parts->way);
    parts->group = NULL;
    parts->way = NULL;
    parts->n_groups = parts->n_ways = 0;
}

/* An aborted link ends in its own thread: its memory is used until give_back has waited for it. */
static void comm_close(struct hsp_comm *base)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    struct hsp_err why = {0};
    (void)hsp_err_set(&why, HSP_ECANCELED, 0, "rank %u was closed", base->rank);
    deliver(c);
    watch(c, false);
    hsp_nccl_abort_links(c, &why);
    hsp_nccl_parts_fini(c->of, c);
    hsp_nccl_stages_free(c);
    (void)pthread_mutex_destroy(&c->lock);
    free(c->post);
    free(c->wants.sends);
    free(c);
}

static const struct hsp_comm_ops ops = {.name = "nccl",
                                        .collect = &hsp_nccl_collect,
                                        .send = hsp_nccl_send,
                                        .recv = hsp_nccl_recv,
                                        .isend = hsp_nccl_isend,
                                        .irecv = hsp_nccl_irecv,
                                        .wait = hsp_nccl_wait,
                                        .reaches = reaches,
                                        .rehearse = hsp_nccl_rehearse,
                                        .batch = hsp_nccl_batch,
                                        .abort = comm_abort,
                                        .close = comm_close};

enum hsp_status hsp_nccl_comm_new(struct hsp_nccl *n, const struct hsp_nccl_params *p,
                                  struct hsp_nccl_comm *parts, struct hsp_comm **ret,
                                  struct hsp_err *err)
{
    struct hsp_nccl_comm *c = malloc(sizeof *c);
    if (c == NULL) {
        hsp_nccl_parts_fini(n, parts);
        return hsp_err_nomem(err, "communication by NCCL");
    }
    *c = *parts;
    c->base = (struct hsp_comm){
        .ops = &ops, .rank = p->mesh->rank, .n_ranks = p->mesh->n_ranks, .device = true};
    c->of = n;
    c->mesh = p->mesh;
    (void)pthread_mutex_init(&c->lock, NULL); /* of the default kind it cannot fail */
    watch(c, true);
    *ret = &c->base;
    return HSP_OK;
}
