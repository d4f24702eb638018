/* The table of connections, what is done with one by its number, and the sweep that watches all deadlines.
 *
 * The happy path is: a connection gets a slot, its bytes are net_conn.c's. Possible failure modes are: no slot
 * left, a deadline (handshake, frame, idle, flush), a full queue (HSP_AGAIN).
 *
 * One timer sweeps NET_SWEEP connections each NET_TICK_MS instead of a timer each: that is a few
 * microseconds per tick, whatever the number of connections. */
#include "proto/net/net.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/check.h"
#include "proto/net/net_conn.h"
#include "proto/net/net_dial.h"
#include "proto/net/net_impl.h"
#include "proto/net/net_listen.h"
#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_frame.h"

enum { N_PARTS = 3 }; /* of a frame: header, body, blob */

void hsp_net_defaults(struct hsp_net_config *ret)
{
    *ret = (struct hsp_net_config){
        .max_conns = 1024,
        .limits = {HSP_FRAME_BODY_MAX, HSP_FRAME_BLOB_MAX},
        .handshake_ms = 10000,
        .frame_ms = 60000,
        .flush_ms = 2000,
        .queue_bytes = (size_t)128 << 20, /* a frame with the largest blob, and one behind it */
        .queue_frames = 4096,
    };
}

struct hsp_err hsp_net_uv_err(enum hsp_status code, int r, const char *what)
{
    struct hsp_err e;
    /* Codes of the resolver are no errno. */
    if (r <= UV_EAI_ADDRFAMILY && r >= UV_EAI_PROTOCOL) {
        (void)hsp_err_set(&e, HSP_ENOENT, 0, "%s: %s", what, uv_strerror(r));
    } else {
        (void)hsp_err_set(&e, code, -r, "%s", what);
    }
    return e;
}

/* ---- connections ---- */

uint32_t hsp_net_slot(uint32_t conn)
{
    return conn & ((1u << NET_SLOT_BITS) - 1);
}

static struct net_conn *find(const struct hsp_net *n, uint32_t conn)
{
    uint32_t i = hsp_net_slot(conn);
    struct net_conn *c = i < n->cfg.max_conns ? n->slot[i] : NULL;
    return c != NULL && c->id == conn ? c : NULL;
}

struct net_conn *hsp_net_conn_new(struct hsp_net *n, struct hsp_err *err)
{
    if (n->n_conns >= n->cfg.max_conns || n->closing) {
        (void)hsp_err_set(err, HSP_ELIMIT, 0, "%u connections are the limit", n->cfg.max_conns);
        return NULL;
    }
    struct net_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        (void)hsp_err_nomem(err, "a connection");
        return NULL;
    }
    while (n->slot[n->next_slot] != NULL) {
        n->next_slot = (n->next_slot + 1) % n->cfg.max_conns;
    }
    uint32_t i = n->next_slot;
    n->next_slot = (i + 1) % n->cfg.max_conns;
    n->generation[i] = (n->generation[i] + 1) & ((1u << (32 - NET_SLOT_BITS)) - 1);
    n->generation[i] = n->generation[i] == 0 ? 1 : n->generation[i];
    c->net = n;
    c->id = n->generation[i] << NET_SLOT_BITS | i;
    c->out_last = &c->out;
    c->deadline = UINT64_MAX;
    c->frame_since = UINT64_MAX;
    c->dial.retry_at = UINT64_MAX;
    hsp_frame_parser_init(&c->parser, &n->cfg.limits);
    n->slot[i] = c;
    n->n_conns++;
    return c;
}

static void conn_free(struct net_conn *c)
{
    struct hsp_net *n = c->net;
    while (c->out != NULL) {
        struct net_out *o = c->out;
        c->out = o->next;
        free(o);
    }
    free(c->cipher);
    hsp_tls_free(c->tls);
    hsp_frame_parser_fini(&c->parser);
    n->slot[hsp_net_slot(c->id)] = NULL;
    n->n_conns--;
    free(c);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct hsp_net *n = h->data;
    void (*on_closed)(void *ctx) = n->on_closed;
    void *ctx = n->ctx;
    hsp_tls_ctx_free(n->tls);
    OPENSSL_cleanse(&n->cfg.keys, sizeof n->cfg.keys);
    free(n->slot);
    free(n->generation);
    free(n->read_buf);
    free(n->plain_buf);
    free(n);
    if (on_closed != NULL) {
        on_closed(ctx);
    }
}

