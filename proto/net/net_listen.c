#include "proto/net/net_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/net/net_end.h"
#include "proto/net/net_impl.h"
#include "proto/net/net_pool.h"
#include "proto/net/net_read.h"
#include "proto/net/net_table.h"

bool hsp_net_allowed(const struct hsp_net *n, const struct hsp_addr *a, struct hsp_err *err)
{
    bool here = hsp_addr_is_loopback(a);
    if (a->local || n->tls != NULL || (here && n->cfg.clear_loopback)) {
        return true;
    }
    (void)hsp_err_set(err, HSP_EPERM, 0, "%s is %s, and there are no keys (worker.key, admin.key)",
                      a->host, here ? "open to every user of this host" : "not loopback");
    return false;
}

/* ---- callers ---- */

static void name_tcp(struct net_conn *c, struct hsp_source *ret)
{
    struct sockaddr_storage sa;
    char host[64] = "?";
    int len = sizeof sa, port = 0;
    if (uv_tcp_getpeername(&c->h.tcp, (struct sockaddr *)&sa, &len) == 0) {
        *ret = hsp_source_of_ip((struct sockaddr *)&sa);
        if (sa.ss_family == AF_INET6) {
            (void)uv_ip6_name((const struct sockaddr_in6 *)&sa, host, sizeof host);
            port = ntohs(((const struct sockaddr_in6 *)&sa)->sin6_port);
        } else {
            (void)uv_ip4_name((const struct sockaddr_in *)&sa, host, sizeof host);
            port = ntohs(((const struct sockaddr_in *)&sa)->sin_port);
        }
    }
    (void)snprintf(c->name, sizeof c->name, "%s:%d", host, port);
}

/* False: the kernel does not name the peer. */
static bool name_local(struct net_conn *c, struct hsp_source *ret)
{
    struct ucred u;
    socklen_t len = sizeof u;
    uv_os_fd_t fd;
    if (uv_fileno(&c->h.any, &fd) != 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) != 0) {
        return false;
    }
    c->peer.uid = u.uid;
    c->peer.gid = u.gid;
    c->peer.pid = u.pid;
    *ret = hsp_source_of_user(u.uid);
    (void)snprintf(c->name, sizeof c->name, "uid %u pid %d", (unsigned)u.uid, (int)u.pid);
    return true;
}

static void on_refused_closed(uv_handle_t *h)
{
    free(h);
}

/* Takes a caller from the backlog only to close it: it must not wait for nothing. */
static void refuse_accepted(struct hsp_net *n, struct net_listener *l, const struct hsp_err *why)
{
    uv_handle_t *h = malloc(l->local ? sizeof(uv_pipe_t) : sizeof(uv_tcp_t));
    if (h == NULL) {
        return;
    }
    int r =
        l->local ? uv_pipe_init(n->loop, (uv_pipe_t *)h, 0) : uv_tcp_init(n->loop, (uv_tcp_t *)h);
    if (r != 0) {
        free(h);
        return;
    }
    (void)uv_accept(&l->h.stream, (uv_stream_t *)h); /* closed in either case */
    uv_close(h, on_refused_closed);
    if (n->calls.on_refuse != NULL) {
        n->calls.on_refuse(n->ctx, &(struct hsp_net_peer){.name = l->name}, why);
    }
}

/* A caller has come, and perhaps takes the place of another one. False: it is sent away itself. */
static bool arrive(struct net_conn *c, bool local, struct hsp_source from)
{
    enum hsp_net_pool pool = local ? HSP_POOL_VISITORS : HSP_POOL_STRANGERS;
    struct net_conn *victim = hsp_net_pool_arrive(c, pool, from);
    c->peer.source = hsp_source_number(&from);
    if (victim != NULL) {
        struct hsp_err e;
        uint32_t places = c->net->cfg.places[pool];
        (void)hsp_err_set(&e, HSP_ELIMIT, 0,
                          victim == c
                              ? "all places are taken by callers that have just proved a key; it "
                                "may call again: %u callers at most, %u from one %s, may wait"
                              : "a newer caller takes its place: %u callers at most, %u from one "
                                "%s, may be silent",
                          places, hsp_strangers_share(places), local ? "user" : "address");
        hsp_net_conn_fail(victim, &e);
    }
    return victim != c;
}

