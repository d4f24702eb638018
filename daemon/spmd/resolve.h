/* Resolution: from "it is held like this" and "it is needed like that" to moves.
 *
 * Role:        used by the compiler for every Reshard and by switch.h for state transfer.
 * Purity:      pure and deterministic; ties go to the lower rank.
 * Ownership:   results live in the arena given; covers are borrowed for the call.
 * Bounds:      one box per rank in either cover (HSP_EINVAL otherwise).
 *
 * A tensor's index space is cut into cells at the boundaries of all boxes. Of each cell we know the
 * addends with their holders and the receivers (HSPMD section 3, on covers instead of DG/DS
 * unions): no addend           the cell reads 0 one addend          holders that need it COPY; the
 * others get it by P2P, or by ALL_GATHER when one group holds a set of cells, each at one member,
 * and all members need all several addends     one holder of each forms the group: receivers ==
 * group: ALL_REDUCE; group inside receivers: ALL_REDUCE, then P2P of the sum to the rest; otherwise
 * REDUCE_SCATTER to one receiver in the group, then P2P of the sum Cells of equal kind and group
 * merge into one move.
 */
#ifndef HSP_RESOLVE_H
#define HSP_RESOLVE_H
#include "proto/base/arena.h"
#include "proto/layout/cover.h"
#include "proto/program/program.h" /* struct hsp_move, hsp_reshard_bind */

/* The holders and receivers of one cell. Arrays are valid during the callback only. */
struct hsp_region {
    struct hsp_box box;
    uint32_t n_src, n_dst;
    const uint32_t *src; /* indices of items of the source cover that contain the cell, ascending */
    const uint32_t *dst; /* the same of the target cover */
};
typedef enum hsp_status (*hsp_region_fn)(void *ctx, const struct hsp_region *r,
                                         struct hsp_err *err);

/* Calls @fn for each cell, in ascending order of its first corner; neighbours with equal holders
 * and receivers along the last dims are one cell. Cells that nobody holds and nobody needs are
 * skipped.
 * @dst may be NULL. Stops at the first status that is not HSP_OK and returns it. */
enum hsp_status hsp_regions(const struct hsp_cover *src, const struct hsp_cover *dst,
                            hsp_region_fn fn, void *ctx, struct hsp_err *err);

struct hsp_resolve_opts {
    /* A value held by several ranks is taken from the smallest one and sent to the other holders,
     * so that all have the same bits (gradients that several ranks computed redundantly). */
    bool owner_bytes;
    int64_t
        *load; /* elements sent per rank so far, updated; for balance over many calls. NULL: none */
    uint32_t n_load;
};

/* A resolved Reshard: moves in the order every rank executes them, with all their cells. */
struct hsp_moves {
    uint32_t n;
    struct hsp_move *move; /* channel = first_channel + index */
    uint32_t n_zero;       /* ranks that receive cells nobody holds */
    uint32_t *zero;
};

/* @channel is advanced by the number of moves. HSP_EINVAL: covers of different extents, or two
 * boxes on one rank. HSP_EINFEASIBLE: partial values none of whose holders receives (resolve in two
 * steps, through a cover of holders). */
enum hsp_status hsp_resolve(const struct hsp_cover *src, const struct hsp_cover *dst,
                            const struct hsp_resolve_opts *opts, uint32_t *channel,
                            struct hsp_arena *arena, struct hsp_moves *ret, struct hsp_err *err);

/* The part of @m that @rank takes part in. @batch_dim0: dim 0 is the micro-batch, never cut; its
 * cells end at HSP_TO_END. */
enum hsp_status hsp_moves_bind(const struct hsp_moves *m, uint32_t rank, bool batch_dim0,
                               struct hsp_arena *arena, struct hsp_reshard_bind *ret,
                               struct hsp_err *err);

/* True when every move is a COPY. */
bool hsp_moves_local(const struct hsp_moves *m);

/* "all_reduce {0,1} [0:4,0:8]" per line, for messages and `plan show`. */
void hsp_moves_dump(const struct hsp_moves *m, struct hsp_buf *out);
const char *hsp_move_name(uint8_t kind);

#endif
