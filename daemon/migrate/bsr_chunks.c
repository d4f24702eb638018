#include "daemon/migrate/bsr_chunks.h"

#include <stdlib.h>

#include "daemon/migrate/bsr_impl.h"
#include "proto/base/vec.h"
#include "proto/layout/box.h"

#define MIN_CHUNK     ((int64_t)256 << 10) /* below it messages cost more than bytes */
#define MAX_CHUNK     ((int64_t)16 << 20)  /* memory of a relay for a chunk */
#define CHUNKS        64                   /* that the mean rank gets: loads are met within 1/64 */
#define CHUNKS_OF_ALL (1u << 17)           /* on all ranks, so that tables stay small */
#define FEWEST_CHUNKS 8

/* The size of a chunk: so that the mean receiver gets CHUNKS. */
static int64_t chunk_bytes(const struct hsp_bsr_work *w)
{
    int64_t all = 0, n = w->net->n_ranks + 1, parts = CHUNKS_OF_ALL / n;
    if (w->opts->chunk_bytes > 0) {
        return w->opts->chunk_bytes;
    }
    for (size_t i = 0; i < w->n_cells; i++) {
        all += w->cell[i].bytes * w->cell[i].n_dst;
    }
    parts = parts > CHUNKS ? CHUNKS : parts < FEWEST_CHUNKS ? FEWEST_CHUNKS : parts;
    int64_t chunk = all / n / parts;
    return chunk < MIN_CHUNK ? MIN_CHUNK : chunk > MAX_CHUNK ? MAX_CHUNK : chunk;
}

/* The dim to cut into @n parts: the first that is long enough, so that parts are runs where rows
 * are stored one after the other; else the longest. */
static uint8_t cut_dim(const struct hsp_box *b, int64_t n)
{
    uint8_t best = 0;
    for (uint8_t d = 0; d < b->rank; d++) {
        if (b->hi[d] - b->lo[d] >= n) {
            return d;
        }
        best = b->hi[d] - b->lo[d] > b->hi[best] - b->lo[best] ? d : best;
    }
    return best;
}

struct pieces {
    struct hsp_bsr_cell *cell; /* owned */
    size_t n, cap;
};

static enum hsp_status cut_cell(const struct hsp_bsr_work *w, const struct hsp_bsr_cell *c,
                                int64_t chunk, struct pieces *ret, struct hsp_err *err)
{
    int64_t n = c->bytes > chunk ? (c->bytes + chunk - 1) / chunk : 1;
    uint8_t d = cut_dim(&c->box, n);
    int64_t side = c->box.rank > 0 ? c->box.hi[d] - c->box.lo[d] : 1;
    n = n < side ? n : side;
    if (!hsp_grow(&ret->cell, &ret->cap, ret->n + (size_t)n, sizeof *ret->cell, HSP_BSR_ROWS)) {
        return hsp_grow_error(ret->n + (size_t)n, HSP_BSR_ROWS, "chunks of state", err);
    }
    for (int64_t i = 0; i < n; i++) {
        struct hsp_bsr_cell *to = &ret->cell[ret->n++];
        *to = *c;
        if (n > 1) {
            to->box.lo[d] = c->box.lo[d] + i * (side / n) + (i < side % n ? i : side % n);
            to->box.hi[d] = to->box.lo[d] + side / n + (i < side % n);
            to->bytes = hsp_box_count(&to->box) * w->opts->elem_bytes;
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_bsr_cut(struct hsp_bsr_work *w, struct hsp_err *err)
{
    struct pieces all = {0};
    enum hsp_status st = HSP_OK;
    int64_t chunk = chunk_bytes(w);
    for (size_t i = 0; st == HSP_OK && i < w->n_cells; i++) {
        st = cut_cell(w, &w->cell[i], chunk, &all, err);
    }
    if (st != HSP_OK) {
        free(all.cell);
        return st;
    }
    free(w->cell);
    w->cell = all.cell;
    w->n_cells = all.n;
    w->cap_cells = all.cap;
    return HSP_OK;
}
