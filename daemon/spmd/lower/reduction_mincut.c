#include "daemon/spmd/lower/reduction_mincut.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/lower/place_reductions.h"

#define NEVER (INT64_MAX / 4) /* capacity of an edge that is never cut */

struct edge {
    uint32_t to, next; /* next of the same vertex, HSP_NONE */
    int64_t left;      /* capacity that is left; edge i ^ 1 goes back */
};

/* Vertices: ops, sums, source, sink. */
struct flow {
    uint32_t n, source, sink, n_edges;
    uint32_t *first; /* [n]: edge, HSP_NONE; owned, as all below */
    uint32_t *via;   /* [n]: edge by which the search came */
    uint32_t *queue; /* [n] */
    bool *seen;      /* [n] */
    struct edge *edge;
};

static void free_flow(struct flow *f)
{
    free(f->first);
    free(f->via);
    free(f->queue);
    free(f->seen);
    free(f->edge);
}

static enum hsp_status new_flow(const struct hsp_sums *x, struct flow *f, struct hsp_err *err)
{
    f->source = x->n_ops + x->n;
    f->sink = f->source + 1;
    f->n = f->sink + 1;
    f->first = calloc(f->n, sizeof *f->first);
    f->via = calloc(f->n, sizeof *f->via);
    f->queue = calloc(f->n, sizeof *f->queue);
    f->seen = calloc(f->n, sizeof *f->seen);
    f->edge = calloc(2 * (2 * (size_t)x->n + 2 * (size_t)x->n_uses) + 1, sizeof *f->edge);
    if (f->first == NULL || f->via == NULL || f->queue == NULL || f->seen == NULL ||
        f->edge == NULL) {
        return hsp_err_nomem(err, "places of %u sums", x->n);
    }
    memset(f->first, 0xff, f->n * sizeof *f->first); /* HSP_NONE */
    return HSP_OK;
}

static void add_edge(struct flow *f, uint32_t from, uint32_t to, int64_t capacity)
{
    f->edge[f->n_edges] = (struct edge){to, f->first[from], capacity};
    f->first[from] = f->n_edges++;
    f->edge[f->n_edges] = (struct edge){from, f->first[to], 0};
    f->first[to] = f->n_edges++;
}

static void add_edges(struct flow *f, const struct hsp_sums *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const struct hsp_sum_place *s = &x->sum[i];
        bool made = s->maker != HSP_NONE;
        add_edge(f, made ? s->maker : f->source, x->n_ops + i, s->complete);
        if (s->needed) {
            add_edge(f, x->n_ops + i, f->sink, NEVER);
        }
    }
    for (uint32_t i = 0; i < x->n_uses; i++) {
        uint32_t maker = x->sum[x->use[i].sum].maker;
        add_edge(f, x->n_ops + x->use[i].sum, x->use[i].op, NEVER);
        if (maker != HSP_NONE) {
            add_edge(f, x->use[i].op, maker, NEVER);
        }
    }
}

/* Whether capacity is left on a way from the source to the sink: the shortest is in via. */
static bool find_way(struct flow *f)
{
    uint32_t n = 0;
    memset(f->seen, 0, f->n * sizeof *f->seen);
    f->queue[n++] = f->source;
    f->seen[f->source] = true;
    for (uint32_t i = 0; i < n && !f->seen[f->sink]; i++) {
        for (uint32_t e = f->first[f->queue[i]]; e != HSP_NONE; e = f->edge[e].next) {
            uint32_t to = f->edge[e].to;
            if (f->edge[e].left > 0 && !f->seen[to]) {
                f->seen[to] = true;
                f->via[to] = e;
                f->queue[n++] = to;
            }
        }
    }
    return f->seen[f->sink];
}

static void fill_way(struct flow *f)
{
    int64_t least = NEVER;
    for (uint32_t v = f->sink; v != f->source; v = f->edge[f->via[v] ^ 1].to) {
        least = f->edge[f->via[v]].left < least ? f->edge[f->via[v]].left : least;
    }
    for (uint32_t v = f->sink; v != f->source; v = f->edge[f->via[v] ^ 1].to) {
        f->edge[f->via[v]].left -= least;
        f->edge[f->via[v] ^ 1].left += least;
    }
}

/* Marks from where capacity is left to the sink: the smallest second side of all minimum cuts. */
static void mark_second(struct flow *f)
{
    uint32_t n = 0;
    memset(f->seen, 0, f->n * sizeof *f->seen);
    f->queue[n++] = f->sink;
    f->seen[f->sink] = true;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t e = f->first[f->queue[i]]; e != HSP_NONE; e = f->edge[e].next) {
            uint32_t from = f->edge[e].to;
            if (f->edge[e ^ 1].left > 0 && !f->seen[from]) {
                f->seen[from] = true;
                f->queue[n++] = from;
            }
        }
    }
}

enum hsp_status hsp_sums_cut(const struct hsp_sums *x, bool *ret_first, struct hsp_err *err)
{
    struct flow f = {0};
    enum hsp_status rc = new_flow(x, &f, err);
    if (rc == HSP_OK) {
        add_edges(&f, x);
        while (find_way(&f)) {
            fill_way(&f);
        }
        mark_second(&f);
        memcpy(ret_first, f.seen, x->n_ops * sizeof *ret_first);
    }
    free_flow(&f);
    return rc;
}
