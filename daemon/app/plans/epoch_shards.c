/* Cuts the state into shards. Each parameter's index space is cut at every boundary of a home box
 * or a copied box (per dim), so that inside one cell the pieces do not change; equal lists of
 * pieces are merged by text. */
#include "daemon/app/plans/epoch_shards.h"

#include <stdlib.h>

#include "proto/base/map.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"

#define MAX_PIECES (16u << 20)

struct cuts {
    int64_t *at;
    size_t n, cap;
};

struct work {
    struct hsp_map seen; /* list of pieces -> 1 */
    struct hsp_piece_holder *pieces;
    size_t n_pieces, cap_pieces;
    uint32_t *first;
    size_t n_first, cap_first;
    struct cuts cuts[HSP_MAX_RANK];
};

static bool cut_add(struct cuts *c, int64_t at)
{
    if (!hsp_grow((void **)&c->at, &c->cap, c->n + 1, sizeof *c->at, MAX_PIECES)) {
        return false;
    }
    c->at[c->n++] = at;
    return true;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void cut_sort(struct cuts *c)
{
    size_t n = 0;
    qsort(c->at, c->n, sizeof *c->at, by_value);
    for (size_t i = 0; i < c->n; i++) {
        if (n == 0 || c->at[n - 1] != c->at[i]) {
            c->at[n++] = c->at[i];
        }
    }
    c->n = n;
}

static bool cut_box(struct work *w, const struct hsp_box *b)
{
    for (uint8_t d = 0; d < b->rank; d++) {
        if (!cut_add(&w->cuts[d], b->lo[d]) || !cut_add(&w->cuts[d], b->hi[d])) {
            return false;
        }
    }
    return true;
}

static bool piece_add(struct work *w, uint32_t holder, uint32_t owner)
{
    if (!hsp_grow((void **)&w->pieces, &w->cap_pieces, w->n_pieces + 1, sizeof *w->pieces,
                  MAX_PIECES)) {
        return false;
    }
    w->pieces[w->n_pieces++] = (struct hsp_piece_holder){holder, owner};
    return true;
}

/* Appends the pieces of one cell; takes them back when the same list is there already. */
static bool add_cell(struct work *w, const struct hsp_cover *home,
                     const struct hsp_state_table *copies, const struct hsp_box *cell)
{
    size_t start = w->n_pieces;
    struct hsp_buf key;
    bool ok = true;
    hsp_buf_init(&key, 1u << 20);
    for (uint32_t i = 0; ok && i < home->n; i++) {
        if (hsp_box_inside(cell, &home->items[i].box)) {
            ok = piece_add(w, home->items[i].rank, home->items[i].rank);
            hsp_buf_printf(&key, "%u;", home->items[i].rank);
        }
    }
    for (uint32_t i = 0; ok && i < copies->n; i++) {
        const struct hsp_state_row *r = &copies->row[i];
        if (hsp_box_inside(cell, &r->box)) {
            ok = piece_add(w, r->to, r->from);
            hsp_buf_printf(&key, "%u:%u;", r->to, r->from);
        }
    }
    ok = ok && !key.failed;
    if (ok && !hsp_map_get(&w->seen, hsp_buf_cstr(&key), NULL)) {
        ok = hsp_map_put(&w->seen, hsp_buf_cstr(&key), 1) == HSP_OK &&
             hsp_grow((void **)&w->first, &w->cap_first, w->n_first + 1, sizeof *w->first,
                      MAX_PIECES);
        if (ok) {
            w->first[w->n_first++] = (uint32_t)start;
        }
    } else {
        w->n_pieces = start;
    }
    hsp_buf_fini(&key);
    return ok;
}

/* Visits the cells of a grid, the last dim fastest. */
static bool each_cell(struct work *w, const struct hsp_cover *home,
                      const struct hsp_state_table *copies)
{
    size_t at[HSP_MAX_RANK] = {0};
    for (;;) {
        struct hsp_box cell = {.rank = home->rank};
        for (uint8_t d = 0; d < home->rank; d++) {
            cell.lo[d] = w->cuts[d].at[at[d]];
            cell.hi[d] = w->cuts[d].at[at[d] + 1];
        }
        if (!add_cell(w, home, copies, &cell)) {
            return false;
        }
        int d = home->rank - 1;
        while (d >= 0 && ++at[d] + 1 >= w->cuts[d].n) {
            at[d--] = 0;
        }
        if (d < 0) {
            return true;
        }
    }
}

/* @copies: of this parameter. */
static bool add_param(struct work *w, const struct hsp_cover *home,
                      const struct hsp_state_table *copies)
{
    struct hsp_box whole = hsp_box_whole(home->rank, home->extent);
    bool ok = true;
    if (hsp_box_empty(&whole)) {
        return true;
    }
    for (uint8_t d = 0; d < home->rank; d++) {
        w->cuts[d].n = 0;
    }
    ok = cut_box(w, &whole);
    for (uint32_t i = 0; ok && i < home->n; i++) {
        ok = cut_box(w, &home->items[i].box);
    }
    for (uint32_t i = 0; ok && i < copies->n; i++) {
        ok = cut_box(w, &copies->row[i].box);
    }
    for (uint8_t d = 0; ok && d < home->rank; d++) {
        cut_sort(&w->cuts[d]);
    }
    return ok && each_cell(w, home, copies);
}

static void work_fini(struct work *w)
{
    hsp_map_fini(&w->seen);
    free(w->pieces);
    free(w->first);
    for (int d = 0; d < HSP_MAX_RANK; d++) {
        free(w->cuts[d].at);
    }
}

/* The rows of @param: tables are in the order of parameters. */
static struct hsp_state_table rows_of(const struct hsp_state_table *t, uint32_t param, uint32_t *at)
{
    struct hsp_state_table own = {.row = t->row + *at};
    while (*at < t->n && t->row[*at].param == param) {
        ++*at;
        own.n++;
    }
    return own;
}

enum hsp_status hsp_epoch_shards(const struct hsp_graph *g, const struct hsp_cover *homes,
                                 const struct hsp_state_table *copies, struct hsp_arena *arena,
                                 struct hsp_plan_info *info, struct hsp_err *err)
{
    struct work w = {0};
    bool ok = true;
    uint32_t at = 0;
    hsp_map_init(&w.seen, MAX_PIECES);
    for (uint32_t i = 0; ok && i < g->n_params; i++) {
        const struct hsp_state_table own = rows_of(copies, i, &at);
        ok = add_param(&w, &homes[i], &own);
    }
    if (ok) {
        info->n_shards = (uint32_t)w.n_first;
        info->shard_first = hsp_arena_array(arena, w.n_first + 1, sizeof *info->shard_first);
        info->pieces = hsp_arena_array(arena, w.n_pieces, sizeof *info->pieces);
        ok = info->shard_first != NULL && info->pieces != NULL;
    }
    for (size_t i = 0; ok && i < w.n_first; i++) {
        info->shard_first[i] = w.first[i];
    }
    for (size_t i = 0; ok && i < w.n_pieces; i++) {
        info->pieces[i] = w.pieces[i];
    }
    if (ok) {
        info->shard_first[w.n_first] = (uint32_t)w.n_pieces;
    }
    work_fini(&w);
    return ok ? HSP_OK : hsp_err_nomem(err, "the shards of a plan");
}

void hsp_epoch_add_copies(const struct hsp_state_table *copies, uint64_t elem_bytes,
                          uint64_t *bytes, uint32_t n_ranks)
{
    for (uint32_t i = 0; i < copies->n; i++) {
        const struct hsp_state_row *row = &copies->row[i];
        if (row->to < n_ranks) {
            bytes[row->to] += (uint64_t)hsp_box_count(&row->box) * elem_bytes;
        }
    }
}
