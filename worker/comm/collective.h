/* Gathers the pieces of a group's members, and keeps the requests that all collectives post.
 *
 * A transport with collectives of its own (hsp_comm_ops.collect) runs them; else the pieces are
 * sent from each member to each.
 */
#ifndef HSP_COLLECTIVE_H
#define HSP_COLLECTIVE_H
#include "worker/comm/collective_impl.h"

/* HSP_EINVAL: @g is not a group with the caller at me. */
enum hsp_status hsp_group_check(const struct hsp_comm *c, const struct hsp_group *g,
                                struct hsp_err *err);
/* Makes room for @cap requests on @channel; hsp_batch_finish frees it. HSP_ENOMEM: nothing to
 * finish. */
enum hsp_status hsp_batch_init(struct comm_batch *b, struct hsp_comm *c, uint32_t channel,
                               size_t cap, struct hsp_err *err);
/* Waits for all requests; returns @st if it is an error, else the first error of a request. */
enum hsp_status hsp_batch_finish(struct comm_batch *b, enum hsp_status st, struct hsp_err *err);

/* @in is piece me, @out the concatenation of n pieces of @count[i] elements; @in may be piece me of
 * @out, else buffers do not overlap. All members of the group call it with the same channel and
 * counts. HSP_EINVAL: @g is not a group with the caller at me. */
enum hsp_status hsp_comm_all_gather(struct hsp_comm *c, const struct hsp_group *g, uint32_t channel,
                                    enum hsp_dtype t, const void *in, const size_t *count,
                                    void *out, struct hsp_err *err);

#endif
