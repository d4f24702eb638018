/* Runs the moves of a Reshard that are collectives: all-reduce, reduce-scatter, all-gather, and
 * sums whose result is sent on. */
#ifndef HSP_MOVE_GROUP_H
#define HSP_MOVE_GROUP_H
#include "worker/exec/moves_impl.h"

/* The @n moves of a bucket, or one: one operation of the transport. */
enum hsp_status hsp_move_all_reduce(const struct hsp_move_run *r, uint32_t n, struct hsp_err *err);
/* Reduce-scatter and all-gather, likewise: each cell belongs to one rank of the group, its root. */
enum hsp_status hsp_move_rooted(const struct hsp_move_run *r, uint32_t n, struct hsp_err *err);
/* A sum of which each root sends its cells on to the ranks that need them. */
enum hsp_status hsp_move_reduce_send(const struct hsp_move_run *r, struct hsp_err *err);

#endif