void hsp_net_maybe_end(struct hsp_net *n)
{
    if (n->closing && !n->timer_closing && n->n_conns == 0 && n->n_listeners == 0) {
        n->timer_closing = true;
        uv_close((uv_handle_t *)&n->timer, on_timer_closed);
    }
}

void hsp_net_conn_finish(struct net_conn *c)
{
    struct hsp_net *n = c->net;
    HSP_ASSERT(c->state == NET_CLOSING);
    HSP_ASSERT(c->n_ops == 0);
    if (c->told) {
        c->told = false;
        n->calls.on_close(n->ctx, c->id, &c->why);
    } else if (n->calls.on_refuse != NULL) {
        n->calls.on_refuse(n->ctx, c->name, &c->why);
    }
    conn_free(c);
    hsp_net_maybe_end(n);
}

/* ---- the sweep ---- */

static void time_out(struct net_conn *c, const char *what, uint64_t ms)
{
    struct hsp_err e;
    (void)hsp_err_set(&e, HSP_ETIMEDOUT, 0, "%s in %llu ms", what, (unsigned long long)ms);
    bool attempt = c->state == NET_RESOLVING || c->state == NET_CONNECTING || c->state == NET_TLS;
    if (c->dialled && attempt) {
        hsp_net_dial_failed(c, &e);
    } else {
        hsp_net_conn_fail(c, &e);
    }
}

static void sweep_one(struct net_conn *c, uint64_t now)
{
    const struct hsp_net_config *cfg = &c->net->cfg;
    if (c->state == NET_CLOSING) {
        if (c->n_ops == 0) {
            hsp_net_conn_finish(c);
        }
        return;
    }
    hsp_net_dial_tick(c, now);
    if (now >= c->deadline) {
        uint64_t ms = c->dialled ? c->dial.attempt_ms : cfg->handshake_ms;
        time_out(c, c->opened ? "no frame" : "no handshake", ms); /* a flush keeps its own reason */
    } else if (c->frame_since != UINT64_MAX && now - c->frame_since >= cfg->frame_ms) {
        time_out(c, "a frame was not complete", cfg->frame_ms);
    } else if (c->state == NET_OPEN && cfg->idle_ms != 0 && now - c->last_rx_ms >= cfg->idle_ms) {
        time_out(c, "nothing received", cfg->idle_ms);
    }
}

static void on_tick(uv_timer_t *t)
{
    struct hsp_net *n = t->data;
    uint64_t now = uv_now(n->loop);
    uint32_t some = n->cfg.max_conns < NET_SWEEP ? n->cfg.max_conns : NET_SWEEP;
    for (uint32_t k = 0; k < some; k++) {
        struct net_conn *c = n->slot[n->sweep_at];
        n->sweep_at = (n->sweep_at + 1) % n->cfg.max_conns;
        if (c != NULL) {
            sweep_one(c, now);
        }
    }
    hsp_net_maybe_end(n);
}

/* ---- new and close ---- */

enum hsp_status hsp_net_new(uv_loop_t *loop, const struct hsp_net_config *cfg,
                            const struct hsp_net_calls *calls, void *ctx, struct hsp_net **ret,
                            struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    if (cfg->max_conns == 0 || cfg->max_conns > HSP_NET_MAX_CONNS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%u connections, want 1 to %d", cfg->max_conns,
                           HSP_NET_MAX_CONNS);
    }
    struct hsp_net *n = calloc(1, sizeof *n);
    if (n == NULL) {
        return hsp_err_nomem(err, "connections");
    }
    n->loop = loop;
    n->cfg = *cfg;
    n->calls = *calls;
    n->ctx = ctx;
    n->slot = calloc(cfg->max_conns, sizeof *n->slot);
    n->generation = calloc(cfg->max_conns, sizeof *n->generation);
    n->read_buf = malloc(NET_READ);
    n->plain_buf = malloc(NET_READ);
    if (n->slot == NULL || n->generation == NULL || n->read_buf == NULL || n->plain_buf == NULL) {
        st = hsp_err_nomem(err, "connections");
    } else if (cfg->keys.have_worker || cfg->keys.have_admin) {
        st = hsp_tls_ctx_new(&cfg->keys, &n->tls, err);
    }
    int r = st == HSP_OK ? uv_timer_init(loop, &n->timer) : 0;
    if (st == HSP_OK && r != 0) {
        st = hsp_err_set(err, HSP_EIO, -r, "cannot make a timer");
    }
    if (st != HSP_OK) {
        hsp_tls_ctx_free(n->tls);
        free(n->slot);
        free(n->generation);
        free(n->read_buf);
        free(n->plain_buf);
        free(n);
        return st;
    }
    n->timer.data = n;
    (void)uv_timer_start(&n->timer, on_tick, NET_TICK_MS, NET_TICK_MS); /* fails without callback */
    *ret = n;
    return HSP_OK;
}

