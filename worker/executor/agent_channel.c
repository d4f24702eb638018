#include "worker/executor/agent_channel.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_frame.h"

void hsp_chan_init(struct hsp_chan *c, int fd)
{
    const struct hsp_frame_limits lim = {HSP_MSG_BODY_MAX, HSP_MSG_BLOB_MAX};
    int bytes = 4 << 20; /* room for step reports of minutes in which the agent is stopped */
    c->fd = fd;
    c->at = c->len = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes); /* the default also works */
    (void)pthread_mutex_init(&c->lock, NULL);                          /* cannot fail on Linux */
    hsp_frame_parser_init(&c->parser, &lim);
}

void hsp_chan_fini(struct hsp_chan *c)
{
    hsp_frame_parser_fini(&c->parser);
    (void)pthread_mutex_destroy(&c->lock);
    (void)close(c->fd);
}

static enum hsp_status send_all(int fd, struct iovec *v, int n, struct hsp_err *err)
{
    while (n > 0) {
        struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)n};
        ssize_t k = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, -1); /* the next sendmsg reports the error */
            continue;
        }
        if (k < 0) {
            return hsp_err_set(err, HSP_ECLOSED, errno, "the agent is gone");
        }
        while (n > 0 && (size_t)k >= v->iov_len) {
            k -= (ssize_t)v->iov_len;
            v++;
            n--;
        }
        if (n > 0) {
            v->iov_base = (uint8_t *)v->iov_base + k;
            v->iov_len -= (size_t)k;
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_chan_send(struct hsp_chan *c, const struct hsp_msg *m, struct hsp_err *err)
{
    struct hsp_buf body;
    uint8_t head[HSP_FRAME_HEADER];
    hsp_buf_init(&body, HSP_MSG_BODY_MAX);
    enum hsp_status st = hsp_msg_encode(m, &body, err);
    if (st == HSP_OK) {
        const struct hsp_frame_header h = hsp_msg_head(m, body.len);
        struct iovec v[3] = {
            {head, sizeof head},
            {body.data, body.len},
            {(void *)(uintptr_t)m->blob, m->blob_len}}; /* sendmsg does not write */
        hsp_frame_header_encode(&h, head);
        (void)pthread_mutex_lock(&c->lock);
        st = send_all(c->fd, v, m->blob_len > 0 ? 3 : 2, err);
        (void)pthread_mutex_unlock(&c->lock);
    }
    hsp_buf_fini(&body);
    return st;
}

/* Refills the buffer. HSP_AGAIN: no bytes have arrived. */
static enum hsp_status refill(struct hsp_chan *c, struct hsp_err *err)
{
    ssize_t k;
    do {
        k = recv(c->fd, c->buf, sizeof c->buf, MSG_DONTWAIT);
    } while (k < 0 && errno == EINTR);
    if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return HSP_AGAIN;
    }
    if (k <= 0) {
        return hsp_err_set(err, HSP_ECLOSED, k < 0 ? errno : 0, "the agent is gone");
    }
    c->at = 0;
    c->len = (size_t)k;
    return HSP_OK;
}

enum hsp_status hsp_chan_recv(struct hsp_chan *c, struct hsp_arena *arena,
                              struct hsp_frame *ret_frame, struct hsp_msg *ret, struct hsp_err *err)
{
    for (;;) {
        size_t used = 0;
        enum hsp_status st = HSP_AGAIN;
        if (c->at < c->len) {
            st = hsp_frame_feed(&c->parser, c->buf + c->at, c->len - c->at, &used, ret_frame, err);
            c->at += used;
        }
        if (st == HSP_OK) {
            st = hsp_msg_read(ret_frame, arena, ret, err);
            if (st != HSP_OK) {
                hsp_frame_fini(ret_frame);
            }
            return st;
        }
        if (st != HSP_AGAIN || (st = refill(c, err)) != HSP_OK) {
            return st;
        }
    }
}
