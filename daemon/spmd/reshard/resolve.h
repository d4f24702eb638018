/* Resolves a Reshard into moves: from the boxes that ranks hold to the boxes that ranks need.
 *
 * The index space of the tensor is cut into cells at the boundaries of all boxes. Each cell has
 * addends with their holders, and receivers (HSPMD section 3, on covers instead of DG/DS unions):
 *   no addend        the cell reads 0;
 *   one addend       a receiver that holds the cell copies; cells with the same receivers, of which
 *                    at least two hold a piece alone, are an all-gather; the rest is sent;
 *   several addends  one holder of each forms a group, or several groups side by side where every
 *                    addend has as many holders that receive (HSPMD 3.3). All members receive: an
 *                    all-reduce. Some receive: a reduce-scatter to the best of them. None receives:
 *                    the best member makes the sum and hands it on. Further receivers get the sum
 *                    by P2P. Maxima (hsp_cover.reduce) take the same ways.
 * Best means: the fastest link, then the fewest elements sent, then the lower rank. Cells of equal
 * kind and group are one move. reshard_kind.h names and prices Reshards.
 *
 * Example: ranks 0 and 1 hold addends of 64 columns, both need all columns: one all-reduce of 64
 * columns.
 *
 * Role:        the compiler calls it for every Reshard (hsp_reshard_add).
 * Purity:      pure and deterministic; ties go to the lower rank.
 * Ownership:   results live in the arena given; covers are borrowed for the call.
 * Bounds:      a rank receives into one box: its box of the target, or one around several boxes
 *              that do not overlap. It may hold several boxes of the source; the k-th is input k of
 *              its instruction. */
#ifndef HSP_RESOLVE_H
#define HSP_RESOLVE_H
#include "proto/base/arena.h"
#include "proto/layout/cluster_desc.h" /* struct hsp_link_cost */
#include "proto/layout/cover_cells.h"
#include "proto/program/program.h" /* struct hsp_move, hsp_reshard_bind */

struct hsp_holder;
struct hsp_move_task;
struct hsp_resolver;

/* A pure function for the cost of a message from one rank to another. */
struct hsp_rank_links {
    struct hsp_link_cost (*between)(const void *ctx, uint32_t from, uint32_t to);
    const void *ctx;
};

struct hsp_resolve_opts {
    /* If several ranks hold a value, the smallest of them sends it to the others, so that all have
     * the same bits (gradients that several ranks computed redundantly). */
    bool owner_bytes;
    /* The target is a sum with the addends that its cover names: addends of the source are not
     * added up as far as possible, and the receiver of an addend that nobody holds reads 0 (so
     * duplicate -> partial is free); for a maximum it gets another addend a second time. If false,
     * every receiver gets the whole value. */
    bool partial_target;
    const struct hsp_rank_links *links; /* NULL: all links are alike */
    /* The elements that each rank has sent so far, which the call updates, so that many calls
     * balance their loads. NULL: not counted. */
    int64_t *load;
    uint32_t n_load;
};

/* A rank that holds several boxes of the source. */
struct hsp_inputs {
    uint32_t rank, n;
    struct hsp_box *box; /* [n] */
};

/* A resolved Reshard: moves in the order every rank executes them, with all their cells. */
struct hsp_moves {
    uint32_t n;
    struct hsp_move *move; /* channel = first_channel + index; src: HSP_MOVE_FROM_OUT or 0;
                              reduce: of the source, for every kind */
    /* [n] or NULL: for each member of the move its src, HSP_MOVE_SUM: all inputs that hold the
     * cell; NULL: HSP_MOVE_SUM for all members. */
    uint8_t **pick;
    uint32_t n_zero; /* ranks that receive cells without a holder */
    uint32_t *zero;
    uint32_t n_inputs; /* ranks with several inputs */
    struct hsp_inputs *inputs;
};

/* Both covers normalised. @channel is advanced by the number of moves. HSP_EINVAL: covers of
 * different extents, or two target boxes of one rank that overlap. HSP_EUNSUPPORTED: some ranks
 * hold several addends of a cell, and no choice of one addend or all addends for each rank counts
 * every addend exactly once. */
enum hsp_status hsp_resolve(const struct hsp_cover *src, const struct hsp_cover *dst,
                            const struct hsp_resolve_opts *opts, uint32_t *channel,
                            struct hsp_arena *arena, struct hsp_moves *ret, struct hsp_err *err);

#endif