static void take_caller(struct net_listener *l)
{
    struct hsp_net *n = l->net;
    struct hsp_source from = {.kind = 0};
    struct hsp_err e;
    n->spare_fd = n->spare_fd >= 0 ? n->spare_fd : hsp_net_spare_open();
    if (n->spare_fd < 0) { /* this caller has the spare descriptor, and gives it back */
        (void)hsp_err_set(&e, HSP_ELIMIT, 0,
                          "no descriptors are left; raise LimitNOFILE= or ulimit "
                          "-n");
        refuse_accepted(n, l, &e);
        n->spare_fd = hsp_net_spare_open();
        return;
    }
    struct net_conn *c = hsp_net_conn_new(n, &e);
    if (c == NULL) {
        refuse_accepted(n, l, &e);
        return;
    }
    int r = l->local ? uv_pipe_init(n->loop, &c->h.pipe, 0) : uv_tcp_init(n->loop, &c->h.tcp);
    c->h.any.data = c;
    if (r != 0) {
        e = hsp_net_uv_err(HSP_EIO, r, "cannot accept");
        hsp_net_conn_fail(c, &e);
        return;
    }
    c->handle_open = true;
    c->n_ops++;
    c->peer.listener = (uint32_t)(l - n->listener);
    c->deadline = uv_now(n->loop) + n->cfg.handshake_ms;
    r = uv_accept(&l->h.stream, &c->h.stream);
    bool named = r == 0;
    if (named && l->local) {
        named = name_local(c, &from);
    } else if (named) {
        name_tcp(c, &from);
    }
    if (!named) {
        e = hsp_net_uv_err(HSP_EIO, r != 0 ? r : -EPERM, "cannot accept");
        hsp_net_conn_fail(c, &e);
        return;
    }
    if (arrive(c, l->local, from)) {
        hsp_net_conn_start(c);
    }
}

/* libuv asks for more callers until none is waiting: a crowd would have the loop for itself. Behind
 * so many it keeps the next one, and asks no more until that one is taken. */
static void on_turn(uv_check_t *h)
{
    struct hsp_net *n = h->data;
    (void)uv_check_stop(h); /* cannot fail */
    for (uint32_t i = 0; i < HSP_NET_MAX_LISTENERS; i++) {
        struct net_listener *l = &n->listener[i];
        bool held = l->held;
        l->held = false;
        l->n_turn = 0;
        if (held && !n->closing) {
            take_caller(l);
        }
    }
}

static void on_connection(uv_stream_t *s, int status)
{
    struct net_listener *l = s->data;
    struct hsp_net *n = l->net;
    if (n->closing) {
        return;
    }
    if (status < 0) { /* out of descriptors: libuv asks again at once */
        struct net_conn *c = hsp_net_pool_oldest(n);
        if (c != NULL) {
            hsp_net_conn_fail_uv(c, status, "a descriptor was needed");
        } else if (n->spare_fd >= 0) {
            (void)close(n->spare_fd); /* nothing was written to it */
            n->spare_fd = -1;
        }
        return;
    }
    (void)uv_check_start(&n->turn, on_turn); /* has a callback */
    if (l->n_turn++ < NET_ACCEPTS) {
        take_caller(l);
    } else {
        l->held = true;
    }
}

/* ---- listening ---- */

