/* Holds the list of requests that collective.c and reduce.c share. Not included outside this
 * folder. */
#ifndef HSP_COLLECTIVE_IMPL_H
#define HSP_COLLECTIVE_IMPL_H

#include "worker/comm/comm.h"

#define COMM_SMALL_BYTES ((size_t)16 << 10) /* measured: below, latency is all */

/* The requests of one collective. Every posted request is waited for, also after a failure. */
struct comm_batch {
    struct hsp_comm *c;
    uint32_t channel;
    struct hsp_comm_req *req;
    size_t n, cap;
};

static inline enum hsp_status hsp_batch_send(struct comm_batch *b, uint32_t peer, const void *buf,
                                             size_t bytes, struct hsp_err *err)
{
    if (bytes == 0) {
        return HSP_OK; /* both sides know the size: nothing travels */
    }
    enum hsp_status st =
        b->c->ops->isend(b->c, peer, b->channel, hsp_run(buf, bytes), &b->req[b->n], err);
    b->n += st == HSP_OK;
    return st;
}

/* As hsp_batch_send, for a buffer that no message is received into: a short one may go at once, by
 * a copy. */
static inline enum hsp_status hsp_batch_send_now(struct comm_batch *b, uint32_t peer,
                                                 const void *buf, size_t bytes, struct hsp_err *err)
{
    return bytes == 0 || bytes > COMM_SMALL_BYTES
               ? hsp_batch_send(b, peer, buf, bytes, err)
               : b->c->ops->send(b->c, peer, b->channel, buf, bytes, err);
}

static inline enum hsp_status hsp_batch_recv(struct comm_batch *b, uint32_t peer, void *buf,
                                             size_t bytes, struct hsp_err *err)
{
    if (bytes == 0) {
        return HSP_OK;
    }
    enum hsp_status st =
        b->c->ops->irecv(b->c, peer, b->channel, hsp_run(buf, bytes), &b->req[b->n], err);
    b->n += st == HSP_OK;
    return st;
}

#endif
