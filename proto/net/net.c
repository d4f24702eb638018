/* Opens, sweeps and closes connections. Their possible failure modes here are: no slot left, a
 * deadline (handshake, frame, idle, flush), a full queue (HSP_AGAIN).
 *
 * One timer sweeps NET_SWEEP connections each NET_TICK_MS instead of a timer each: a few
 * microseconds per tick, for any number of connections. */
#include "proto/net/net.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/net/net_dial.h"
#include "proto/net/net_end.h"
#include "proto/net/net_impl.h"
#include "proto/net/net_listen.h"
#include "proto/net/net_pool.h"
#include "proto/net/net_read.h"
#include "proto/net/net_table.h"
#include "proto/net/net_write.h"
#include "proto/wire/msg_encode.h"
#include "proto/wire/msg_frame.h"

void hsp_net_defaults(struct hsp_net_config *ret)
{
    *ret = (struct hsp_net_config){
        .limits = {HSP_FRAME_BODY_MAX, HSP_FRAME_BLOB_MAX},
        .handshake_ms = 10000,
        .frame_ms = 60000,
        .flush_ms = 2000,
        .kept_ms = 500,                   /* the end of TLS and HELLO come over a slow link */
        .queue_bytes = (size_t)128 << 20, /* a frame with the largest blob, and one behind it */
        .queue_frames = 4096,
    };
}

uint32_t hsp_net_table_size(const struct hsp_net_config *cfg)
{
    uint32_t n = HSP_NET_ENDING;
    for (uint32_t i = 0; i < HSP_NET_POOLS; i++) { /* too many stay too many */
        n += cfg->places[i] <= HSP_NET_MAX_CONNS ? cfg->places[i] : HSP_NET_MAX_CONNS;
    }
    return n;
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
    uint32_t some = n->n_slots < NET_SWEEP ? n->n_slots : NET_SWEEP;
    for (uint32_t k = 0; k < some; k++) {
        struct net_conn *c = n->slot[n->sweep_at];
        n->sweep_at = (n->sweep_at + 1) % n->n_slots;
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
    uint32_t places = hsp_net_table_size(cfg) - HSP_NET_ENDING;
    if (places == 0 || places > HSP_NET_MAX_PLACES) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%u connections, want 1 to %u", places,
                           HSP_NET_MAX_PLACES);
    }
    struct hsp_net *n = calloc(1, sizeof *n);
    if (n == NULL) {
        return hsp_err_nomem(err, "connections");
    }
    n->loop = loop;
    n->cfg = *cfg;
    n->calls = *calls;
    n->ctx = ctx;
    n->spare_fd = -1;
    n->n_slots = places + HSP_NET_ENDING;
    n->slot = calloc(n->n_slots, sizeof *n->slot);
    n->generation = calloc(n->n_slots, sizeof *n->generation);
    n->read_buf = malloc(NET_READ);
    n->plain_buf = malloc(NET_READ);
    enum hsp_status st = hsp_net_pools_init(n, err);
    if (n->slot == NULL || n->generation == NULL || n->read_buf == NULL || n->plain_buf == NULL) {
        st = hsp_err_nomem(err, "connections");
    }
    if (st == HSP_OK && (cfg->keys.have_worker || cfg->keys.have_admin)) {
        st = hsp_tls_ctx_new(&cfg->keys, &n->tls, err);
    }
    if (st != HSP_OK) {
        hsp_net_memory_free(n);
        return st;
    }
    (void)uv_timer_init(loop, &n->timer); /* neither can fail */
    (void)uv_check_init(loop, &n->turn);
    n->timer.data = n->turn.data = n;
    n->n_handles = 2;
    (void)uv_timer_start(&n->timer, on_tick, NET_TICK_MS, NET_TICK_MS); /* fails without callback */
    *ret = n;
    return HSP_OK;
}

void hsp_net_close(struct hsp_net *n, void (*on_closed)(void *ctx))
{
    n->closing = true;
    n->on_closed = on_closed;
    hsp_net_stop_listening(n);
    for (uint32_t i = 0; i < n->n_slots; i++) {
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
    struct net_conn *c = hsp_net_conn_own(n, err);
    if (c == NULL) {
        return HSP_ELIMIT;
    }
    int r = uv_pipe_init(n->loop, &c->h.pipe, 0);
    if (r != 0) {
        hsp_net_conn_free(c);
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

enum hsp_status hsp_net_send(struct hsp_net *n, uint32_t conn, const struct hsp_frame_header *head,
                             const void *body, size_t body_len, const void *blob, size_t blob_len,
                             struct hsp_err *err)
{
    struct net_conn *c = hsp_net_conn_find(n, conn);
    if (c == NULL || c->state != NET_OPEN) {
        return hsp_err_set(err, HSP_ECLOSED, 0, "connection %u is not open", conn);
    }
    return hsp_net_conn_send(c, head, body, body_len, blob, blob_len, err);
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

enum hsp_status hsp_net_admit(struct hsp_net *n, uint32_t conn, enum hsp_net_pool pool,
                              struct hsp_err *err)
{
    struct net_conn *c = hsp_net_conn_find(n, conn);
    if (c == NULL || c->state != NET_OPEN) {
        return hsp_err_set(err, HSP_ECLOSED, 0, "connection %u is not open", conn);
    }
    if (!hsp_net_pool_join(c, pool)) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%u connections are the limit", n->cfg.places[pool]);
    }
    return HSP_OK;
}

void hsp_net_drop(struct hsp_net *n, uint32_t conn, bool flush, const char *why)
{
    struct net_conn *c = hsp_net_conn_find(n, conn);
    if (c != NULL) {
        hsp_net_conn_drop(c, flush, why);
    }
}

void hsp_net_set_name(struct hsp_net *n, uint32_t conn, const char *name)
{
    struct net_conn *c = hsp_net_conn_find(n, conn);
    if (c != NULL) {
        (void)snprintf(c->name, sizeof c->name, "%s", name);
    }
}

const char *hsp_net_name(const struct hsp_net *n, uint32_t conn)
{
    const struct net_conn *c = hsp_net_conn_find(n, conn);
    return c != NULL ? c->name : "closed";
}
