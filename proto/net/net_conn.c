/* Bytes and frames of one connection.
 *
 * The happy path is: bytes arrive, TLS turns them into plain ones, the parser into frames, frames
 * go up; a queued frame goes out by one write at a time. Possible failure modes are: the peer
 * closes (between frames or within one), TLS refuses, a frame breaks a rule, a write fails. Each
 * ends in hsp_net_conn_fail, which closes the handle; on_close follows from the close callback. */
#include "proto/net/net_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/net/net.h"
#include "proto/net/net_dial.h"
#include "proto/net/net_impl.h"

void hsp_net_conn_release(struct net_conn *c)
{
    c->n_ops--;
    if (c->n_ops == 0 && c->state == NET_RETRYING) {
        hsp_net_dial_closed(c);
    } else if (c->n_ops == 0 && c->state == NET_CLOSING) {
        hsp_net_conn_finish(c);
    }
}

static void on_handle_closed(uv_handle_t *h)
{
    struct net_conn *c = h->data;
    c->handle_open = false;
    hsp_net_conn_release(c);
}

void hsp_net_conn_close_handle(struct net_conn *c)
{
    if (c->handle_open && !uv_is_closing(&c->h.any)) {
        uv_close(&c->h.any, on_handle_closed);
    }
}

void hsp_net_conn_fail(struct net_conn *c, const struct hsp_err *why)
{
    if (c->state == NET_CLOSING) {
        return;
    }
    if (c->state == NET_RESOLVING) {
        (void)uv_cancel((uv_req_t *)&c->resolve_req); /* fails when it runs: its callback comes */
    }
    if (c->state != NET_FLUSHING) {
        c->why = *why;
    }
    c->state = NET_CLOSING;
    hsp_net_conn_close_handle(c);
    /* Without an operation the sweep finishes it: never inside this call. */
}

static void fail_uv(struct net_conn *c, int r, const char *what)
{
    struct hsp_err e = hsp_net_uv_err(HSP_EIO, r, what);
    hsp_net_conn_fail(c, &e);
}

/* ---- out ---- */

static void on_written(uv_write_t *req, int status)
{
    struct net_conn *c = req->data;
    c->writing = false;
    free(c->cipher);
    c->cipher = NULL;
    if (c->state == NET_CLOSING || c->state == NET_RETRYING) {
        return; /* 0, ECANCELED, EPIPE, ECONNRESET: all the same now */
    }
    if (status < 0) {
        fail_uv(c, status, "cannot write");
        return;
    }
    size_t left = c->in_write;
    c->in_write = 0;
    while (left > 0) {
        struct net_out *o = c->out;
        size_t k = o->len - o->sent < left ? o->len - o->sent : left;
        o->sent += k;
        left -= k;
        c->out_bytes -= k;
        if (o->sent == o->len) {
            c->out = o->next;
            c->out_last = c->out == NULL ? &c->out : c->out_last;
            c->out_frames--;
            free(o);
        }
    }
    hsp_net_conn_pump(c);
}

static void start_write(struct net_conn *c, const uv_buf_t *buf, unsigned n)
{
    c->write_req.data = c;
    c->writing = true;
    int r = uv_write(&c->write_req, &c->h.stream, buf, n, on_written);
    if (r != 0) {
        c->writing = false;
        fail_uv(c, r, "cannot write");
    }
}

/* Takes queued frames as plain buffers, up to NET_WRITE bytes. */
static unsigned gather(struct net_conn *c, uv_buf_t *buf, unsigned cap)
{
    unsigned n = 0;
    size_t total = 0;
    for (struct net_out *o = c->out; o != NULL && n < cap && total < NET_WRITE; o = o->next) {
        size_t k = o->len - o->sent;
        k = k < NET_WRITE - total ? k : NET_WRITE - total;
        buf[n++] = uv_buf_init((char *)o->data + o->sent, (unsigned)k);
        total += k;
    }
    c->in_write = total;
    return n;
}

/* Writes what TLS has to say. False: nothing, or failed. */
static bool write_cipher(struct net_conn *c)
{
    size_t n = hsp_tls_pending(c->tls);
    if (n == 0) {
        return false;
    }
    c->cipher = malloc(n);
    if (c->cipher == NULL) {
        struct hsp_err e;
        (void)hsp_err_nomem(&e, "%zu bytes to write", n);
        hsp_net_conn_fail(c, &e);
        return false;
    }
    n = hsp_tls_output(c->tls, c->cipher, n);
    uv_buf_t b = uv_buf_init((char *)c->cipher, (unsigned)n);
    start_write(c, &b, 1);
    return true;
}

/* Encrypts gathered buffers. */
static void encrypt(struct net_conn *c, const uv_buf_t *buf, unsigned n)
{
    struct hsp_err e;
    for (unsigned i = 0; i < n; i++) {
        if (hsp_tls_write(c->tls, buf[i].base, buf[i].len, &e) != HSP_OK) {
            hsp_net_conn_fail(c, &e);
            return;
        }
    }
    (void)write_cipher(c);
}

