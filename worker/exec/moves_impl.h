/* Holds the state of one move while it runs, which moves.c, move_group.c and move_cells.c share. */
#ifndef HSP_MOVES_IMPL_H
#define HSP_MOVES_IMPL_H
#include "worker/exec/engine_impl.h"

struct hsp_move_run {
    struct hsp_engine *e;
    const struct hsp_instr *i;
    const struct hsp_move *m;
    struct hsp_comm *comm; /* the transport of the move */
    bool staged;           /* messages go through staging copies */
    enum hsp_devq q;
    uint32_t micro;
    int64_t n_seq; /* sequences of the running micro-batch */
    struct hsp_cell_view out;
    size_t elem;
};

#endif
