/* Shares the data of resolution among the files of this folder: cells with their holders and
 * receivers, moves under construction, and the loads of ranks.
 *
 * Role:      cell_holders.c makes the cells; resolve.c and resolve_reduction.c turn them into moves
 *            (move_list.c), reshard_kind.c into names. Other folders do not include this header. */
#ifndef HSP_RESOLVE_IMPL_H
#define HSP_RESOLVE_IMPL_H
#include "daemon/spmd/reshard/resolve.h"
#include "proto/layout/annot.h" /* HSP_MAX_RANKS */

/* ---- tasks ---- */

/* One addend of a cell on one rank. */
struct hsp_holder {
    uint32_t rank, addend;
    uint8_t input;   /* of the rank's instruction; the first that holds it */
    uint8_t n_items; /* items of the rank that hold the cell, of any addend */
};

/* A cell with one value to bring to its receivers; the lists are parts of hold and recv below. */
struct hsp_move_task {
    struct hsp_box box;
    size_t hold, recv; /* holders ascend by (rank, addend), receivers by rank */
    uint32_t n_hold, n_recv;
    bool sum;    /* several addends */
    bool gather; /* a piece of an all-gather of the receivers (resolve.c) */
};

struct hsp_tasks {
    const struct hsp_cover *src, *dst;
    const struct hsp_resolve_opts *opts;
    bool any_target;            /* a rank may receive several boxes */
    uint32_t *input;            /* [item of src]: number among those of its rank; owned */
    struct hsp_move_task *task; /* owned */
    size_t n, cap;
    struct hsp_holder *hold; /* owned */
    size_t n_hold, cap_hold;
    uint32_t *recv; /* owned */
    size_t n_recv, cap_recv;
    bool zero[HSP_MAX_RANKS]; /* receives cells without a holder */
};

/* ---- moves under construction ---- */

/* Roots and peers of its cells are ranks until it is finished. */
struct hsp_move_draft {
    uint8_t kind;
    bool of_sums;          /* of the result of an earlier move */
    uint8_t src;           /* P2P: of the sender, as in hsp_moves.pick */
    uint32_t n_ranks;      /* P2P: 0 until it is finished */
    uint32_t *ranks;       /* owned */
    uint8_t *pick;         /* owned; NULL: HSP_MOVE_SUM for all */
    struct hsp_cell *cell; /* owned; at least one */
    size_t n, cap;
};
struct hsp_drafts {
    struct hsp_move_draft *d; /* owned */
    size_t n, cap;
};

/* Names the draft that a cell is added to: the draft of equal kind, group and sources, or a new
 * one. */
struct hsp_draft_key {
    uint8_t kind, src;
    bool of_sums;
    uint32_t n_ranks;
    const uint32_t *ranks; /* ascending; P2P: none */
    const uint8_t *pick;   /* [n_ranks], or NULL */
};

/* ---- decisions ---- */

struct hsp_resolver {
    struct hsp_tasks t;
    struct hsp_drafts drafts;
    int64_t load[HSP_MAX_RANKS]; /* elements sent by each rank */
};

#endif