/* A path that nobody serves any more is in the way of bind. */
static int remove_stale(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct stat st;
    if (lstat(path, &st) != 0) {
        return 0;
    }
    if (!S_ISSOCK(st.st_mode)) {
        return UV_EEXIST;
    }
    (void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    int r = connect(fd, (struct sockaddr *)&sa, sizeof sa) != 0 ? errno : 0;
    close(fd);
    if (r != ECONNREFUSED) {
        return UV_EADDRINUSE;
    }
    return unlink(path) == 0 ? 0 : -errno;
}

/* libuv tells of a folder that is not there as of one that is forbidden. */
static int why_not_bound(const char *path, int r)
{
    char dir[sizeof((struct sockaddr_un *)0)->sun_path];
    (void)snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (r != UV_EACCES || slash == NULL || slash == dir) {
        return r;
    }
    *slash = '\0';
    return access(dir, F_OK) != 0 && errno == ENOENT ? UV_ENOENT : r;
}

static int bind_local(struct hsp_net *n, struct net_listener *l, const struct hsp_addr *a)
{
    int r = remove_stale(a->path);
    if (r != 0 || (r = uv_pipe_init(n->loop, &l->h.pipe, 0)) != 0) {
        return r;
    }
    l->open = true;
    n->n_listeners++;
    r = why_not_bound(a->path, uv_pipe_bind(&l->h.pipe, a->path));
    if (r == 0 && chmod(a->path, 0660) != 0) {
        r = -errno;
    }
    (void)snprintf(l->name, sizeof l->name, "unix:%s", a->path);
    return r;
}

/* A caller speaks first. The kernel keeps a caller to itself until its first bytes are there, or a
 * second is over: silent callers take no place from others. Works without. */
static void defer_silent(struct net_listener *l)
{
    uv_os_fd_t fd;
    if (uv_fileno(&l->h.any, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &(int){1}, sizeof(int));
    }
}

static int bind_tcp(struct hsp_net *n, struct net_listener *l, const struct hsp_addr *a)
{
    struct sockaddr_storage sa;
    const char *host = strcmp(a->host, "localhost") == 0 ? "127.0.0.1" : a->host;
    bool v6 = strchr(host, ':') != NULL;
    int len = sizeof sa;
    int r = v6 ? uv_ip6_addr(host, a->port, (struct sockaddr_in6 *)&sa)
               : uv_ip4_addr(host, a->port, (struct sockaddr_in *)&sa);
    if (r != 0 || (r = uv_tcp_init(n->loop, &l->h.tcp)) != 0) {
        return r;
    }
    l->open = true;
    n->n_listeners++;
    r = uv_tcp_bind(&l->h.tcp, (const struct sockaddr *)&sa, 0);
    if (r == 0) {
        r = uv_tcp_getsockname(&l->h.tcp, (struct sockaddr *)&sa, &len);
    }
    if (r == 0) {
        uint16_t port = ntohs(v6 ? ((const struct sockaddr_in6 *)&sa)->sin6_port
                                 : ((const struct sockaddr_in *)&sa)->sin_port);
        (void)snprintf(l->name, sizeof l->name, v6 ? "[%s]:%u" : "%s:%u", host, port);
        if (n->tls != NULL) {
            defer_silent(l);
        }
    }
    return r;
}

static void on_listener_closed(uv_handle_t *h)
{
    struct net_listener *l = h->data;
    l->open = false;
    l->used = false;
    l->net->n_listeners--;
    hsp_net_maybe_end(l->net);
}

void hsp_net_stop_listening(struct hsp_net *n)
{
    for (uint32_t i = 0; i < HSP_NET_MAX_LISTENERS; i++) {
        struct net_listener *l = &n->listener[i];
        if (l->open && !uv_is_closing(&l->h.any)) {
            uv_close(&l->h.any, on_listener_closed); /* libuv removes the path of a Unix socket */
        }
    }
}

enum hsp_status hsp_net_listen(struct hsp_net *n, const char *address, uint32_t *ret_listener,
                               struct hsp_err *err)
{
    struct hsp_addr a;
    uint32_t i = 0;
    enum hsp_status st = hsp_addr_parse(address, HSP_PORT, &a, err);
    if (st != HSP_OK) {
        return st;
    }
    if (!hsp_net_allowed(n, &a, err)) {
        return HSP_EPERM;
    }
    while (i < HSP_NET_MAX_LISTENERS && n->listener[i].used) {
        i++;
    }
    if (i == HSP_NET_MAX_LISTENERS) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "%d listeners are the limit", HSP_NET_MAX_LISTENERS);
    }
    struct net_listener *l = &n->listener[i];
    *l = (struct net_listener){.net = n, .local = a.local};
    n->spare_fd = n->spare_fd >= 0 ? n->spare_fd : hsp_net_spare_open();
    int r = a.local ? bind_local(n, l, &a) : bind_tcp(n, l, &a);
    l->h.any.data = l;
    l->used = l->open; /* a handle that was made keeps its place until it is closed */
    if (r == 0) {
        r = uv_listen(&l->h.stream, SOMAXCONN, on_connection);
    }
    if (r != 0) {
        if (l->open) {
            uv_close(&l->h.any, on_listener_closed);
        }
        return hsp_err_set(err,
                           r == UV_EADDRINUSE || r == UV_EEXIST ? HSP_EEXIST
                           : r == UV_EINVAL                     ? HSP_EINVAL
                                                                : HSP_EIO,
                           -r, "cannot listen on %s", address);
    }
    *ret_listener = i;
    return HSP_OK;
}

const char *hsp_net_listener_name(const struct hsp_net *n, uint32_t listener)
{
    return listener < HSP_NET_MAX_LISTENERS ? n->listener[listener].name : "";
}
