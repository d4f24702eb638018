/* Runs libmicrohttpd on the loop. The happy path: the descriptor of libmicrohttpd's epoll set is
 * readable, MHD_run answers. Possible failure modes: the address is taken (hsp_httpd_open says so),
 * a caller that says nothing (its timeout, checked by the timer), one that says it byte by byte
 * (sweep), too many callers (the oldest goes, first of the address that has a quarter of all). */
#include "daemon/app/http/httpd.h"

#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/base/check.h"
#include "proto/net/addr.h"
#include "proto/net/strangers.h"

#define MAX_TEXT    ((size_t)32 << 20) /* 16,384 nodes with 16 devices each */
#define MAX_CALLERS 64u
#define MAX_ENDING \
    32u /* more, whose places others have: MHD accepts ten at a time, then ends these */
#define MAX_REQUEST ((size_t)16 << 10)
#define IDLE_S      10u
#define REQUEST_MS  30000u /* a request is whole after this, however slow its bytes come */

struct caller {
    int fd;      /* MHD's; -1: free */
    uint32_t at; /* among the strangers; HSP_NO_STRANGER: it has lost its place */
    uint64_t since_ms;
};

struct hsp_httpd {
    const struct hsp_httpd_calls *calls;
    void *ctx;
    struct MHD_Daemon *mhd;
    uv_poll_t poll;
    uv_timer_t timer;
    int n_handles;
    char name[320];
    struct caller callers[MAX_CALLERS + MAX_ENDING];
    uint32_t n_strangers;
    uint64_t n_arrived;
    struct hsp_stranger stranger[MAX_CALLERS];
    struct caller *who[MAX_CALLERS]; /* parallel */
    void (*closed)(void *ctx);
};

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
                              const void *text, size_t len)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (r == NULL) {
        return MHD_NO; /* closes the connection */
    }
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type); /* only for looks */
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    enum MHD_Result done = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result answer_line(struct MHD_Connection *c, unsigned status, const char *line)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s\n", line);
    size_t len = n < (int)sizeof text ? (size_t)n : sizeof text - 1;
    return answer(c, status, "text/plain; charset=utf-8", text, len);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    const struct hsp_httpd *h = arg;
    (void)version, (void)upload, (void)upload_size, (void)request;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        return answer_line(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD");
    }
    if (strcmp(url, "/healthz") == 0) {
        const char *ill = h->calls->health(h->ctx);
        return answer_line(c, ill == NULL ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                           ill == NULL ? "ok" : ill);
    }
    if (strcmp(url, "/metrics") != 0) {
        return answer_line(c, MHD_HTTP_NOT_FOUND, "there are /metrics and /healthz");
    }
    struct hsp_buf b;
    hsp_buf_init(&b, MAX_TEXT);
    h->calls->metrics(h->ctx, &b);
    enum MHD_Result done = b.failed
                               ? answer_line(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory")
                               : answer(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
                                        hsp_buf_cstr(&b), b.len);
    hsp_buf_fini(&b);
    return done;
}

/* The caller gives its place up. */
static void leave(struct hsp_httpd *h, struct caller *x)
{
    if (x->at != HSP_NO_STRANGER) {
        uint32_t last = --h->n_strangers;
        h->stranger[x->at] = h->stranger[last];
        h->who[x->at] = h->who[last];
        h->who[x->at]->at = x->at;
        x->at = HSP_NO_STRANGER;
    }
}

/* Gives @x, which comes @from there, a place; the former holder is shut, and MHD ends it in
 * its next turn. */
static void take_place(struct hsp_httpd *h, struct caller *x, struct hsp_source from)
{
    uint32_t i = hsp_strangers_victim(h->stranger, h->n_strangers, MAX_CALLERS, &from, 0);
    if (i != HSP_NO_STRANGER) {
        (void)shutdown(h->who[i]->fd, SHUT_RDWR); /* if it is connected still */
        leave(h, h->who[i]);
    }
    HSP_ASSERT(h->n_strangers < MAX_CALLERS);
    x->at = h->n_strangers++;
    h->stranger[x->at] = (struct hsp_stranger){.from = from, .since = h->n_arrived++};
    h->who[x->at] = x;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **mine,
                          enum MHD_ConnectionNotificationCode code)
{
    struct hsp_httpd *h = arg;
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct caller *x = *mine;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED && x != NULL) {
        leave(h, x);
        x->fd = -1;
    }
    if (code != MHD_CONNECTION_NOTIFY_STARTED || fd == NULL || peer == NULL) {
        return; /* MHD has both */
    }
    for (x = h->callers; x->fd >= 0; x++) { /* MHD has no more connections than this table */
        HSP_ASSERT(x < h->callers + MAX_CALLERS + MAX_ENDING - 1);
    }
    *x = (struct caller){fd->connect_fd, HSP_NO_STRANGER, uv_now(h->timer.loop)};
    take_place(h, x, hsp_source_of_ip(peer->client_addr));
    *mine = x;
}

/* The next request on the same connection has its own time. */
static void on_completed(void *arg, struct MHD_Connection *c, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct hsp_httpd *h = arg;
    const union MHD_ConnectionInfo *mine =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    (void)request, (void)code;
    if (mine != NULL && mine->socket_context != NULL) {
        ((struct caller *)mine->socket_context)->since_ms = uv_now(h->timer.loop);
    }
}

