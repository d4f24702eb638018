#include "daemon/migrate/bsr_sources.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/migrate/bsr_impl.h"
#include "proto/base/vec.h"

#define ROUNDS 3

struct chooser {
    struct hsp_bsr_work *w;
    uint32_t *order;  /* cells with hops: those with a choice, then by size */
    uint32_t *source; /* [network domains] candidates of the running cell */
    uint64_t *seen;   /* [network domains] round in which the network domain was listed */
    uint64_t round;
    uint32_t n;
};

/* Lists the network domains of the holders, each once. */
static uint32_t list_sources(struct chooser *c, const struct hsp_bsr_cell *cell)
{
    uint32_t n = 0;
    c->round++;
    for (uint32_t i = 0; i < cell->n_src; i++) {
        uint32_t at = c->w->net_domain[c->w->ids[cell->first + i]];
        if (c->seen[at] != c->round) {
            c->seen[at] = c->round;
            c->source[n++] = at;
        }
    }
    return n;
}

/* Makes a hop to each network domain that has a receiver and no holder; its sender is chosen later.
 */
static enum hsp_status make_hops(struct chooser *c, struct hsp_bsr_cell *cell, struct hsp_err *err)
{
    struct hsp_bsr_work *w = c->w;
    (void)list_sources(c, cell);
    cell->hop = (uint32_t)w->n_hops;
    for (uint32_t i = 0; i < cell->n_dst; i++) {
        uint32_t at = w->net_domain[w->ids[cell->first + cell->n_src + i]];
        if (c->seen[at] == c->round) {
            continue;
        }
        if (!hsp_grow(&w->hop, &w->cap_hops, w->n_hops + 1, sizeof *w->hop, HSP_BSR_ROWS)) {
            return hsp_grow_error(w->n_hops + 1, HSP_BSR_ROWS, "ways of state", err);
        }
        c->seen[at] = c->round;
        w->hop[w->n_hops++] = (struct hsp_bsr_hop){HSP_NONE, at};
        w->isl[at].in += cell->bytes;
        cell->n_hops++;
    }
    return HSP_OK;
}

/* Undoes the earlier choice of senders for the cell, and gives each of its hops the sending network
 * domain that has the least to send for the speed of its network cards. */
static void choose(struct chooser *c, const struct hsp_bsr_cell *cell)
{
    struct hsp_bsr_work *w = c->w;
    struct hsp_bsr_hop *hop = w->hop + cell->hop;
    for (uint32_t i = 0; i < cell->n_hops; i++) {
        if (hop[i].from != HSP_NONE) {
            w->isl[hop[i].from].out -= cell->bytes;
        }
    }
    uint32_t n = list_sources(c, cell);
    for (uint32_t i = 0; i < cell->n_hops; i++) {
        uint32_t best = HSP_NONE;
        double least = 0;
        for (uint32_t k = 0; k < n; k++) {
            const struct hsp_bsr_domain *isl = &w->isl[c->source[k]];
            double load = (double)(isl->out + cell->bytes) / isl->bytes_per_us;
            if (best == HSP_NONE || load < least) {
                best = c->source[k];
                least = load;
            }
        }
        hop[i].from = best;
        w->isl[best].out += cell->bytes;
        c->source[n++] = hop[i].to; /* has it from here on */
    }
}

struct ranked {
    bool free;
    int64_t bytes;
    uint32_t cell;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->free != y->free) {
        return x->free ? 1 : -1;
    }
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    return x->cell < y->cell ? -1 : x->cell > y->cell;
}

/* Makes the hops of all cells, and sorts the cells into the order in which they choose senders. */
static enum hsp_status sort_cells(struct chooser *c, struct ranked *all, struct hsp_err *err)
{
    struct hsp_bsr_work *w = c->w;
    for (size_t i = 0; i < w->n_cells; i++) {
        struct hsp_bsr_cell *cell = &w->cell[i];
        enum hsp_status st = make_hops(c, cell, err);
        if (st != HSP_OK) {
            return st;
        }
        if (cell->n_hops > 0) {
            bool free = cell->n_hops > 1 || list_sources(c, cell) > 1;
            all[c->n++] = (struct ranked){free, cell->bytes, (uint32_t)i};
        }
    }
    if (c->n > 1) {
        qsort(all, c->n, sizeof *all, by_rank);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        c->order[i] = all[i].cell;
    }
    return HSP_OK;
}

enum hsp_status hsp_bsr_hops(struct hsp_bsr_work *w, struct hsp_err *err)
{
    size_t n = w->n_cells + 1, k = (size_t)w->n_net_domains + 1;
    struct chooser c = {.w = w,
                        .order = calloc(n, sizeof *c.order),
                        .source = calloc(k, sizeof *c.source),
                        .seen = calloc(k, sizeof *c.seen)};
    struct ranked *all = calloc(n, sizeof *all);
    enum hsp_status st = HSP_OK;
    if (c.order == NULL || c.source == NULL || c.seen == NULL || all == NULL) {
        st = hsp_err_nomem(err, "a transfer of state");
    } else {
        st = sort_cells(&c, all, err);
    }
    for (int round = 0; st == HSP_OK && round < ROUNDS; round++) {
        for (uint32_t i = 0; i < c.n; i++) {
            choose(&c, &w->cell[c.order[i]]);
        }
    }
    free(all);
    free(c.order);
    free(c.source);
    free(c.seen);
    return st;
}
