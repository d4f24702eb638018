#include "daemon/spmd/resolve.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/base/check.h"
#include "proto/base/vec.h"
#include "proto/layout/annot.h" /* HSP_MAX_RANKS */

#define MAX_CELLS ((size_t)1 << 22) /* one Reshard: far above any plan, stops runaway input */
#define MAX_MOVES ((size_t)1 << 16)

/* A move under construction; roots and peers are ranks until it is finished. */
struct draft {
    uint8_t kind, src;
    uint32_t n_ranks;
    uint32_t *ranks;       /* owned; P2P: filled at the end */
    struct hsp_cell *cell; /* owned */
    size_t n, cap;
};

struct resolver {
    const struct hsp_cover *src, *dst;
    const struct hsp_resolve_opts *opts;
    struct draft *d; /* owned */
    size_t n, cap;
    int64_t load[HSP_MAX_RANKS]; /* elements sent by each rank */
    bool zero[HSP_MAX_RANKS];
};

/* One cell while it is resolved: ranks in ascending order. */
struct job {
    const struct hsp_box *box;
    uint32_t n_recv, recv[HSP_MAX_RANKS];
    uint32_t n_hold, hold[HSP_MAX_RANKS], addend[HSP_MAX_RANKS];
};

static bool in_list(const uint32_t *list, uint32_t n, uint32_t rank)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == rank) {
            return true;
        }
    }
    return false;
}

static int by_rank(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static enum hsp_status add_cell(struct resolver *r, uint8_t kind, uint8_t src,
                                const uint32_t *ranks, uint32_t n_ranks, const struct hsp_box *box,
                                uint32_t root, uint32_t peer, struct hsp_err *err)
{
    size_t i = 0;
    for (; i < r->n; i++) {
        const struct draft *d = &r->d[i];
        if (d->kind == kind && d->src == src && d->n_ranks == n_ranks &&
            (n_ranks == 0 || memcmp(d->ranks, ranks, n_ranks * sizeof *ranks) == 0)) {
            break;
        }
    }
    if (i == r->n) {
        if (!hsp_grow(&r->d, &r->cap, r->n + 1, sizeof *r->d, MAX_MOVES)) {
            return hsp_grow_error(r->n + 1, MAX_MOVES, "moves of a reshard", err);
        }
        struct draft *d = &r->d[r->n];
        *d = (struct draft){.kind = kind, .src = src, .n_ranks = n_ranks};
        d->ranks = n_ranks > 0 ? calloc(n_ranks, sizeof *ranks) : NULL;
        r->n++; /* from here on it is freed with the others */
        if (n_ranks > 0) {
            if (d->ranks == NULL) {
                return hsp_err_set(err, HSP_ENOMEM, 0, "moves of a reshard");
            }
            memcpy(d->ranks, ranks, n_ranks * sizeof *ranks);
        }
    }
    struct draft *d = &r->d[i];
    if (!hsp_grow(&d->cell, &d->cap, d->n + 1, sizeof *d->cell, MAX_CELLS)) {
        return hsp_grow_error(d->n + 1, MAX_CELLS, "cells of a move", err);
    }
    d->cell[d->n++] = (struct hsp_cell){.box = *box, .root = root, .peer = peer};
    return HSP_OK;
}

static enum hsp_status add_p2p(struct resolver *r, uint8_t src, const struct hsp_box *box,
                               uint32_t from, uint32_t to, struct hsp_err *err)
{
    r->load[from] += hsp_box_count(box);
    return add_cell(r, HSP_MOVE_P2P, src, NULL, 0, box, from, to, err);
}

static uint32_t least_loaded(const struct resolver *r, const uint32_t *list, uint32_t n)
{
    uint32_t best = list[0];
    for (uint32_t i = 1; i < n; i++) {
        best = r->load[list[i]] < r->load[best] ? list[i] : best;
    }
    return best;
}

/* One addend: nothing is added, only copied. */
static enum hsp_status resolve_plain(struct resolver *r, struct job *j, struct hsp_err *err)
{
    uint32_t both[HSP_MAX_RANKS], n_both = 0;
    for (uint32_t i = 0; i < j->n_hold; i++) {
        if (in_list(j->recv, j->n_recv, j->hold[i])) {
            both[n_both++] = j->hold[i];
        }
    }
    if (r->opts->owner_bytes && j->n_hold > 1) {
        j->hold[0] = n_both > 0 ? both[0] : j->hold[0];
        j->n_hold = 1;
        n_both = n_both > 0 ? 1 : 0;
    }
    if (n_both == 1 && j->n_recv > 1) { /* whether it stays an all-gather is decided at the end */
        r->load[both[0]] += hsp_box_count(j->box) * (j->n_recv - 1);
        return add_cell(r, HSP_MOVE_ALL_GATHER, 0, j->recv, j->n_recv, j->box, both[0], 0, err);
    }
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < j->n_recv; i++) {
        uint32_t to = j->recv[i];
        if (in_list(both, n_both, to)) {
            rc = add_cell(r, HSP_MOVE_COPY, 0, &to, 1, j->box, to, to, err);
        } else {
            rc = add_p2p(r, 0, j->box, least_loaded(r, j->hold, j->n_hold), to, err);
        }
    }
    return rc;
}

