#include "proto/net/net_write.h"

#include <stdlib.h>
#include <string.h>

#include "proto/net/net_end.h"
#include "proto/wire/protocol.h"

enum { N_PARTS = 3 }; /* of a frame: header, body, blob */

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
        hsp_net_conn_fail_uv(c, status, "cannot write");
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
        hsp_net_conn_fail_uv(c, r, "cannot write");
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

/* Writes the output of TLS. False: nothing, or failed. */
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

/* The rest of an encrypted frame that the kernel did not take is written when it has room. */
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

/* Sends a short frame at once when nothing waits. Returns how much of it is done with. */
static size_t send_short(struct net_conn *c, uint8_t *frame, size_t len)
{
    uint8_t record[NET_DIRECT + NET_RECORD];
    struct hsp_err e;
    if (c->tls == NULL) {
        return try_write(c, frame, len);
    }
    if (hsp_tls_pending(c->tls) > 0) {
        return 0; /* TLS has something to say first */
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
            hsp_net_conn_fail_uv(c, r, "cannot shut down");
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

/* ---- frames ---- */

/* Copies all bytes behind the first @skip bytes of the parts. */
static void lay_out(const uv_buf_t *part, size_t skip, uint8_t *ret)
{
    for (int i = 0; i < N_PARTS; i++) {
        size_t from = skip < part[i].len ? skip : part[i].len;
        if (part[i].len > from) {
            memcpy(ret, part[i].base + from, part[i].len - from);
            ret += part[i].len - from;
        }
        skip -= from;
    }
}

/* The part of a long frame that the kernel takes at once needs no copy. Returns its length; an
 * error is left to the write that follows. */
static size_t send_long(struct net_conn *c, const uv_buf_t *part)
{
    int r = uv_try_write(&c->h.stream, part, N_PARTS);
    return r > 0 ? (size_t)r : 0;
}

enum hsp_status hsp_net_conn_send(struct net_conn *c, const struct hsp_frame_header *head,
                                  const void *body, size_t body_len, const void *blob,
                                  size_t blob_len, struct hsp_err *err)
{
    const struct hsp_net *n = c->net;
    if (body_len > HSP_FRAME_BODY_MAX || blob_len > HSP_FRAME_BLOB_MAX) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "frame of %zu + %zu bytes is longer than any limit",
                           body_len, blob_len);
    }
    size_t len = HSP_FRAME_HEADER + body_len + blob_len;
    if (c->out_frames >= n->cfg.queue_frames || len > n->cfg.queue_bytes ||
        c->out_bytes > n->cfg.queue_bytes - len) {
        (void)hsp_err_set(err, HSP_AGAIN, 0, "%s is slow: %zu bytes in %u frames wait", c->name,
                          c->out_bytes, c->out_frames);
        return HSP_AGAIN;
    }
    uint8_t raw[HSP_FRAME_HEADER];
    struct hsp_frame_header h = *head;
    h.version = hsp_protocol.newest;
    h.oldest = hsp_protocol.oldest;
    h.body_len = (uint32_t)body_len;
    h.blob_len = (uint32_t)blob_len;
    hsp_frame_header_encode(&h, raw);
    const uv_buf_t part[N_PARTS] = {/* nobody writes into them */
                                    {(char *)raw, sizeof raw},
                                    {(char *)(uintptr_t)body, body_len},
                                    {(char *)(uintptr_t)blob, blob_len}};
    size_t sent = 0;
    if (len <= NET_DIRECT && c->out == NULL && !c->writing) {
        uint8_t frame[NET_DIRECT];
        lay_out(part, 0, frame);
        sent = send_short(c, frame, len);
        if (sent == len) {
            return HSP_OK;
        }
    } else if (c->tls == NULL && c->out == NULL && !c->writing) {
        sent = send_long(c, part);
        if (sent == len) {
            return HSP_OK;
        }
    }
    struct net_out *o = malloc(sizeof *o + len - sent);
    if (o == NULL) {
        return hsp_err_nomem(err, "a frame of %zu bytes", len);
    }
    o->next = NULL;
    o->len = len - sent;
    o->sent = 0;
    lay_out(part, sent, o->data);
    *c->out_last = o;
    c->out_last = &o->next;
    c->out_bytes += len - sent;
    c->out_frames++;
    hsp_net_conn_pump(c);
    return HSP_OK;
}

void hsp_net_conn_drop(struct net_conn *c, bool flush, const char *why)
{
    struct hsp_err e;
    if (c->state == NET_CLOSING || c->state == NET_FLUSHING) {
        return;
    }
    (void)hsp_err_set(&e, HSP_ECANCELED, 0, "%s", why);
    if (flush && c->state == NET_OPEN) {
        c->why = e;
        c->state = NET_FLUSHING;
        c->frame_since = UINT64_MAX;
        c->deadline = uv_now(c->net->loop) + c->net->cfg.flush_ms;
        hsp_net_conn_pump(c);
    } else {
        hsp_net_conn_fail(c, &e);
    }
}