void hsp_net_close(struct hsp_net *n, void (*on_closed)(void *ctx))
{
    n->closing = true;
    n->on_closed = on_closed;
    hsp_net_stop_listening(n);
    for (uint32_t i = 0; i < n->cfg.max_conns; i++) {
        if (n->slot[i] != NULL) {
            hsp_net_drop(n, n->slot[i]->id, true, "shutting down");
        }
    }
    /* hsp_net_maybe_end runs from the sweep or the last close callback, never in this call. */
}

/* ---- use ---- */

enum hsp_status hsp_net_adopt(struct hsp_net *n, int fd, const char *name, uint32_t *ret_conn,
                              struct hsp_err *err)
{
    struct net_conn *c = hsp_net_conn_new(n, err);
    if (c == NULL) {
        return HSP_ELIMIT;
    }
    int r = uv_pipe_init(n->loop, &c->h.pipe, 0);
    if (r != 0) {
        conn_free(c);
        return hsp_err_set(err, HSP_EIO, -r, "cannot adopt a descriptor");
    }
    c->h.any.data = c;
    c->handle_open = true;
    c->n_ops++;
    r = uv_pipe_open(&c->h.pipe, fd);
    if (r == 0) {
        r = hsp_net_conn_adopt(c, name);
    }
    if (r != 0) {
        struct hsp_err e = hsp_net_uv_err(HSP_EIO, r, "cannot adopt a descriptor");
        c->told = false;
        hsp_net_conn_fail(c, &e); /* the handle closes later; the descriptor is not in it */
        return hsp_err_set(err, HSP_EIO, -r, "cannot adopt a descriptor");
    }
    *ret_conn = c->id;
    return HSP_OK;
}

/* Copies what is behind the first @skip bytes of the parts. */
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

/* What the kernel takes of a long frame at once needs no copy. Returns how much that is; an error is left
 * to the write that follows. */
static size_t send_long(struct net_conn *c, const uv_buf_t *part)
{
    int r = uv_try_write(&c->h.stream, part, N_PARTS);
    return r > 0 ? (size_t)r : 0;
}

enum hsp_status hsp_net_send(struct hsp_net *n, uint32_t conn, const struct hsp_frame_header *head,
                             const void *body, size_t body_len, const void *blob, size_t blob_len,
                             struct hsp_err *err)
{
    struct net_conn *c = find(n, conn);
    if (c == NULL || c->state != NET_OPEN) {
        return hsp_err_set(err, HSP_ECLOSED, 0, "connection %u is not open", conn);
    }
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
    h.version = HSP_FRAME_VERSION;
    h.flags = 0;
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
        sent = hsp_net_conn_direct(c, frame, len);
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

enum hsp_status hsp_net_send_msg(struct hsp_net *n, uint32_t conn, const struct hsp_msg *m,
                                 struct hsp_buf *body, struct hsp_err *err)
{
    hsp_buf_reset(body);
    enum hsp_status st = hsp_msg_encode(m, body, err);
    if (st != HSP_OK) {
        return st;
    }
    const struct hsp_frame_header head = hsp_msg_head(m, body->len);
    return hsp_net_send(n, conn, &head, body->data, body->len, m->blob, m->blob_len, err);
}

void hsp_net_drop(struct hsp_net *n, uint32_t conn, bool flush, const char *why)
{
    struct net_conn *c = find(n, conn);
    struct hsp_err e;
    if (c == NULL || c->state == NET_CLOSING || c->state == NET_FLUSHING) {
        return;
    }
    (void)hsp_err_set(&e, HSP_ECANCELED, 0, "%s", why);
    if (flush && c->state == NET_OPEN) {
        c->why = e;
        c->state = NET_FLUSHING;
        c->frame_since = UINT64_MAX;
        c->deadline = uv_now(n->loop) + n->cfg.flush_ms;
        hsp_net_conn_pump(c);
    } else {
        hsp_net_conn_fail(c, &e);
    }
}

void hsp_net_set_name(struct hsp_net *n, uint32_t conn, const char *name)
{
    struct net_conn *c = find(n, conn);
    if (c != NULL) {
        (void)snprintf(c->name, sizeof c->name, "%s", name);
    }
}

const char *hsp_net_name(const struct hsp_net *n, uint32_t conn)
{
    const struct net_conn *c = find(n, conn);
    return c != NULL ? c->name : "closed";
}