/* One holder per addend, receivers preferred, then the least loaded. */
static uint32_t choose_group(const struct resolver *r, const struct job *j, uint32_t *ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < j->n_hold; i++) {
        uint32_t best = HSP_MAX_RANKS;
        bool first = true, best_recv = false;
        for (uint32_t k = 0; k < i; k++) {
            first = first && j->addend[k] != j->addend[i];
        }
        for (uint32_t k = i; first && k < j->n_hold; k++) {
            if (j->addend[k] != j->addend[i]) {
                continue;
            }
            bool recv = in_list(j->recv, j->n_recv, j->hold[k]);
            if (best == HSP_MAX_RANKS || (recv && !best_recv) ||
                (recv == best_recv && r->load[j->hold[k]] < r->load[best])) {
                best = j->hold[k];
                best_recv = recv;
            }
        }
        if (first) {
            ret[n++] = best;
        }
    }
    qsort(ret, n, sizeof *ret, by_rank);
    return n;
}

static enum hsp_status resolve_sum(struct resolver *r, const struct job *j, struct hsp_err *err)
{
    uint32_t group[HSP_MAX_RANKS], both[HSP_MAX_RANKS], n_both = 0;
    uint32_t n = choose_group(r, j, group);
    for (uint32_t i = 0; i < n; i++) {
        if (in_list(j->recv, j->n_recv, group[i])) {
            both[n_both++] = group[i];
        }
    }
    if (n_both == 0) {
        return hsp_err_set(err, HSP_EINFEASIBLE, 0, "none of the ranks that add receives the sum");
    }
    for (uint32_t i = 0; i < n; i++) {
        r->load[group[i]] += hsp_box_count(j->box);
    }
    enum hsp_status rc;
    if (n_both == n) {
        rc = add_cell(r, HSP_MOVE_ALL_REDUCE, 0, group, n, j->box, group[0], group[0], err);
    } else {
        both[0] = least_loaded(r, both, n_both);
        n_both = 1;
        rc = add_cell(r, HSP_MOVE_REDUCE_SCATTER, 0, group, n, j->box, both[0], both[0], err);
    }
    for (uint32_t i = 0; rc == HSP_OK && i < j->n_recv; i++) {
        if (!in_list(both, n_both, j->recv[i])) {
            uint32_t from = least_loaded(r, both, n_both);
            rc = add_p2p(r, HSP_MOVE_FROM_OUT, j->box, from, j->recv[i], err);
        }
    }
    return rc;
}

static enum hsp_status resolve_cell(void *ctx, const struct hsp_region *g, struct hsp_err *err)
{
    struct resolver *r = ctx;
    struct job j = {.box = &g->box};
    bool sum = false;
    for (uint32_t i = 0; i < g->n_dst; i++) {
        j.recv[j.n_recv++] = r->dst->items[g->dst[i]].rank;
    }
    for (uint32_t i = 0; i < g->n_src; i++) {
        const struct hsp_held *h = &r->src->items[g->src[i]];
        j.hold[j.n_hold] = h->rank;
        j.addend[j.n_hold++] = h->addend;
        sum = sum || h->addend != j.addend[0];
    }
    if (j.n_recv == 0) {
        return HSP_OK;
    }
    if (j.n_hold == 0) {
        for (uint32_t i = 0; i < j.n_recv; i++) {
            r->zero[j.recv[i]] = true;
        }
        return HSP_OK;
    }
    return sum ? resolve_sum(r, &j, err) : resolve_plain(r, &j, err);
}

