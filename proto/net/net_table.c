#include "proto/net/net_table.h"

#include <assert.h> /* static_assert */
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/check.h"
#include "proto/net/net_pool.h"

static_assert(1u << NET_SLOT_BITS == HSP_NET_MAX_CONNS, "a number holds a slot");

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

struct net_conn *hsp_net_conn_find(const struct hsp_net *n, uint32_t conn)
{
    uint32_t i = hsp_net_slot(conn);
    struct net_conn *c = i < n->n_slots ? n->slot[i] : NULL;
    return c != NULL && c->id == conn ? c : NULL;
}

struct net_conn *hsp_net_conn_new(struct hsp_net *n, struct hsp_err *err)
{
    if (n->n_conns >= n->n_slots || n->closing) {
        (void)hsp_err_set(err, HSP_ELIMIT, 0, "%u connections are the limit", n->n_slots);
        return NULL;
    }
    struct net_conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        (void)hsp_err_nomem(err, "a connection");
        return NULL;
    }
    while (n->slot[n->next_slot] != NULL) {
        n->next_slot = (n->next_slot + 1) % n->n_slots;
    }
    uint32_t i = n->next_slot;
    n->next_slot = (i + 1) % n->n_slots;
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

struct net_conn *hsp_net_conn_own(struct hsp_net *n, struct hsp_err *err)
{
    struct net_conn *c = hsp_net_conn_new(n, err);
    if (c != NULL && !hsp_net_pool_join(c, HSP_POOL_OWN)) {
        hsp_net_conn_free(c);
        (void)hsp_err_set(err, HSP_ELIMIT, 0, "%u connections are the limit",
                          n->cfg.places[HSP_POOL_OWN]);
        return NULL;
    }
    return c;
}

void hsp_net_conn_free(struct net_conn *c)
{
    struct hsp_net *n = c->net;
    while (c->out != NULL) {
        struct net_out *o = c->out;
        c->out = o->next;
        free(o);
    }
    hsp_net_pool_leave(c);
    free(c->cipher);
    hsp_tls_free(c->tls);
    hsp_frame_parser_fini(&c->parser);
    n->slot[hsp_net_slot(c->id)] = NULL;
    n->n_conns--;
    free(c);
}

int hsp_net_spare_open(void)
{
    return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void hsp_net_memory_free(struct hsp_net *n)
{
    hsp_tls_ctx_free(n->tls);
    OPENSSL_cleanse(&n->cfg.keys, sizeof n->cfg.keys);
    hsp_net_pools_fini(n);
    if (n->spare_fd >= 0) {
        (void)close(n->spare_fd); /* nothing was written to it */
    }
    free(n->slot);
    free(n->generation);
    free(n->read_buf);
    free(n->plain_buf);
    free(n);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct hsp_net *n = h->data;
    void (*on_closed)(void *ctx) = n->on_closed;
    void *ctx = n->ctx;
    if (--n->n_handles > 0) {
        return;
    }
    hsp_net_memory_free(n);
    if (on_closed != NULL) {
        on_closed(ctx);
    }
}

void hsp_net_maybe_end(struct hsp_net *n)
{
    if (n->closing && !n->ending && n->n_conns == 0 && n->n_listeners == 0) {
        n->ending = true;
        uv_close((uv_handle_t *)&n->timer, on_handle_closed);
        uv_close((uv_handle_t *)&n->turn, on_handle_closed);
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
        c->peer.name = c->name;
        n->calls.on_refuse(n->ctx, &c->peer, &c->why);
    }
    hsp_net_conn_free(c);
    hsp_net_maybe_end(n);
}
