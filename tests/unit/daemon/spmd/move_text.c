#include "daemon/spmd/reshard/reshard_kind_text.h"
#include "proto/program/move_name.h"
#include "tests/unit/daemon/spmd/move_text.h"

#include <inttypes.h>

static void put_ranks(const uint32_t *ranks, uint32_t n, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < n; i++) {
        hsp_buf_printf(out, "%s%u", i > 0 ? "," : " {", ranks[i]);
    }
    hsp_buf_puts(out, "}");
}

void hsp_methods_dump(const struct hsp_methods *m, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct hsp_method_part *p = &m->part[i];
        for (uint8_t k = 0; k < p->n_steps; k++) {
            hsp_buf_printf(out, "%s%s", k > 0 ? " + " : "", hsp_method_name(p->step[k]));
        }
        put_ranks(p->ranks, p->n_ranks, out);
        for (uint32_t k = 0; k < p->n_groups; k++) {
            hsp_buf_puts(out, k == 0 ? ":" : "");
            put_ranks(p->group[k].ranks, p->group[k].n, out);
        }
        hsp_buf_puts(out, "\n");
    }
}

static bool adds(uint8_t kind)
{
    return kind == HSP_MOVE_ALL_REDUCE || kind == HSP_MOVE_REDUCE_SCATTER ||
           kind == HSP_MOVE_REDUCE_SEND;
}

static void dump_cell(const struct hsp_move *v, const struct hsp_cell *cell, struct hsp_buf *out)
{
    hsp_buf_puts(out, " [");
    for (uint8_t d = 0; d < cell->box.rank; d++) {
        hsp_buf_printf(out, "%s%" PRId64 ":%" PRId64, d > 0 ? "," : "", cell->box.lo[d],
                       cell->box.hi[d]);
    }
    hsp_buf_puts(out, "]");
    if (v->kind == HSP_MOVE_P2P || v->kind == HSP_MOVE_REDUCE_SEND) {
        hsp_buf_printf(out, " %u->%u", v->ranks[cell->root], v->ranks[cell->peer]);
    } else if (v->kind != HSP_MOVE_ALL_REDUCE && v->kind != HSP_MOVE_COPY) {
        hsp_buf_printf(out, " @%u", v->ranks[cell->root]);
    }
}

void hsp_moves_dump(const struct hsp_moves *m, struct hsp_buf *out)
{
    for (uint32_t i = 0; i < m->n; i++) {
        const struct hsp_move *v = &m->move[i];
        bool max = v->reduce == HSP_REDUCE_MAX;
        hsp_buf_printf(out, "%s%s {", hsp_move_name(v->kind),
                       v->src == HSP_MOVE_FROM_OUT ? max ? " of maxima" : " of sums"
                       : max && adds(v->kind)      ? " by max"
                                                   : "");
        for (uint32_t k = 0; k < v->n_ranks; k++) {
            hsp_buf_printf(out, "%s%u", k > 0 ? "," : "", v->ranks[k]);
        }
        hsp_buf_puts(out, "}");
        for (uint32_t c = 0; c < v->n_cells; c++) {
            dump_cell(v, &v->cells[c], out);
        }
        hsp_buf_puts(out, "\n");
    }
}