/* A gather of cells of one root is a broadcast: sent directly. */
static enum hsp_status settle_gathers(struct resolver *r, struct hsp_err *err)
{
    for (size_t i = 0, n = r->n; i < n; i++) {
        bool several = false;
        for (size_t c = 0; c < r->d[i].n; c++) {
            several = several || r->d[i].cell[c].root != r->d[i].cell[0].root;
        }
        if (r->d[i].kind != HSP_MOVE_ALL_GATHER || several) {
            continue;
        }
        struct draft g = r->d[i];
        r->d[i] = (struct draft){.kind = HSP_MOVE_ALL_GATHER}; /* without cells: dropped later */
        enum hsp_status rc = HSP_OK;
        for (size_t c = 0; rc == HSP_OK && c < g.n; c++) {
            const struct hsp_cell *cell = &g.cell[c];
            rc = add_cell(r, HSP_MOVE_COPY, 0, &cell->root, 1, &cell->box, cell->root, cell->root,
                          err);
            for (uint32_t k = 0; rc == HSP_OK && k < g.n_ranks; k++) {
                if (g.ranks[k] != cell->root) {
                    rc = add_cell(r, HSP_MOVE_P2P, 0, NULL, 0, &cell->box, cell->root, g.ranks[k],
                                  err);
                }
            }
        }
        free(g.ranks);
        free(g.cell);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    return HSP_OK;
}

static uint32_t index_of(const uint32_t *list, uint32_t n, uint32_t rank)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i] == rank) {
            return i;
        }
    }
    HSP_ASSERT(n == UINT32_MAX); /* roots and peers are members of their group */
    return 0;
}

/* The group of a P2P move: everyone who sends or receives. */
static enum hsp_status p2p_ranks(struct draft *d, struct hsp_err *err)
{
    bool *member = calloc(HSP_MAX_RANKS, sizeof *member);
    d->ranks = calloc(HSP_MAX_RANKS, sizeof *d->ranks);
    if (member == NULL || d->ranks == NULL) {
        free(member);
        return hsp_err_set(err, HSP_ENOMEM, 0, "moves of a reshard");
    }
    for (size_t c = 0; c < d->n; c++) {
        member[d->cell[c].root] = member[d->cell[c].peer] = true;
    }
    for (uint32_t k = 0; k < HSP_MAX_RANKS; k++) {
        if (member[k]) {
            d->ranks[d->n_ranks++] = k;
        }
    }
    free(member);
    return HSP_OK;
}

static enum hsp_status finish_move(struct draft *d, uint32_t channel, struct hsp_arena *arena,
                                   struct hsp_move *ret, struct hsp_err *err)
{
    if (d->kind == HSP_MOVE_P2P) {
        enum hsp_status rc = p2p_ranks(d, err);
        if (rc != HSP_OK) {
            return rc;
        }
    }
    *ret = (struct hsp_move){
        .kind = d->kind, .src = d->src, .n_ranks = d->n_ranks, .channel = channel};
    ret->n_cells = (uint32_t)d->n;
    ret->ranks = hsp_arena_memdup(arena, d->ranks, d->n_ranks * sizeof *d->ranks);
    ret->cells = hsp_arena_memdup(arena, d->cell, d->n * sizeof *d->cell);
    if (ret->ranks == NULL || ret->cells == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "moves of a reshard");
    }
    for (uint32_t c = 0; c < ret->n_cells; c++) {
        struct hsp_cell *cell = &ret->cells[c];
        bool all = d->kind == HSP_MOVE_ALL_REDUCE;
        cell->root = all ? 0 : index_of(d->ranks, d->n_ranks, cell->root);
        cell->peer = d->kind == HSP_MOVE_P2P ? index_of(d->ranks, d->n_ranks, cell->peer) : 0;
    }
    return HSP_OK;
}

