/* @@SENTENCE@@ reduce: purpose to be written. */
#ifndef HSP_REDUCE_H
#define HSP_REDUCE_H
#include "worker/comm/comm.h"

/* Collectives, written once over the operations above (collective.c, reduce.c). All members of the group call
 * the same one with the same channel and counts. Buffers do not overlap, except:
 * all-reduce: in place: @buf holds the result on return.
 * reduce-scatter: @in is the concatenation of n pieces of @count[i] elements, @out gets piece me of
 * the sum and may be piece me of @in.
 * all-gather: @in is piece me, @out the concatenation; @in may be piece me of @out.
 * Reals; sums of fp32 are added in fp32, those of bf16 too, and rounded once. @how: a sum, or the maximum, of which a NaN is the
 * largest. HSP_EINVAL: @g is not a group with the caller at me, or a reduction of another type. */
enum hsp_status hsp_comm_all_reduce(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                    enum hsp_dtype t, enum hsp_reduce how, void *buf, size_t count,
                                    struct hsp_err *err);
enum hsp_status hsp_comm_reduce_scatter(struct hsp_comm *c, const struct hsp_group *g,
                                        uint32_t channel, enum hsp_dtype t, enum hsp_reduce how,
                                        const void *in, const size_t *count, void *out,
                                        struct hsp_err *err);

#endif
