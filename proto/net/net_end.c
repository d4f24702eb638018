#include "proto/net/net_end.h"

#include "proto/net/net_pool.h"
#include "proto/net/net_table.h"

/* The handle of a failed attempt is closed: the next attempt begins afresh. */
static void to_pause(struct net_conn *c)
{
    c->state = NET_PAUSING;
    c->tls = hsp_tls_free(c->tls);
    hsp_frame_parser_fini(&c->parser);
    hsp_frame_parser_init(&c->parser, &c->net->cfg.limits);
}

void hsp_net_conn_release(struct net_conn *c)
{
    c->n_ops--;
    if (c->n_ops == 0 && c->state == NET_RETRYING) {
        to_pause(c);
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
    hsp_net_pool_leave(c);
    hsp_net_conn_close_handle(c);
    /* Without an operation the sweep finishes it: never inside this call. */
}

void hsp_net_conn_fail_uv(struct net_conn *c, int r, const char *what)
{
    struct hsp_err e = hsp_net_uv_err(HSP_EIO, r, what);
    hsp_net_conn_fail(c, &e);
}

void hsp_net_dial_failed(struct net_conn *c, const struct hsp_err *why)
{
    struct net_dialing *d = &c->dial;
    uint64_t now = uv_now(c->net->loop);
    /* Another key does not become the right one by asking again. */
    if (d->pause_ms == 0 || now + d->pause_ms >= d->give_up_at || why->code == HSP_EAUTH) {
        struct hsp_err e = *why;
        (void)hsp_err_wrap(&e, "%s", c->name);
        hsp_net_conn_fail(c, &e);
        return;
    }
    c->why = *why;
    c->state = NET_RETRYING;
    d->retry_at = now + d->pause_ms;
    d->pause_ms = d->pause_ms * 2 < d->pause_max_ms ? d->pause_ms * 2 : d->pause_max_ms;
    c->deadline = UINT64_MAX;
    if (c->n_ops == 0) {
        to_pause(c);
    } else {
        hsp_net_conn_close_handle(c);
    }
}