/* Copies first, then collectives, then sends, then sends of sums made before. */
static int phase_of(const struct draft *d)
{
    if (d->kind == HSP_MOVE_COPY) {
        return 0;
    }
    if (d->kind != HSP_MOVE_P2P) {
        return 1;
    }
    return d->src == HSP_MOVE_FROM_OUT ? 3 : 2;
}

static enum hsp_status finish(struct resolver *r, uint32_t *channel, struct hsp_arena *arena,
                              struct hsp_moves *ret, struct hsp_err *err)
{
    struct hsp_moves m = {0};
    uint32_t used = 0;
    m.move = hsp_arena_array(arena, r->n, sizeof *m.move);
    m.zero = hsp_arena_array(arena, r->dst->n, sizeof *m.zero);
    if (m.move == NULL || m.zero == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "moves of a reshard");
    }
    for (int phase = 0; phase < 4; phase++) {
        for (size_t i = 0; i < r->n; i++) {
            if (phase_of(&r->d[i]) != phase || r->d[i].n == 0) {
                continue;
            }
            enum hsp_status rc = finish_move(&r->d[i], *channel + used, arena, &m.move[m.n], err);
            if (rc != HSP_OK) {
                return rc;
            }
            used++;
            m.n++;
        }
    }
    for (uint32_t k = 0; k < HSP_MAX_RANKS; k++) {
        if (r->zero[k]) {
            m.zero[m.n_zero++] = k;
        }
    }
    *channel += used;
    *ret = m;
    return HSP_OK;
}

static enum hsp_status check_cover(const struct hsp_cover *c, struct hsp_err *err)
{
    bool seen[HSP_MAX_RANKS] = {false};
    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t rank = c->items[i].rank;
        if (rank >= HSP_MAX_RANKS) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "rank %u above limit %d", rank, HSP_MAX_RANKS);
        }
        if (seen[rank]) {
            return hsp_err_set(err, HSP_EINVAL, 0, "rank %u holds two boxes", rank);
        }
        seen[rank] = true;
    }
    return HSP_OK;
}

enum hsp_status hsp_resolve(const struct hsp_cover *src, const struct hsp_cover *dst,
                            const struct hsp_resolve_opts *opts, uint32_t *channel,
                            struct hsp_arena *arena, struct hsp_moves *ret, struct hsp_err *err)
{
    static const struct hsp_resolve_opts plain = {0};
    enum hsp_status rc = check_cover(src, err);
    if (rc == HSP_OK) {
        rc = check_cover(dst, err);
    }
    if (rc == HSP_OK && src->rank != dst->rank) {
        rc = hsp_err_set(err, HSP_EINVAL, 0, "covers of rank %u and %u", src->rank, dst->rank);
    }
    for (uint8_t d = 0; rc == HSP_OK && d < src->rank; d++) {
        if (src->extent[d] != dst->extent[d]) {
            rc = hsp_err_set(err, HSP_EINVAL, 0, "covers of extents %" PRId64 " and %" PRId64,
                             src->extent[d], dst->extent[d]);
        }
    }
    if (rc != HSP_OK) {
        return rc;
    }
    struct resolver *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "moves of a reshard");
    }
    *r = (struct resolver){.src = src, .dst = dst, .opts = opts != NULL ? opts : &plain};
    uint32_t n_load = r->opts->load != NULL ? r->opts->n_load : 0;
    HSP_ASSERT(n_load <= HSP_MAX_RANKS);
    if (n_load > 0) {
        memcpy(r->load, r->opts->load, n_load * sizeof *r->load);
    }
    rc = hsp_regions(src, dst, resolve_cell, r, err);
    if (rc == HSP_OK) {
        rc = settle_gathers(r, err);
    }
    if (rc == HSP_OK) {
        rc = finish(r, channel, arena, ret, err);
    }
    if (rc == HSP_OK && n_load > 0) {
        memcpy(r->opts->load, r->load, n_load * sizeof *r->load);
    }
    for (size_t i = 0; i < r->n; i++) {
        free(r->d[i].ranks);
        free(r->d[i].cell);
    }
    free(r->d);
    free(r);
    return rc;
}

