/* Names Reshards as people and planners do (all-reduce, all-gather, batched send-receive ...).
 *
 * Names are recognised on covers (HSPMD 3.1 and 3.3 without DG/DS unions), for any order of
 * members. Ranks that exchange something form a part; of each part, with H the holders and R the
 * receivers of a cell among its ranks:
 *   identity, slice      one rank, which keeps its box or a piece of it
 *   to_partial           one rank, which reads 0 as its addend of a target that is a sum
 *   send_recv            one rank hands its box to another one
 *   all_reduce           sums with R = H
 *   reduce_scatter       sums with R inside H
 *   all_gather           pieces with H inside R
 *   all_to_all           the same ranks, cut along one dim before and another one after
 *   bsr                  batched send-receive: anything else that adds nothing
 * If the ranks of a collective have unlike boxes, several collectives run side by side on the
 * finest slices: split_*. Pieces and shards may be empty. So a broadcast among the target's ranks
 * is named all_gather, and a sum at one rank reduce_scatter. Maxima count as sums here.
 * Compositions (3.3 and 3.4) are two steps:
 *   sum + all_gather     all receivers of a sum hold something of the tensor, and more ranks need
 *                        the sum than make it: cut sums made whole, sums that several members of a
 *                        finer group share
 *   sum + send_recv, bsr other ranks get the sum, one or several
 *   slice + send_recv    one rank hands a piece of its box to another one
 * In this list sum is one of the four collectives that add. An all-reduce inside of subgroups
 * followed by one across them is a single all-reduce here, since covers show only the addends: it
 * moves the same bytes and has one latency less.
 *
 * Role:      `hspmdctl plan -o yaml` prints the name and the time of every Reshard; resolve.h makes
 *            the moves.
 * Purity:    pure.
 * Ownership: results live in the arena given; covers are borrowed. */
#ifndef HSP_RESHARD_KIND_H
#define HSP_RESHARD_KIND_H
#include "daemon/spmd/reshard/resolve.h"

enum hsp_reshard_method {
    HSP_RESHARD_IDENTITY,
    HSP_RESHARD_SLICE,
    HSP_RESHARD_TO_PARTIAL,
    HSP_RESHARD_SEND_RECV,
    HSP_RESHARD_ALL_REDUCE,
    HSP_RESHARD_REDUCE_SCATTER,
    HSP_RESHARD_ALL_GATHER,
    HSP_RESHARD_SPLIT_ALL_REDUCE,
    HSP_RESHARD_SPLIT_REDUCE_SCATTER,
    HSP_RESHARD_SPLIT_ALL_GATHER,
    HSP_RESHARD_ALL_TO_ALL,
    HSP_RESHARD_BSR,
};
#define HSP_RESHARD_STEPS 2

struct hsp_method_group {
    uint32_t n;
    uint32_t *ranks; /* one per addend or piece, in their order */
};
struct hsp_method_part {
    uint8_t n_steps, step[HSP_RESHARD_STEPS]; /* enum hsp_reshard_method */
    uint32_t n_ranks;
    uint32_t *ranks; /* ascending */
    /* For collectives: the communicators, slice by slice. Every copy of a piece takes part, so a
     * slice has as many communicators as its most copied piece has holders; moves do not repeat
     * pieces. */
    uint32_t n_groups;
    struct hsp_method_group *group;
};
struct hsp_methods {
    uint32_t n;
    struct hsp_method_part *part; /* in order of the smallest rank */
};

/* Both covers normalised; several boxes per rank on either side. @partial_target as in
 * hsp_resolve_opts. HSP_EINVAL: covers of different extents; HSP_ENOMEM, HSP_ELIMIT. */
enum hsp_status hsp_methods_find(const struct hsp_cover *src, const struct hsp_cover *dst,
                                 bool partial_target, struct hsp_arena *arena,
                                 struct hsp_methods *ret, struct hsp_err *err);

#endif
