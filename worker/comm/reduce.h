/* Sums the buffers of a group's members, or takes their maximum, with equal bits on all ranks.
 *
 * A transport with collectives of its own (hsp_comm_ops.collect) runs them; else the pieces are
 * sent from each member to each.
 */
#ifndef HSP_REDUCE_H
#define HSP_REDUCE_H
#include "worker/comm/comm.h"

/* All members of the group call the same function with the same channel and counts. Sums of fp32
 * are added in fp32, those of bf16 too, and rounded once. @how: a sum, or the maximum, of which a
 * NaN is the largest. HSP_EINVAL: @g is not a group with the caller at me, or a type that is not
 * real.
 *
 * All-reduce works in place: @buf holds the result on return.
 * Reduce-scatter: @in is the concatenation of n pieces of @count[i] elements. @out gets piece me of
 * the sum, and may be piece me of @in; else buffers do not overlap. */
enum hsp_status hsp_comm_all_reduce(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                    enum hsp_dtype t, enum hsp_reduce how, void *buf, size_t count,
                                    struct hsp_err *err);
enum hsp_status hsp_comm_reduce_scatter(struct hsp_comm *c, const struct hsp_group *g,
                                        uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                        const void *in, const size_t *count, void *out,
                                        struct hsp_err *err);

#endif
