#include "proto/net/net_dial.h"

#include <stdio.h>

#include "proto/net/net_end.h"
#include "proto/net/net_impl.h"
#include "proto/net/net_listen.h"
#include "proto/net/net_read.h"
#include "proto/net/net_table.h"

static void attempt(struct net_conn *c);

static void attempt_failed(struct net_conn *c, int r, const char *what)
{
    struct hsp_err e = hsp_net_uv_err(HSP_EIO, r, what);
    hsp_net_dial_failed(c, &e);
}

void hsp_net_dial_tick(struct net_conn *c, uint64_t now)
{
    if (c->state == NET_PAUSING && now >= c->dial.retry_at) {
        attempt(c);
    }
}

static void on_connected(uv_connect_t *req, int status)
{
    struct net_conn *c = req->data;
    if (c->state != NET_CONNECTING) {
        return; /* closing: nothing to release, the handle does */
    }
    if (status < 0) {
        attempt_failed(c, status, "cannot connect");
        return;
    }
    hsp_net_conn_start(c);
}

static void connect_to(struct net_conn *c, const struct sockaddr *sa)
{
    c->state = NET_CONNECTING;
    c->connect_req.data = c;
    c->h.any.data = c;
    int r;
    if (c->dial.addr.local) {
        r = uv_pipe_init(c->net->loop, &c->h.pipe, 0);
    } else {
        r = uv_tcp_init(c->net->loop, &c->h.tcp);
    }
    c->h.any.data = c;
    if (r != 0) {
        attempt_failed(c, r, "cannot make a socket");
        return;
    }
    c->handle_open = true;
    c->n_ops++;
    if (c->dial.addr.local) {
        uv_pipe_connect(&c->connect_req, &c->h.pipe, c->dial.addr.path, on_connected);
        return;
    }
    r = uv_tcp_connect(&c->connect_req, &c->h.tcp, sa, on_connected);
    if (r != 0) {
        attempt_failed(c, r, "cannot connect");
    }
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *ai)
{
    struct net_conn *c = req->data;
    if (c->state == NET_RESOLVING && status == 0) {
        connect_to(c, ai->ai_addr);
    } else if (c->state == NET_RESOLVING) {
        attempt_failed(c, status, "no such host");
    }
    uv_freeaddrinfo(ai);
    hsp_net_conn_release(c);
}

static void attempt(struct net_conn *c)
{
    c->deadline = uv_now(c->net->loop) + c->dial.attempt_ms;
    if (c->dial.addr.local) {
        connect_to(c, NULL);
        return;
    }
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    (void)snprintf(port, sizeof port, "%u", c->dial.addr.port);
    c->state = NET_RESOLVING;
    c->resolve_req.data = c;
    int r =
        uv_getaddrinfo(c->net->loop, &c->resolve_req, on_resolved, c->dial.addr.host, port, &hints);
    if (r != 0) {
        attempt_failed(c, r, "cannot look the host up");
        return;
    }
    c->n_ops++;
}

enum hsp_status hsp_net_dial_start(struct hsp_net *n, const struct hsp_net_dial *d,
                                   uint32_t *ret_conn, struct hsp_err *err)
{
    struct hsp_addr a;
    enum hsp_status st = hsp_addr_parse(d->address, HSP_PORT, &a, err);
    if (st != HSP_OK) {
        return st;
    }
    if (!hsp_net_allowed(n, &a, err)) {
        return HSP_EPERM;
    }
    bool have = d->role == HSP_ROLE_ADMIN    ? n->cfg.keys.have_admin
                : d->role == HSP_ROLE_WORKER ? n->cfg.keys.have_worker
                                             : false;
    if (!a.local && n->tls != NULL && !have) {
        return hsp_err_set(err, HSP_EINVAL, 0, "no %s key to call %s", hsp_role_name(d->role),
                           d->address);
    }
    struct net_conn *c = hsp_net_conn_own(n, err);
    if (c == NULL) {
        return HSP_ELIMIT;
    }
    uint64_t now = uv_now(n->loop);
    c->dialled = true;
    c->told = true; /* the number is the caller's from now on */
    c->peer.listener = UINT32_MAX;
    c->dial = (struct net_dialing){
        .addr = a,
        .role = d->role,
        .pause_ms = d->pause_ms,
        .pause_max_ms = d->pause_max_ms > d->pause_ms ? d->pause_max_ms : d->pause_ms,
        .attempt_ms = d->attempt_ms != 0 ? d->attempt_ms : n->cfg.handshake_ms,
        .give_up_at = d->give_up_ms != 0 ? now + d->give_up_ms : UINT64_MAX,
        .retry_at = now,
    };
    (void)snprintf(c->name, sizeof c->name, "%s", d->address);
    c->state = NET_PAUSING; /* the sweep starts the first attempt: nothing happens in this call */
    *ret_conn = c->id;
    return HSP_OK;
}