/* MHD's timeout begins anew with each byte; ours does not. Each byte comes by here. */
static void sweep(struct hsp_httpd *h)
{
    uint64_t now = uv_now(h->timer.loop);
    for (uint32_t i = 0; i < MAX_CALLERS + MAX_ENDING; i++) {
        if (h->callers[i].fd >= 0 && now - h->callers[i].since_ms > REQUEST_MS) {
            (void)shutdown(h->callers[i].fd, SHUT_RDWR); /* MHD reads the end and closes */
        }
    }
}

static void on_timer(uv_timer_t *t);

static void work(struct hsp_httpd *h)
{
    MHD_UNSIGNED_LONG_LONG ms;
    sweep(h);
    (void)MHD_run(h->mhd); /* a failure in it closes the connection that failed */
    if (MHD_get_timeout(h->mhd, &ms) == MHD_YES) {
        (void)uv_timer_start(&h->timer, on_timer, ms, 0); /* has a callback */
    } else {
        (void)uv_timer_stop(&h->timer); /* cannot fail */
    }
}

static void on_timer(uv_timer_t *t)
{
    work(t->data);
}

static void on_poll(uv_poll_t *p, int status, int events)
{
    (void)status, (void)events; /* MHD_run finds every kind of event */
    work(p->data);
}

static enum hsp_status resolve(const char *address, struct sockaddr_storage *ret, char *name,
                               size_t size, struct hsp_err *err)
{
    struct hsp_addr a;
    enum hsp_status st = hsp_addr_parse(address, HSP_HTTP_PORT, &a, err);
    if (st != HSP_OK) {
        return st;
    }
    const char *host = strcmp(a.host, "localhost") == 0 ? "127.0.0.1" : a.host;
    memset(ret, 0, sizeof *ret);
    if (a.local || (uv_ip4_addr(host, a.port, (struct sockaddr_in *)(void *)ret) != 0 &&
                    uv_ip6_addr(host, a.port, (struct sockaddr_in6 *)(void *)ret) != 0)) {
        return hsp_err_set(err, HSP_EINVAL, 0,
                           "%s is no address of a host with a port, like 127.0.0.1:7072", address);
    }
    (void)snprintf(name, size, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, a.port);
    return HSP_OK;
}

static void quiet(void *ctx, const char *fmt, va_list ap)
{
    (void)ctx, (void)fmt, (void)ap; /* broken requests are no news of ours */
}

static enum hsp_status start(struct hsp_httpd *h, const char *address, struct hsp_err *err)
{
    struct sockaddr_storage at;
    enum hsp_status st = resolve(address, &at, h->name, sizeof h->name, err);
    if (st != HSP_OK) {
        return st;
    }
    unsigned flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG;
    flags |= at.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0u;
    h->mhd = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, quiet, NULL,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&at, MHD_OPTION_CONNECTION_LIMIT,
        MAX_CALLERS + MAX_ENDING, MHD_OPTION_CONNECTION_MEMORY_LIMIT, MAX_REQUEST,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_END);
    if (h->mhd == NULL) {
        return hsp_err_set(err, HSP_EIO, errno, "%s", h->name);
    }
    const union MHD_DaemonInfo *fd = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    const union MHD_DaemonInfo *port = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_BIND_PORT);
    if (port != NULL && strrchr(h->name, ':') != NULL) { /* 0 was asked for: the system's choice */
        char *colon = strrchr(h->name, ':');
        (void)snprintf(colon, sizeof h->name - (size_t)(colon - h->name), ":%u", port->port);
    }
    int rc = fd != NULL ? uv_poll_init(h->timer.loop, &h->poll, fd->epoll_fd) : UV_EINVAL;
    if (rc != 0) {
        return hsp_err_set(err, HSP_EIO, 0, "%s: %s", h->name, uv_strerror(rc));
    }
    h->poll.data = h;
    h->n_handles++;
    rc = uv_poll_start(&h->poll, UV_READABLE, on_poll);
    return rc == 0 ? HSP_OK : hsp_err_set(err, HSP_EIO, 0, "%s: %s", h->name, uv_strerror(rc));
}

enum hsp_status hsp_httpd_open(uv_loop_t *loop, const char *address,
                               const struct hsp_httpd_calls *calls, void *ctx,
                               struct hsp_httpd **ret, struct hsp_err *err)
{
    struct hsp_httpd *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return hsp_err_nomem(err, "the listener for http");
    }
    h->calls = calls;
    h->ctx = ctx;
    for (uint32_t i = 0; i < MAX_CALLERS + MAX_ENDING; i++) {
        h->callers[i].fd = -1;
    }
    (void)uv_timer_init(loop, &h->timer); /* cannot fail */
    h->timer.data = h;
    h->n_handles = 1;
    enum hsp_status st = start(h, address, err);
    if (st != HSP_OK) {
        hsp_httpd_close(h, NULL); /* the loop frees it */
        return st;
    }
    *ret = h;
    return HSP_OK;
}

const char *hsp_httpd_name(const struct hsp_httpd *h)
{
    return h->name;
}

static void on_handle_closed(uv_handle_t *x)
{
    struct hsp_httpd *h = x->data;
    if (--h->n_handles > 0) {
        return;
    }
    if (h->mhd != NULL) {
        MHD_stop_daemon(h->mhd); /* closes its connections */
    }
    if (h->closed != NULL) {
        h->closed(h->ctx);
    }
    free(h);
}

void hsp_httpd_close(struct hsp_httpd *h, void (*closed)(void *ctx))
{
    if (h == NULL) {
        return;
    }
    h->closed = closed;
    if (h->n_handles > 1) {
        uv_close((uv_handle_t *)&h->poll, on_handle_closed);
    }
    uv_close((uv_handle_t *)&h->timer, on_handle_closed);
}