/* ---- one rank's part ---- */

static bool takes_part(const struct hsp_move *m, const struct hsp_cell *c, uint32_t rank)
{
    return m->kind != HSP_MOVE_P2P || m->ranks[c->root] == rank || m->ranks[c->peer] == rank;
}

enum hsp_status hsp_moves_bind(const struct hsp_moves *m, uint32_t rank, bool batch_dim0,
                               struct hsp_arena *arena, struct hsp_reshard_bind *ret,
                               struct hsp_err *err)
{
    struct hsp_reshard_bind b = {.zero_first = in_list(m->zero, m->n_zero, rank)};
    b.moves = hsp_arena_array(arena, m->n, sizeof *b.moves);
    if (b.moves == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "moves of rank %u", rank);
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const struct hsp_move *from = &m->move[i];
        uint32_t n = 0;
        if (!in_list(from->ranks, from->n_ranks, rank)) {
            continue;
        }
        for (uint32_t c = 0; c < from->n_cells; c++) {
            n += takes_part(from, &from->cells[c], rank) ? 1 : 0;
        }
        struct hsp_move *to = &b.moves[b.n_moves++];
        *to = *from; /* group and, below, cells; the group is shared with the other ranks */
        to->n_cells = 0;
        to->cells = hsp_arena_array(arena, n, sizeof *to->cells);
        if (to->cells == NULL) {
            return hsp_err_set(err, HSP_ENOMEM, 0, "moves of rank %u", rank);
        }
        for (uint32_t c = 0; c < from->n_cells; c++) {
            if (takes_part(from, &from->cells[c], rank)) {
                struct hsp_cell *cell = &to->cells[to->n_cells++];
                *cell = from->cells[c];
                cell->box.hi[0] = batch_dim0 ? HSP_TO_END : cell->box.hi[0];
            }
        }
    }
    *ret = b;
    return HSP_OK;
}

bool hsp_moves_local(const struct hsp_moves *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->move[i].kind != HSP_MOVE_COPY) {
            return false;
        }
    }
    return true;
}

const char *hsp_move_name(uint8_t kind)
{
    switch ((enum hsp_move_kind)kind) {
    case HSP_MOVE_COPY: return "copy";
    case HSP_MOVE_P2P: return "p2p";
    case HSP_MOVE_ALL_REDUCE: return "all_reduce";
    case HSP_MOVE_REDUCE_SCATTER: return "reduce_scatter";
    case HSP_MOVE_ALL_GATHER: return "all_gather";
    }
    return "unknown";
}

void hsp_moves_dump(const struct hsp_moves *m, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct hsp_move *v = &m->move[i];
        hsp_buf_printf(out, "%s%s {", hsp_move_name(v->kind),
                       v->src == HSP_MOVE_FROM_OUT ? " of sums" : "");
        for (uint32_t k = 0; k < v->n_ranks; k++) {
            hsp_buf_printf(out, "%s%u", k > 0 ? "," : "", v->ranks[k]);
        }
        hsp_buf_puts(out, "}");
        for (uint32_t c = 0; c < v->n_cells; c++) {
            const struct hsp_cell *cell = &v->cells[c];
            hsp_buf_puts(out, " [");
            for (uint8_t d = 0; d < cell->box.rank; d++) {
                hsp_buf_printf(out, "%s%" PRId64 ":%" PRId64, d > 0 ? "," : "", cell->box.lo[d],
                               cell->box.hi[d]);
            }
            hsp_buf_puts(out, "]");
            if (v->kind == HSP_MOVE_P2P) {
                hsp_buf_printf(out, " %u->%u", v->ranks[cell->root], v->ranks[cell->peer]);
            } else if (v->kind != HSP_MOVE_ALL_REDUCE && v->kind != HSP_MOVE_COPY) {
                hsp_buf_printf(out, " @%u", v->ranks[cell->root]);
            }
        }
        hsp_buf_puts(out, "\n");
    }
}
