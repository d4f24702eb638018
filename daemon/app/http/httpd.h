/* Serves GET /metrics and GET /healthz of the daemon on a listener of their own.
 *
 * Role:    app.c opens it; a caller never changes anything, so there are no keys.
 * Purity:  shell (libmicrohttpd on the libuv loop, no threads).
 * Threads: the loop thread.
 * Bounds:  64 connections (strangers.h chooses the one that is closed for a newer one), 16 KiB for
 *          each request, 10 s without any byte from the client. */
#ifndef HSP_HTTPD_H
#define HSP_HTTPD_H
#include <uv.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

#define HSP_HTTP_PORT 7072

struct hsp_httpd;

struct hsp_httpd_calls {
    void (*metrics)(void *ctx, struct hsp_buf *out);
    /* Returns one line with the fault; NULL if there is none. */
    const char *(*health)(void *ctx);
};

/* @address: host:port with a literal address or "localhost". HSP_EINVAL; HSP_EIO: cannot bind. */
enum hsp_status hsp_httpd_open(uv_loop_t *loop, const char *address,
                               const struct hsp_httpd_calls *calls, void *ctx,
                               struct hsp_httpd **ret, struct hsp_err *err);
/* Returns the bound address, such as "127.0.0.1:7072". */
const char *hsp_httpd_name(const struct hsp_httpd *h);
/* Frees @h and then calls @closed with its ctx, from the loop. Does nothing if @h is NULL. */
void hsp_httpd_close(struct hsp_httpd *h, void (*closed)(void *ctx));

#endif
