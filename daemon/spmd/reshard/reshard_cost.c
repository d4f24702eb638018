#include "daemon/spmd/reshard/reshard_cost.h"

#include <math.h>
#include <string.h>

#include "proto/layout/annot.h" /* HSP_MAX_RANKS */
#include "proto/layout/box.h"

struct pricing {
    const struct hsp_rank_links *links;
    const struct hsp_move *m;
    double out[HSP_MAX_RANKS], in[HSP_MAX_RANKS]; /* us of the move at hand, by member */
    double after_us;                              /* of the moves behind its other messages */
    double latency_us;                            /* of its longest link */
};

static struct hsp_link_cost link_of(struct pricing *p, uint32_t a, uint32_t b)
{
    struct hsp_link_cost c = p->links->between(p->links->ctx, p->m->ranks[a], p->m->ranks[b]);
    p->latency_us = fmax(p->latency_us, c.latency_us);
    return c;
}

/* @bytes from member @a to member @b. */
static void message(struct pricing *p, uint32_t a, uint32_t b, double bytes)
{
    if (a != b && bytes > 0) {
        double us = bytes * link_of(p, a, b).us_per_byte;
        p->out[a] += us;
        p->in[b] += us;
    }
}

/* Messages of one cell; returns how many follow each other. */
static int cell_messages(struct pricing *p, const struct hsp_cell *c, double bytes)
{
    uint32_t n = p->m->n_ranks;
    switch ((enum hsp_move_kind)p->m->kind) {
    case HSP_MOVE_COPY: return 0;
    case HSP_MOVE_P2P: message(p, c->root, c->peer, bytes); return 1;
    case HSP_MOVE_ALL_GATHER:
        for (uint32_t k = 0; k < n; k++) {
            message(p, c->root, k, bytes);
        }
        return 1;
    case HSP_MOVE_REDUCE_SCATTER:
        for (uint32_t k = 0; k < n; k++) {
            message(p, k, c->root, bytes);
        }
        return 1;
    case HSP_MOVE_REDUCE_SEND:
        for (uint32_t k = 0; k < n; k++) {
            message(p, k, k == c->peer ? k : c->root, bytes);
        }
        p->after_us += bytes * link_of(p, c->root, c->peer).us_per_byte;
        return 2;
    case HSP_MOVE_ALL_REDUCE: /* every member adds its part of the cell and gives it to all */
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < n; k++) {
                message(p, i, k, 2 * bytes / n);
            }
        }
        return 2;
    }
    return 0;
}

static double move_us(struct pricing *p, size_t elem)
{
    double most = 0;
    int rounds = 0;
    p->latency_us = p->after_us = 0;
    memset(p->out, 0, p->m->n_ranks * sizeof *p->out);
    memset(p->in, 0, p->m->n_ranks * sizeof *p->in);
    for (uint32_t i = 0; i < p->m->n_cells; i++) {
        const struct hsp_cell *c = &p->m->cells[i];
        int n = cell_messages(p, c, (double)hsp_box_count(&c->box) * (double)elem);
        rounds = n > rounds ? n : rounds;
    }
    for (uint32_t k = 0; k < p->m->n_ranks; k++) {
        most = fmax(most, fmax(p->out[k], p->in[k]));
    }
    return most + p->after_us + rounds * p->latency_us;
}

double hsp_moves_us(const struct hsp_moves *m, size_t elem, const struct hsp_rank_links *links)
{
    struct pricing p = {.links = links};
    double ready[HSP_MAX_RANKS] = {0}, last = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        double start = 0;
        p.m = &m->move[i];
        for (uint32_t k = 0; k < p.m->n_ranks; k++) {
            start = fmax(start, ready[p.m->ranks[k]]);
        }
        double end = start + move_us(&p, elem);
        for (uint32_t k = 0; k < p.m->n_ranks; k++) {
            ready[p.m->ranks[k]] = end;
        }
        last = fmax(last, end);
    }
    return last;
}
