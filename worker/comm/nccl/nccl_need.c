#include "worker/comm/nccl/nccl_need.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"

#define ORDER_SEED UINT64_C(0x6e63636c2d6f7264) /* the order of a pair without a message */

/* One more item of an array; NULL without memory. */
static void *push(void **array, uint32_t *n, uint32_t *cap, size_t each)
{
    if (*n == *cap) {
        uint32_t more = *cap == 0 ? 8 : 2 * *cap;
        void *p = realloc(*array, more * each);
        if (p == NULL) {
            return NULL;
        }
        *array = p;
        *cap = more;
    }
    void *at = (uint8_t *)*array + (*n)++ * each;
    memset(at, 0, each);
    return at;
}

void hsp_nccl_needs_fini(struct hsp_nccl_needs *d)
{
    for (uint32_t k = 0; k < d->n_lists; k++) {
        free(d->list[k].ranks);
    }
    free(d->list);
    free(d->part);
    free(d->pair);
    *d = (struct hsp_nccl_needs){0};
}

enum hsp_status hsp_nccl_need_list(struct hsp_nccl_needs *d, const uint32_t *ranks, uint32_t n,
                                   uint32_t *ret, struct hsp_err *err)
{
    for (uint32_t k = 0; k < d->n_lists; k++) {
        if (d->list[k].n == n && memcmp(d->list[k].ranks, ranks, n * sizeof *ranks) == 0) {
            *ret = k;
            return HSP_OK;
        }
    }
    uint32_t *own = malloc((size_t)n * sizeof *own + 1);
    struct hsp_nccl_list *l =
        own != NULL ? push((void **)&d->list, &d->n_lists, &d->cap_lists, sizeof *d->list) : NULL;
    if (l == NULL) {
        free(own);
        return hsp_err_nomem(err, "the needs of NCCL");
    }
    memcpy(own, ranks, n * sizeof *own);
    *l = (struct hsp_nccl_list){.n = n, .ranks = own};
    *ret = d->n_lists - 1;
    return HSP_OK;
}

enum hsp_status hsp_nccl_need_message(struct hsp_nccl_needs *d, uint32_t peer, bool out,
                                      uint32_t channel, struct hsp_err *err)
{
    struct hsp_nccl_pair *p = NULL;
    for (uint32_t k = 0; k < d->n_pairs && p == NULL; k++) {
        p = d->pair[k].peer == peer && d->pair[k].out == out ? &d->pair[k] : NULL;
    }
    if (p == NULL) {
        p = push((void **)&d->pair, &d->n_pairs, &d->cap_pairs, sizeof *d->pair);
        if (p == NULL) {
            return hsp_err_nomem(err, "the needs of NCCL");
        }
        *p = (struct hsp_nccl_pair){.peer = peer, .out = out, .order = ORDER_SEED};
    }
    p->order = hsp_mix64(p->order ^ (channel + UINT64_C(1)));
    return HSP_OK;
}

/* ---- from programs ---- */

/* The cells of a move between this rank and a peer, one way, are one message. */
static enum hsp_status p2p_messages(struct hsp_nccl_needs *d, const struct hsp_move *m,
                                    struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < m->n_cells && st == HSP_OK; k++) {
        bool out = m->ranks[m->cells[k].root] == d->rank;
        uint32_t peer = out ? m->cells[k].peer : m->cells[k].root;
        bool seen = false;
        for (uint32_t j = 0; j < k && !seen; j++) {
            bool was = m->ranks[m->cells[j].root] == d->rank;
            seen = was == out && (was ? m->cells[j].peer : m->cells[j].root) == peer;
        }
        if (!seen) {
            st = hsp_nccl_need_message(d, m->ranks[peer], out, m->channel, err);
        }
    }
    return st;
}

/* Notes a sum among all ranks but the peer, which gets it from the root. */
static enum hsp_status handed_on(struct hsp_nccl_needs *d, const struct hsp_move *m, uint32_t whole,
                                 struct hsp_err *err)
{
    uint32_t root = m->ranks[m->cells[0].root], peer = m->ranks[m->cells[0].peer], n = 0, part;
    if (peer == d->rank) {
        return hsp_nccl_need_message(d, root, false, m->channel, err);
    }
    uint32_t *adders = malloc(m->n_ranks * sizeof *adders);
    if (adders == NULL) {
        return hsp_err_nomem(err, "the needs of NCCL");
    }
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        if (m->ranks[k] != peer) {
            adders[n++] = m->ranks[k];
        }
    }
    enum hsp_status st = hsp_nccl_need_list(d, adders, n, &part, err);
    free(adders);
    if (st == HSP_OK) {
        struct hsp_nccl_part *p =
            push((void **)&d->part, &d->n_parts, &d->cap_parts, sizeof *d->part);
        if (p == NULL) {
            return hsp_err_nomem(err, "the needs of NCCL");
        }
        *p = (struct hsp_nccl_part){whole, part};
    }
    return st == HSP_OK && root == d->rank ? hsp_nccl_need_message(d, peer, true, m->channel, err)
                                           : st;
}

static enum hsp_status of_move(struct hsp_nccl_needs *d, const struct hsp_move *m,
                               struct hsp_err *err)
{
    uint32_t list;
    if (m->kind == HSP_MOVE_COPY || m->n_cells == 0) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_nccl_need_list(d, m->ranks, m->n_ranks, &list, err);
    if (st != HSP_OK) {
        return st;
    }
    d->list[list].asked = true;
    switch ((enum hsp_move_kind)m->kind) {
    case HSP_MOVE_COPY: return HSP_OK;
    case HSP_MOVE_P2P: d->list[list].messages = true; return p2p_messages(d, m, err);
    case HSP_MOVE_ALL_REDUCE:
    case HSP_MOVE_REDUCE_SCATTER:
    case HSP_MOVE_ALL_GATHER: d->list[list].collective = true; return HSP_OK;
    case HSP_MOVE_REDUCE_SEND: d->list[list].messages = true; return handed_on(d, m, list, err);
    }
    return HSP_OK;
}

static enum hsp_status of_schedule(struct hsp_nccl_needs *d, const struct hsp_program *p,
                                   const struct hsp_sched *s, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMM] && st == HSP_OK; k++) {
        uint32_t first, end = hsp_entry_end(&p->tpl, &s->e[HSP_QUEUE_COMM][k], &first);
        for (uint32_t i = first; i < end && st == HSP_OK; i++) {
            const struct hsp_instr *in = &p->tpl.instrs[i];
            if (in->kind != HSP_I_RESHARD) {
                continue;
            }
            const struct hsp_reshard_bind *r = &p->bind.reshard[in->arg];
            for (uint32_t m = 0; m < r->n_moves && st == HSP_OK; m++) {
                st = of_move(d, &r->moves[m], err);
            }
        }
    }
    return st;
}

enum hsp_status hsp_nccl_needs_find(const struct hsp_program *const *programs, uint32_t n,
                                    struct hsp_nccl_needs *ret, struct hsp_err *err)
{
    struct hsp_nccl_needs d = {.rank = programs[0]->bind.rank};
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        st = of_schedule(&d, programs[k], hsp_binding_train(&programs[k]->bind), err);
        if (st == HSP_OK) {
            st = of_schedule(&d, programs[k], &programs[k]->bind.eval, err);
        }
    }
    if (st != HSP_OK) {
        hsp_nccl_needs_fini(&d);
        return st;
    }
    *ret = d;
    return HSP_OK;
}
