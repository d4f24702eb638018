#include "daemon/spmd/reshard/move_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/reshard/resolve_impl.h"
#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"

#define MAX_CELLS ((size_t)1 << 22) /* one Reshard: far above any plan, stops runaway input */
#define MAX_MOVES ((size_t)1 << 16)

/* ---- drafts ---- */

static bool same_pick(const uint8_t *a, const uint8_t *b, uint32_t n)
{
    return a == NULL || b == NULL ? a == b : memcmp(a, b, n) == 0;
}

/* A reduction that is sent on has one root and one peer in all its cells. */
static bool fits(const struct hsp_move_draft *d, const struct hsp_draft_key *k, uint32_t root,
                 uint32_t peer)
{
    bool one_pair = k->kind == HSP_MOVE_REDUCE_SEND;
    return d->kind == k->kind &&
           (!one_pair || (d->cell[0].root == root && d->cell[0].peer == peer)) &&
           d->src == k->src && d->of_sums == k->of_sums && d->n_ranks == k->n_ranks &&
           (k->n_ranks == 0 || memcmp(d->ranks, k->ranks, k->n_ranks * sizeof *k->ranks) == 0) &&
           same_pick(d->pick, k->pick, k->n_ranks);
}

static enum hsp_status new_draft(struct hsp_drafts *x, const struct hsp_draft_key *k,
                                 struct hsp_err *err)
{
    if (!hsp_grow(&x->d, &x->cap, x->n + 1, sizeof *x->d, MAX_MOVES)) {
        return hsp_grow_error(x->n + 1, MAX_MOVES, "moves of a reshard", err);
    }
    struct hsp_move_draft *d = &x->d[x->n];
    *d = (struct hsp_move_draft){.kind = k->kind, .src = k->src, .of_sums = k->of_sums};
    x->n++; /* from here on it is freed with the others */
    if (k->n_ranks > 0) {
        d->ranks = calloc(k->n_ranks, sizeof *d->ranks);
        d->pick = k->pick != NULL ? calloc(k->n_ranks, 1) : NULL;
        if (d->ranks == NULL || (k->pick != NULL && d->pick == NULL)) {
            return hsp_err_nomem(err, "moves of a reshard");
        }
        d->n_ranks = k->n_ranks;
        memcpy(d->ranks, k->ranks, k->n_ranks * sizeof *d->ranks);
        if (d->pick != NULL) {
            memcpy(d->pick, k->pick, k->n_ranks);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_drafts_add(struct hsp_drafts *x, const struct hsp_draft_key *key,
                               const struct hsp_box *box, uint32_t root, uint32_t peer,
                               struct hsp_err *err)
{
    size_t i = x->n; /* neighbours in space mostly have equal groups: the latest first */
    while (i > 0 && !fits(&x->d[i - 1], key, root, peer)) {
        i--;
    }
    if (i == 0) {
        enum hsp_status rc = new_draft(x, key, err);
        if (rc != HSP_OK) {
            return rc;
        }
        i = x->n;
    }
    struct hsp_move_draft *d = &x->d[i - 1];
    if (!hsp_grow(&d->cell, &d->cap, d->n + 1, sizeof *d->cell, MAX_CELLS)) {
        return hsp_grow_error(d->n + 1, MAX_CELLS, "cells of a move", err);
    }
    d->cell[d->n++] = (struct hsp_cell){.box = *box, .root = root, .peer = peer};
    return HSP_OK;
}

void hsp_drafts_fini(struct hsp_drafts *x)
{
    for (size_t i = 0; i < x->n; i++) {
        free(x->d[i].ranks);
        free(x->d[i].pick);
        free(x->d[i].cell);
    }
    free(x->d);
    x->d = NULL;
    x->n = x->cap = 0;
}

/* ---- finishing ---- */

static int by_rank(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static uint32_t index_of(const uint32_t *list, uint32_t n, uint32_t rank)
{
    const uint32_t *at = bsearch(&rank, list, n, sizeof *list, by_rank);
    HSP_ASSERT(at != NULL); /* roots and peers are members of their group */
    return (uint32_t)(at - list);
}

/* The group of a P2P move: every sender and receiver. */
static enum hsp_status p2p_ranks(struct hsp_move_draft *d, struct hsp_err *err)
{
    bool member[HSP_MAX_RANKS] = {false};
    uint32_t n = 0;
    for (size_t c = 0; c < d->n; c++) {
        n += (member[d->cell[c].root] ? 0 : 1);
        member[d->cell[c].root] = true;
        n += (member[d->cell[c].peer] ? 0 : 1);
        member[d->cell[c].peer] = true;
    }
    d->ranks = calloc(n, sizeof *d->ranks);
    d->pick = d->src != HSP_MOVE_SUM ? calloc(n, 1) : NULL;
    if (d->ranks == NULL || (d->src != HSP_MOVE_SUM && d->pick == NULL)) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    for (uint32_t k = 0; k < HSP_MAX_RANKS && d->n_ranks < n; k++) {
        if (member[k]) {
            d->ranks[d->n_ranks++] = k;
        }
    }
    return HSP_OK;
}

/* @like: channel and reduction of the move. */
static enum hsp_status finish_move(struct hsp_move_draft *d, const struct hsp_move *like,
                                   struct hsp_arena *arena, struct hsp_move *ret,
                                   uint8_t **ret_pick, struct hsp_err *err)
{
    if (d->kind == HSP_MOVE_P2P) {
        enum hsp_status rc = p2p_ranks(d, err);
        if (rc != HSP_OK) {
            return rc;
        }
        if (d->pick != NULL) {
            memset(d->pick, d->src, d->n_ranks);
        }
    }
    *ret = (struct hsp_move){.kind = d->kind,
                             .src = d->of_sums ? HSP_MOVE_FROM_OUT : 0,
                             .n_ranks = d->n_ranks,
                             .reduce = like->reduce,
                             .channel = like->channel};
    ret->n_cells = (uint32_t)d->n;
    ret->ranks = hsp_arena_memdup(arena, d->ranks, d->n_ranks * sizeof *d->ranks);
    ret->cells = hsp_arena_memdup(arena, d->cell, d->n * sizeof *d->cell);
    *ret_pick = d->pick != NULL ? hsp_arena_memdup(arena, d->pick, d->n_ranks) : NULL;
    if (ret->ranks == NULL || ret->cells == NULL || (d->pick != NULL && *ret_pick == NULL)) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    bool has_peer = d->kind == HSP_MOVE_P2P || d->kind == HSP_MOVE_REDUCE_SEND;
    for (uint32_t c = 0; c < ret->n_cells; c++) {
        struct hsp_cell *cell = &ret->cells[c];
        bool all = d->kind == HSP_MOVE_ALL_REDUCE;
        cell->root = all ? 0 : index_of(d->ranks, d->n_ranks, cell->root);
        cell->peer = has_peer ? index_of(d->ranks, d->n_ranks, cell->peer) : 0;
    }
    return HSP_OK;
}

/* Copies first, then collectives, then sends, then sends of sums made before. */
static int phase_of(const struct hsp_move_draft *d)
{
    if (d->kind == HSP_MOVE_COPY) {
        return 0;
    }
    if (d->kind != HSP_MOVE_P2P) {
        return 1;
    }
    return d->of_sums ? 3 : 2;
}

/* Whether item @i is the first of several of its rank. */
static bool first_of_several(const struct hsp_cover *c, uint32_t i)
{
    return (i == 0 || c->items[i - 1].rank != c->items[i].rank) && i + 1 < c->n &&
           c->items[i + 1].rank == c->items[i].rank;
}

static enum hsp_status list_inputs(const struct hsp_cover *src, struct hsp_arena *arena,
                                   struct hsp_moves *m, struct hsp_err *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < src->n; i++) {
        n += first_of_several(src, i) ? 1 : 0;
    }
    m->inputs = n > 0 ? hsp_arena_array(arena, n, sizeof *m->inputs) : NULL;
    if (n > 0 && m->inputs == NULL) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    for (uint32_t i = 0; n > 0 && i < src->n; i++) {
        if (!first_of_several(src, i)) {
            continue;
        }
        struct hsp_inputs *in = &m->inputs[m->n_inputs++];
        in->rank = src->items[i].rank;
        while (i + in->n < src->n && src->items[i + in->n].rank == in->rank) {
            in->n++;
        }
        in->box = hsp_arena_array(arena, in->n, sizeof *in->box);
        if (in->box == NULL) {
            return hsp_err_nomem(err, "moves of a reshard");
        }
        for (uint32_t k = 0; k < in->n; k++) {
            in->box[k] = src->items[i + k].box;
        }
    }
    return HSP_OK;
}

static enum hsp_status list_moves(struct hsp_drafts *x, const struct hsp_move *first,
                                  struct hsp_arena *arena, struct hsp_moves *m, struct hsp_err *err)
{
    struct hsp_move like = *first;
    bool picks = false;
    m->move = hsp_arena_array(arena, x->n, sizeof *m->move);
    m->pick = hsp_arena_array(arena, x->n, sizeof *m->pick);
    if (m->move == NULL || m->pick == NULL) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    for (int phase = 0; phase < 4; phase++) {
        for (size_t i = 0; i < x->n; i++) {
            if (phase_of(&x->d[i]) != phase) {
                continue;
            }
            like.channel = first->channel + m->n;
            enum hsp_status rc =
                finish_move(&x->d[i], &like, arena, &m->move[m->n], &m->pick[m->n], err);
            if (rc != HSP_OK) {
                return rc;
            }
            picks = picks || m->pick[m->n] != NULL;
            m->n++;
        }
    }
    m->pick = picks ? m->pick : NULL;
    return HSP_OK;
}

enum hsp_status hsp_drafts_finish(struct hsp_drafts *x, const struct hsp_tasks *t,
                                  uint32_t *channel, struct hsp_arena *arena, struct hsp_moves *ret,
                                  struct hsp_err *err)
{
    struct hsp_moves m = {0};
    const struct hsp_move first = {.channel = *channel, .reduce = t->src->reduce};
    enum hsp_status rc = list_moves(x, &first, arena, &m, err);
    if (rc == HSP_OK) {
        rc = list_inputs(t->src, arena, &m, err);
    }
    if (rc != HSP_OK) {
        return rc;
    }
    m.zero = hsp_arena_array(arena, t->dst->n, sizeof *m.zero);
    if (m.zero == NULL) {
        return hsp_err_nomem(err, "moves of a reshard");
    }
    for (uint32_t i = 0; i < t->dst->n; i++) {
        if (t->zero[t->dst->items[i].rank]) {
            m.zero[m.n_zero++] = t->dst->items[i].rank;
        }
    }
    *channel += m.n;
    *ret = m;
    return HSP_OK;
}

/* ---- one rank's part ---- */

static bool in_list(const uint32_t *list, uint32_t n, uint32_t rank)
{
    return n > 0 && bsearch(&rank, list, n, sizeof *list, by_rank) != NULL;
}

static bool move_adds(uint8_t kind)
{
    return kind == HSP_MOVE_ALL_REDUCE || kind == HSP_MOVE_REDUCE_SCATTER ||
           kind == HSP_MOVE_REDUCE_SEND;
}

static bool takes_part(const struct hsp_move *m, const struct hsp_cell *c, uint32_t rank)
{
    return m->kind != HSP_MOVE_P2P || m->ranks[c->root] == rank || m->ranks[c->peer] == rank;
}

/* Whether input @k alone holds the cells of @m that @rank gives. */
static bool holds_alone(const struct hsp_inputs *in, uint32_t k, const struct hsp_move *m)
{
    for (uint32_t c = 0; c < m->n_cells; c++) {
        const struct hsp_cell *cell = &m->cells[c];
        bool rooted = m->kind == HSP_MOVE_P2P || m->kind == HSP_MOVE_ALL_GATHER;
        if (rooted && m->ranks[cell->root] != in->rank) {
            continue;
        }
        for (uint32_t i = 0; i < in->n; i++) {
            if (hsp_box_inside(&cell->box, &in->box[i]) != (i == k)) {
                return false;
            }
        }
    }
    return true;
}

/* Which input of @rank, member @me, move @i reads. */
static uint8_t source_of(const struct hsp_moves *m, uint32_t i, uint32_t me)
{
    const struct hsp_move *v = &m->move[i];
    uint8_t pick = m->pick != NULL && m->pick[i] != NULL ? m->pick[i][me] : HSP_MOVE_SUM;
    if (v->src == HSP_MOVE_FROM_OUT || pick != HSP_MOVE_SUM) {
        return v->src == HSP_MOVE_FROM_OUT ? v->src : pick;
    }
    for (uint32_t k = 0; k < m->n_inputs; k++) {
        const struct hsp_inputs *in = &m->inputs[k];
        for (uint32_t one = 0; in->rank == v->ranks[me] && one < in->n; one++) {
            if (holds_alone(in, one, v)) {
                return (uint8_t)one;
            }
        }
        if (in->rank == v->ranks[me]) {
            return HSP_MOVE_SUM;
        }
    }
    return 0;
}

static enum hsp_status bind_cells(const struct hsp_move *from, uint32_t rank, bool batch_dim0,
                                  struct hsp_arena *arena, struct hsp_move *to, struct hsp_err *err)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < from->n_cells; c++) {
        n += takes_part(from, &from->cells[c], rank) ? 1 : 0;
    }
    if (n == from->n_cells && !batch_dim0) {
        return HSP_OK; /* shared with the other ranks */
    }
    to->n_cells = 0;
    to->cells = hsp_arena_array(arena, n, sizeof *to->cells);
    if (to->cells == NULL) {
        return hsp_err_nomem(err, "moves of rank %u", rank);
    }
    for (uint32_t c = 0; c < from->n_cells; c++) {
        if (takes_part(from, &from->cells[c], rank)) {
            struct hsp_cell *cell = &to->cells[to->n_cells++];
            *cell = from->cells[c];
            cell->box.hi[0] = batch_dim0 ? HSP_TO_END : cell->box.hi[0];
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_moves_bind(const struct hsp_moves *m, uint32_t rank, bool batch_dim0,
                               struct hsp_arena *arena, struct hsp_reshard_bind *ret,
                               struct hsp_err *err)
{
    struct hsp_reshard_bind b = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_zero; i++) {
        b.zero_first = b.zero_first || m->zero[i] == rank;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        n += in_list(m->move[i].ranks, m->move[i].n_ranks, rank) ? 1 : 0;
    }
    b.moves = hsp_arena_array(arena, n, sizeof *b.moves);
    if (b.moves == NULL) {
        return hsp_err_nomem(err, "moves of rank %u", rank);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const struct hsp_move *from = &m->move[i];
        if (!in_list(from->ranks, from->n_ranks, rank)) {
            continue;
        }
        struct hsp_move *to = &b.moves[b.n_moves++];
        *to = *from; /* group and, where they are the same, cells are shared with the other ranks */
        to->src = source_of(m, i, index_of(from->ranks, from->n_ranks, rank));
        bool adds = move_adds(from->kind) || to->src == HSP_MOVE_SUM;
        to->reduce = adds ? from->reduce : (uint8_t)HSP_REDUCE_SUM;
        enum hsp_status rc = bind_cells(from, rank, batch_dim0, arena, to, err);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    *ret = b;
    return HSP_OK;
}
