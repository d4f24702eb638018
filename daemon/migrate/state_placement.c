#include "daemon/migrate/state_placement.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>

#include "proto/base/vec.h"
#include "proto/layout/cover_cells.h"

#define MAX_ROWS ((size_t)1 << 24)

enum hsp_status hsp_have_home(const struct hsp_cover *old_home, const uint32_t *mesh,
                              uint32_t n_old, struct hsp_cover *ret, struct hsp_err *err)
{
    hsp_cover_init(ret, old_home->rank, old_home->extent);
    for (uint32_t i = 0; i < old_home->n; i++) {
        const struct hsp_held *h = &old_home->items[i];
        if (h->rank >= n_old || mesh[h->rank] == HSP_NONE) {
            continue;
        }
        enum hsp_status rc = hsp_cover_add(ret, mesh[h->rank], 0, &h->box);
        if (rc != HSP_OK) {
            hsp_cover_fini(ret);
            return hsp_err_about(err, rc, "sources of state");
        }
    }
    hsp_cover_normalise(ret);
    return HSP_OK;
}

enum hsp_status hsp_have_copies(const struct hsp_state_table *copies, uint32_t param,
                                const uint32_t *mesh, uint32_t n_old, struct hsp_cover *have,
                                struct hsp_err *err)
{
    for (uint32_t i = 0; i < copies->n; i++) {
        const struct hsp_state_row *r = &copies->row[i];
        if (r->param != param || r->to >= n_old || mesh[r->to] == HSP_NONE) {
            continue;
        }
        enum hsp_status rc = hsp_cover_add(have, mesh[r->to], 0, &r->box);
        if (rc != HSP_OK) {
            return hsp_err_about(err, rc, "copies of state");
        }
    }
    hsp_cover_normalise(have);
    return HSP_OK;
}

/* ---- second copies ---- */

struct ring;
struct table {
    const struct hsp_graph *g;
    const struct hsp_cover *src; /* of the running parameter */
    uint32_t param;
    struct ring *ring;
    uint32_t n_mesh, copies;
    struct hsp_state_row *row; /* owned */
    size_t n, cap;
};

static enum hsp_status add_row(struct table *t, uint32_t from, uint32_t to,
                               const struct hsp_box *box, struct hsp_err *err)
{
    if (!hsp_grow(&t->row, &t->cap, t->n + 1, sizeof *t->row, MAX_ROWS)) {
        return hsp_grow_error(t->n + 1, MAX_ROWS, "rows of copies", err);
    }
    t->row[t->n++] = (struct hsp_state_row){.from = from, .to = to, .param = t->param, .box = *box};
    return HSP_OK;
}

/* Boxes may lie on ranks of any mesh: those outside @n_mesh are a caller's error. */
static enum hsp_status check_ranks(const struct hsp_cover *c, uint32_t n_mesh, struct hsp_err *err)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->items[i].rank >= n_mesh) {
            return hsp_err_set(err, HSP_EINVAL, 0, "rank %u of a mesh of %u", c->items[i].rank,
                               n_mesh);
        }
    }
    return HSP_OK;
}

static int compare_boxes(const struct hsp_box *a, const struct hsp_box *b)
{
    for (uint8_t d = 0; d < a->rank; d++) {
        if (a->lo[d] != b->lo[d]) {
            return a->lo[d] < b->lo[d] ? -1 : 1;
        }
        if (a->hi[d] != b->hi[d]) {
            return a->hi[d] < b->hi[d] ? -1 : 1;
        }
    }
    return 0;
}

static int by_row(const void *a, const void *b)
{
    const struct hsp_state_row *x = a, *y = b;
    if (x->param != y->param) {
        return x->param < y->param ? -1 : 1;
    }
    int c = compare_boxes(&x->box, &y->box);
    if (c != 0) {
        return c;
    }
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x->to < y->to ? -1 : x->to > y->to;
}

/* The rows of all parameters, as @cell makes them of each region. */
static enum hsp_status make_table(struct table *t, hsp_region_fn cell, const struct hsp_cover *home,
                                  struct hsp_arena *arena, struct hsp_state_table *ret,
                                  struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t p = 0; rc == HSP_OK && p < t->g->n_params; p++) {
        t->param = p;
        t->src = &home[p];
        rc = check_ranks(t->src, t->n_mesh, err);
        if (rc == HSP_OK) {
            rc = hsp_regions(t->src, NULL, cell, t, err);
        }
    }
    if (rc == HSP_OK) {
        struct hsp_state_table out = {.n = (uint32_t)t->n};
        if (t->n > 0) {
            qsort(t->row, t->n, sizeof *t->row, by_row);
        }
        out.row = hsp_arena_memdup(arena, t->row, t->n * sizeof *t->row);
        if (out.row == NULL) {
            rc = hsp_err_nomem(err, "tables of state");
        } else {
            *ret = out;
        }
    }
    free(t->row);
    return rc;
}

/* The nodes in ascending order, with their ranks. */
struct ring {
    uint32_t n;      /* nodes */
    uint32_t *order; /* [ranks] by node, then by rank */
    uint32_t *first; /* [n + 1] into order */
    uint32_t *at;    /* [ranks] number of the rank's node in the ring */
    uint32_t *place; /* [ranks] among those of its node */
    uint64_t *mark;  /* [n] round in which the node was marked */
    uint64_t round;
};

struct placed {
    uint32_t node, rank;
};