/* At most @len bytes for the kernel. An error is left to the write that follows. */
static size_t try_write(struct net_conn *c, uint8_t *data, size_t len)
{
    uv_buf_t b = uv_buf_init((char *)data, (unsigned)len);
    int r = uv_try_write(&c->h.stream, &b, 1);
    return r > 0 ? (size_t)r : 0;
}

/* What the kernel did not take of an encrypted frame is written when it has room. */
static void write_later(struct net_conn *c, const uint8_t *data, size_t len)
{
    struct hsp_err e;
    c->cipher = malloc(len);
    if (c->cipher == NULL) {
        (void)hsp_err_nomem(&e, "%zu bytes to write", len);
        hsp_net_conn_fail(c, &e);
        return;
    }
    memcpy(c->cipher, data, len);
    uv_buf_t b = uv_buf_init((char *)c->cipher, (unsigned)len);
    start_write(c, &b, 1);
}

size_t hsp_net_conn_direct(struct net_conn *c, uint8_t *frame, size_t len)
{
    uint8_t record[NET_DIRECT + NET_RECORD];
    struct hsp_err e;
    if (c->tls == NULL) {
        return try_write(c, frame, len);
    }
    if (hsp_tls_pending(c->tls) > 0) {
        return 0; /* it has something to say first */
    }
    if (hsp_tls_write(c->tls, frame, len, &e) != HSP_OK) {
        hsp_net_conn_fail(c, &e);
        return len; /* on_close tells */
    }
    size_t n = hsp_tls_pending(c->tls);
    if (n > sizeof record) { /* with a new key */
        (void)write_cipher(c);
        return len;
    }
    n = hsp_tls_output(c->tls, record, sizeof record);
    size_t sent = try_write(c, record, n);
    if (sent < n) {
        write_later(c, record + sent, n - sent);
    }
    return len;
}

static void on_shut(uv_shutdown_t *req, int status)
{
    (void)req;
    (void)status; /* reading sees the peer's end, or the deadline passes */
}

/* All is written: the peer is told, and its end awaited. To close at once could reset the
 * connection (unread input does) and lose what is on its way. */
static void end_flush(struct net_conn *c)
{
    if (c->tls != NULL && !c->alert_sent) {
        c->alert_sent = true;
        hsp_tls_end(c->tls);
        if (write_cipher(c) || c->state != NET_FLUSHING) {
            return;
        }
    }
    if (!c->shut) {
        c->shut = true;
        int r = uv_shutdown(&c->shutdown_req, &c->h.stream, on_shut);
        if (r != 0) {
            fail_uv(c, r, "cannot shut down");
        }
    }
}

/* Starts the next write, or ends a flush. */
void hsp_net_conn_pump(struct net_conn *c)
{
    uv_buf_t buf[16];
    if (c->writing || (c->state != NET_TLS && c->state != NET_OPEN && c->state != NET_FLUSHING)) {
        return;
    }
    if (c->tls != NULL && write_cipher(c)) {
        return;
    }
    if (c->state == NET_CLOSING || c->state == NET_TLS) {
        return;
    }
    unsigned n = gather(c, buf, sizeof buf / sizeof buf[0]);
    if (n > 0 && c->tls != NULL) {
        encrypt(c, buf, n);
    } else if (n > 0) {
        start_write(c, buf, n);
    } else if (c->state == NET_FLUSHING) {
        end_flush(c);
    }
}

/* ---- in ---- */

/* Who called learns of the other version from the header of a frame without content: that much is
 * the same in all versions. Who dialled is told by the answer. */
static void end_version(struct net_conn *c, const struct hsp_err *why)
{
    const struct hsp_frame_header h = {.type = 0};
    struct hsp_err e;
    if (!c->dialled && hsp_net_send(c->net, c->id, &h, NULL, 0, NULL, 0, &e) == HSP_OK) {
        hsp_net_drop(c->net, c->id, true, why->msg);
        c->why = *why;
    } else {
        hsp_net_conn_fail(c, why);
    }
}

static void feed(struct net_conn *c, const uint8_t *data, size_t len, uint64_t now)
{
    while (len > 0 && c->state == NET_OPEN) {
        struct hsp_frame f;
        struct hsp_err e;
        size_t used = 0;
        enum hsp_status st = hsp_frame_feed(&c->parser, data, len, &used, &f, &e);
        data += used;
        len -= used;
        if (st == HSP_AGAIN) {
            c->frame_since = c->frame_since == UINT64_MAX ? now : c->frame_since;
            return;
        }
        if (st == HSP_EVERSION) {
            end_version(c, &e);
            return;
        }
        if (st != HSP_OK) {
            hsp_net_conn_fail(c, &e);
            return;
        }
        c->frame_since = UINT64_MAX;
        if (!c->got_frame) {
            c->got_frame = true;
            c->deadline = UINT64_MAX;
        }
        c->net->calls.on_frame(c->net->ctx, c->id, &f);
        hsp_frame_fini(&f);
    }
}

