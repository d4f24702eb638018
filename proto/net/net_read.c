#include "proto/net/net_read.h"

#include <stdio.h>

#include "proto/net/net_end.h"
#include "proto/net/net_pool.h"
#include "proto/net/net_table.h"
#include "proto/net/net_write.h"

/* A caller learns of the other version from the header of a frame without content: all versions
 * share that form. A dialler learns of it from the answer. */
static void end_version(struct net_conn *c, const struct hsp_err *why)
{
    const struct hsp_frame_header h = {.type = 0};
    struct hsp_err e;
    if (!c->dialled && hsp_net_conn_send(c, &h, NULL, 0, NULL, 0, &e) == HSP_OK) {
        hsp_net_conn_drop(c, true, why->msg);
        c->why = *why;
    } else {
        hsp_net_conn_fail(c, why);
    }
}

/* A connection that was dialled and never open is tried again; any other ends. */
static void fail(struct net_conn *c, const struct hsp_err *why)
{
    if (c->dialled && !c->opened) {
        hsp_net_dial_failed(c, why);
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
        /* The dialler speaks first: the time of the answer is the caller's business. */
        c->deadline = UINT64_MAX;
    }
    c->told = true;
    c->opened = true;
    c->peer.name = c->name;
    n->calls.on_open(n->ctx, c->id, &c->peer);
}

/* A caller costs no session before its first byte. */
static enum hsp_status session(struct net_conn *c, struct hsp_err *err)
{
    return c->tls != NULL ? HSP_OK
                          : hsp_tls_new(c->net->tls, !c->dialled, c->dial.role, &c->tls, err);
}

static void on_cipher(struct net_conn *c, const uint8_t *data, size_t len, uint64_t now)
{
    struct hsp_err e;
    enum hsp_status st = session(c, &e);
    st = st == HSP_OK ? hsp_tls_input(c->tls, data, len, &e) : st;
    if (st == HSP_OK && c->state == NET_TLS) {
        st = hsp_tls_handshake(c->tls, &e);
        if (st == HSP_EAUTH && !c->dialled) {
            c->peer.role = hsp_tls_claimed(c->tls); /* for on_refuse */
        }
        if (hsp_tls_proved(c->tls)) {
            hsp_net_pool_proved(c);
        }
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
        fail(c, &e);
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
        hsp_net_conn_fail(c, &c->why); /* the end that we waited for */
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
        fail(c, &e);
        return;
    }
    uint64_t now = uv_now(c->net->loop);
    c->last_rx_ms = now;
    if (c->state == NET_TLS || c->tls != NULL) {
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
        hsp_net_conn_fail_uv(c, r, "cannot read");
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
    if (!c->dialled) {
        return;
    }
    if (session(c, &e) != HSP_OK) {
        hsp_net_conn_fail(c, &e);
    } else {
        (void)hsp_tls_handshake(c->tls, &e); /* the first flight; cannot be done yet */
        hsp_net_conn_pump(c);
    }
}