static int by_node(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void ring_fini(struct ring *r)
{
    free(r->order);
    free(r->first);
    free(r->at);
    free(r->place);
    free(r->mark);
}

/* False without memory; to be released in any case. */
static bool ring_init(struct ring *r, const uint32_t *node, uint32_t n_ranks)
{
    size_t n = (size_t)n_ranks + 1;
    struct placed *all = calloc(n, sizeof *all);
    *r = (struct ring){.order = calloc(n, sizeof *r->order),
                       .first = calloc(n, sizeof *r->first),
                       .at = calloc(n, sizeof *r->at),
                       .place = calloc(n, sizeof *r->place),
                       .mark = calloc(n, sizeof *r->mark)};
    bool ok = all != NULL && r->order != NULL && r->first != NULL && r->at != NULL &&
              r->place != NULL && r->mark != NULL;
    for (uint32_t i = 0; ok && i < n_ranks; i++) {
        all[i] = (struct placed){node[i], i};
    }
    if (ok) {
        qsort(all, n_ranks, sizeof *all, by_node);
    }
    for (uint32_t i = 0; ok && i < n_ranks; i++) {
        if (i == 0 || all[i].node != all[i - 1].node) {
            r->first[r->n++] = i;
        }
        r->order[i] = all[i].rank;
        r->at[all[i].rank] = r->n - 1;
        r->place[all[i].rank] = i - r->first[r->n - 1];
    }
    if (ok) {
        r->first[r->n] = n_ranks;
    }
    free(all);
    return ok;
}

/* The rank that has on node @at of the ring the place that @rank has on its own. */
static uint32_t same_place(const struct ring *r, uint32_t rank, uint32_t at)
{
    uint32_t count = r->first[at + 1] - r->first[at];
    return r->order[r->first[at] + r->place[rank] % count];
}

uint32_t hsp_spare_ranks(const uint32_t *node, uint32_t n_ranks, uint32_t copies)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < n_ranks && nodes < copies; i++) {
        uint32_t k = 0;
        while (node[k] != node[i]) {
            k++;
        }
        nodes += k == i ? 1 : 0;
    }
    return copies > nodes ? copies - nodes : 0;
}

/* Marks the nodes that have the region. Returns how many. */
static uint32_t mark_nodes(const struct table *t, const struct hsp_region *r)
{
    struct ring *ring = t->ring;
    uint32_t n = 0;
    ring->round++;
    for (uint32_t i = 0; i < r->n_src; i++) {
        uint64_t *mark = &ring->mark[ring->at[t->src->items[r->src[i]].rank]];
        n += *mark != ring->round;
        *mark = ring->round;
    }
    return n;
}

static enum hsp_status copy_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct table *t = ctx;
    enum hsp_status st = HSP_OK;
    uint32_t owner = HSP_NONE, have = mark_nodes(t, r);
    for (uint32_t i = 0; i < r->n_src; i++) {
        uint32_t rank = t->src->items[r->src[i]].rank;
        owner = rank < owner ? rank : owner;
    }
    if (owner == HSP_NONE) {
        return HSP_OK;
    }
    uint32_t home = t->ring->at[owner];
    for (uint32_t at = (home + 1) % t->ring->n; st == HSP_OK && have < t->copies && at != home;
         at = (at + 1) % t->ring->n) {
        if (t->ring->mark[at] != t->ring->round) {
            st = add_row(t, owner, same_place(t->ring, owner, at), &r->box, err);
            have++;
        }
    }
    for (uint32_t k = 0; st == HSP_OK && have + k < t->copies; k++) {
        st = add_row(t, owner, t->n_mesh + k, &r->box, err);
    }
    return st;
}

enum hsp_status hsp_copy_table(const struct hsp_graph *g, const struct hsp_cover *home,
                               const uint32_t *node, uint32_t n_ranks, uint32_t copies,
                               struct hsp_arena *arena, struct hsp_state_table *ret,
                               struct hsp_err *err)
{
    struct ring ring;
    struct table t = {.g = g, .ring = &ring, .n_mesh = n_ranks, .copies = copies};
    enum hsp_status st = ring_init(&ring, node, n_ranks)
                             ? make_table(&t, copy_cell, home, arena, ret, err)
                             : hsp_err_nomem(err, "copies of state");
    ring_fini(&ring);
    return st;
}

/* ---- equal copies ---- */

static int by_rank(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static enum hsp_status join_cell(void *ctx, const struct hsp_region *r, struct hsp_err *err)
{
    struct table *t = ctx;
    uint32_t n = 0, *rank = calloc((size_t)r->n_src + 1, sizeof *rank);
    enum hsp_status st = rank != NULL ? HSP_OK : hsp_err_nomem(err, "equal copies of state");
    for (uint32_t i = 0; st == HSP_OK && i < r->n_src; i++) {
        rank[i] = t->src->items[r->src[i]].rank;
    }
    if (st == HSP_OK && r->n_src > 1) {
        qsort(rank, r->n_src, sizeof *rank, by_rank);
    }
    for (uint32_t i = 0; st == HSP_OK && i < r->n_src; i++) {
        if (n == 0 || rank[i] != rank[n - 1]) {
            rank[n++] = rank[i];
        }
    }
    for (uint32_t i = 0; st == HSP_OK && i + 1 < n; i++) {
        st = add_row(t, rank[i], rank[i + 1], &r->box, err);
    }
    if (st == HSP_OK && n > 2) {
        st = add_row(t, rank[n - 1], rank[0], &r->box, err);
    }
    free(rank);
    return st;
}

enum hsp_status hsp_replica_table(const struct hsp_graph *g, const struct hsp_cover *home,
                                  uint32_t n_ranks, struct hsp_arena *arena,
                                  struct hsp_state_table *ret, struct hsp_err *err)
{
    struct table t = {.g = g, .n_mesh = n_ranks};
    return make_table(&t, join_cell, home, arena, ret, err);
}