static void opened(struct net_conn *c)
{
    struct hsp_net *n = c->net;
    c->state = NET_OPEN;
    if (c->tls != NULL) {
        c->peer.role = hsp_tls_role(c->tls);
    }
    if (c->dialled) {
        /* Who dials speaks first: how long the answer takes is the caller's business. */
        c->deadline = UINT64_MAX;
    }
    c->told = true;
    c->opened = true;
    c->peer.name = c->name;
    n->calls.on_open(n->ctx, c->id, &c->peer);
}

static void on_cipher(struct net_conn *c, const uint8_t *data, size_t len, uint64_t now)
{
    struct hsp_err e;
    enum hsp_status st = hsp_tls_input(c->tls, data, len, &e);
    if (st == HSP_OK && c->state == NET_TLS) {
        st = hsp_tls_handshake(c->tls, &e);
        hsp_net_conn_pump(c); /* also the alert that tells the peer why */
        if (st == HSP_OK && c->state == NET_TLS) {
            opened(c);
        }
        st = st == HSP_AGAIN ? HSP_OK : st;
    }
    while (st == HSP_OK && c->state == NET_OPEN && hsp_tls_more(c->tls)) {
        size_t n = 0;
        st = hsp_tls_read(c->tls, c->net->plain_buf, NET_READ, &n, &e);
        if (st == HSP_OK) {
            feed(c, c->net->plain_buf, n, now);
        }
    }
    if (st != HSP_OK && st != HSP_AGAIN) {
        if (c->dialled && !c->opened) {
            hsp_net_dial_failed(c, &e);
        } else {
            hsp_net_conn_fail(c, &e);
        }
        return;
    }
    hsp_net_conn_pump(c);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct net_conn *c = h->data;
    (void)suggested;
    *buf = uv_buf_init((char *)c->net->read_buf, NET_READ);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct net_conn *c = s->data;
    if (n < 0 && c->state == NET_FLUSHING) {
        hsp_net_conn_fail(c, &c->why); /* what we waited for */
        return;
    }
    if (n == 0 || (c->state != NET_TLS && c->state != NET_OPEN)) {
        return; /* input of a connection that ends is thrown away */
    }
    if (n < 0) {
        struct hsp_err e = hsp_net_uv_err(HSP_EIO, (int)n, "cannot read");
        if (n == UV_EOF || n == UV_ECONNRESET) {
            bool within = c->frame_since != UINT64_MAX;
            (void)hsp_err_set(&e, within ? HSP_EPROTO : HSP_ECLOSED, 0, "closed by the peer%s",
                              within                ? " in the middle of a frame"
                              : c->state == NET_TLS ? " during the handshake"
                                                    : "");
        }
        if (c->dialled && !c->opened) {
            hsp_net_dial_failed(c, &e);
        } else {
            hsp_net_conn_fail(c, &e);
        }
        return;
    }
    uint64_t now = uv_now(c->net->loop);
    c->last_rx_ms = now;
    if (c->tls != NULL) {
        on_cipher(c, (const uint8_t *)buf->base, (size_t)n, now);
    } else {
        feed(c, (const uint8_t *)buf->base, (size_t)n, now);
    }
}

int hsp_net_conn_adopt(struct net_conn *c, const char *name)
{
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    c->peer.role = HSP_ROLE_CHILD;
    c->peer.listener = UINT32_MAX;
    c->last_rx_ms = uv_now(c->net->loop);
    c->state = NET_OPEN;
    c->told = true;
    c->opened = true;
    c->got_frame = true;
    return uv_read_start(&c->h.stream, on_alloc, on_read);
}

void hsp_net_conn_start(struct net_conn *c)
{
    struct hsp_net *n = c->net;
    struct hsp_err e;
    bool tcp = c->h.any.type == UV_TCP;
    c->last_rx_ms = uv_now(n->loop);
    if (tcp) {
        (void)uv_tcp_nodelay(&c->h.tcp, 1);       /* works without */
        (void)uv_tcp_keepalive(&c->h.tcp, 1, 10); /* the same; seconds */
    }
    int r = uv_read_start(&c->h.stream, on_alloc, on_read);
    if (r != 0) {
        fail_uv(c, r, "cannot read");
        return;
    }
    if (!tcp || n->tls == NULL) {
        c->peer.role = c->peer.role != HSP_ROLE_NONE ? c->peer.role
                       : tcp                         ? HSP_ROLE_OPEN
                                                     : HSP_ROLE_LOCAL;
        opened(c);
        return;
    }
    c->state = NET_TLS;
    if (hsp_tls_new(n->tls, !c->dialled, c->dial.role, &c->tls, &e) != HSP_OK) {
        hsp_net_conn_fail(c, &e);
        return;
    }
    if (c->dialled) {
        (void)hsp_tls_handshake(c->tls, &e); /* the first flight; cannot be done yet */
        hsp_net_conn_pump(c);
    }
}
