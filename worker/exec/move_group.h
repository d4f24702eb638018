/* Runs the moves of a Reshard that are collectives: all-reduce, reduce-scatter, all-gather, and
 * reduce-send, a sum that its root sends on. */
#ifndef HSP_MOVE_GROUP_H
#define HSP_MOVE_GROUP_H
#include "worker/exec/moves_impl.h"

/* Runs an all-reduce: one move, or the @n moves of a bucket as one operation of the transport. */
enum hsp_status hsp_move_all_reduce(const struct hsp_move_run *r, uint32_t n, struct hsp_err *err);
/* Runs a reduce-scatter or an all-gather: one move, or the @n moves of a bucket as one operation.
 * Each cell belongs to one rank of the group, its root. */
enum hsp_status hsp_move_rooted(const struct hsp_move_run *r, uint32_t n, struct hsp_err *err);
/* Runs a reduce-send: all ranks of the group but the peer add up the cells, and the root of the
 * cells sends the result to the peer, which adds nothing. */
enum hsp_status hsp_move_reduce_send(const struct hsp_move_run *r, struct hsp_err *err);

#endif
