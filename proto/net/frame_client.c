/* Runs one blocking connection. The happy path is: connect, TLS, send, receive. Possible failure
 * modes are: nobody there, another key, the peer closes, too slow. The socket is non-blocking;
 * waiting is poll with a deadline.
 *
 * Reading and writing by TLS change one session state, so each call into TLS takes tls_lock. A
 * thread that waits in poll does not hold the lock. */
#include "proto/net/frame_client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/net/addr.h"
#include "proto/wire/protocol.h"

#define BUFFER ((size_t)64 << 10)

struct hsp_client {
    int fd;
    pthread_mutex_t send_lock; /* one frame at a time */
    pthread_mutex_t tls_lock;
    struct hsp_tls_ctx *ctx;
    struct hsp_tls *tls; /* NULL: plain */
    struct hsp_frame_parser parser;
    size_t pos, have; /* plain bytes not parsed yet */
    uint8_t plain[BUFFER], raw[BUFFER];
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t deadline_of(uint32_t timeout_ms)
{
    return timeout_ms == 0 ? UINT64_MAX : now_ms() + timeout_ms;
}

/* Waits until the socket is ready for @events. HSP_OK: it is ready, or broken, which the next call
 * on it tells. */
static enum hsp_status wait_for(int fd, short events, uint64_t deadline, struct hsp_err *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        uint64_t now = now_ms();
        uint64_t left = deadline > now ? deadline - now : 0;
        int timeout = deadline == UINT64_MAX ? -1 : left < 60000 ? (int)left : 60000;
        int r = poll(&p, 1, timeout);
        if (r > 0) {
            return HSP_OK;
        }
        if (r < 0 && errno != EINTR) {
            return hsp_err_set(err, HSP_EIO, errno, "cannot wait");
        }
        if (r == 0 && now_ms() >= deadline) {
            return hsp_err_set(err, HSP_ETIMEDOUT, 0, "no answer in time");
        }
    }
}

static enum hsp_status send_raw(struct hsp_client *c, const uint8_t *p, size_t n, uint64_t deadline,
                                struct hsp_err *err)
{
    while (n > 0) {
        ssize_t k = send(c->fd, p, n, MSG_NOSIGNAL);
        if (k >= 0) {
            p += k;
            n -= (size_t)k;
        } else if (errno == EAGAIN) {
            enum hsp_status st = wait_for(c->fd, POLLOUT, deadline, err);
            if (st != HSP_OK) {
                return st;
            }
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return hsp_err_set(err, HSP_ECLOSED, 0, "closed by the peer");
        } else if (errno != EINTR) {
            return hsp_err_set(err, HSP_EIO, errno, "cannot send");
        }
    }
    return HSP_OK;
}

/* Sends the bytes that TLS has encrypted. */
static enum hsp_status send_pending(struct hsp_client *c, uint64_t deadline, struct hsp_err *err)
{
    uint8_t buf[16 << 10];
    for (;;) {
        pthread_mutex_lock(&c->tls_lock);
        size_t n = hsp_tls_output(c->tls, buf, sizeof buf);
        pthread_mutex_unlock(&c->tls_lock);
        enum hsp_status st = n > 0 ? send_raw(c, buf, n, deadline, err) : HSP_OK;
        if (n == 0 || st != HSP_OK) {
            return st;
        }
    }
}

/* Receives at least a byte. */
static enum hsp_status recv_raw(struct hsp_client *c, uint8_t *buf, size_t *ret_n,
                                uint64_t deadline, struct hsp_err *err)
{
    for (;;) {
        ssize_t k = recv(c->fd, buf, BUFFER, 0);
        if (k > 0) {
            *ret_n = (size_t)k;
            return HSP_OK;
        }
        if (k == 0 || errno == ECONNRESET) {
            return hsp_err_set(err, HSP_ECLOSED, 0, "closed by the peer");
        }
        if (errno == EAGAIN) {
            enum hsp_status st = wait_for(c->fd, POLLIN, deadline, err);
            if (st != HSP_OK) {
                return st;
            }
        } else if (errno != EINTR) {
            return hsp_err_set(err, HSP_EIO, errno, "cannot receive");
        }
    }
}

/* Fills the plain buffer with at least a byte. */
static enum hsp_status recv_plain(struct hsp_client *c, uint64_t deadline, struct hsp_err *err)
{
    c->pos = c->have = 0;
    if (c->tls == NULL) {
        return recv_raw(c, c->plain, &c->have, deadline, err);
    }
    for (;;) {
        size_t n = 0;
        pthread_mutex_lock(&c->tls_lock);
        enum hsp_status st = hsp_tls_read(c->tls, c->plain, sizeof c->plain, &c->have, err);
        pthread_mutex_unlock(&c->tls_lock);
        if (st != HSP_AGAIN) {
            return st;
        }
        st = recv_raw(c, c->raw, &n, deadline, err);
        if (st != HSP_OK) {
            return st;
        }
        pthread_mutex_lock(&c->tls_lock);
        st = hsp_tls_input(c->tls, c->raw, n, err);
        pthread_mutex_unlock(&c->tls_lock);
        if (st != HSP_OK) {
            return st;
        }
    }
}

enum hsp_status hsp_client_recv(struct hsp_client *c, uint32_t timeout_ms, struct hsp_frame *ret,
                                struct hsp_err *err)
{
    uint64_t deadline = deadline_of(timeout_ms);
    for (;;) {
        size_t used = 0;
        if (c->pos < c->have) {
            enum hsp_status st =
                hsp_frame_feed(&c->parser, c->plain + c->pos, c->have - c->pos, &used, ret, err);
            c->pos += used;
            if (st != HSP_AGAIN) {
                return st;
            }
        }
        enum hsp_status st = recv_plain(c, deadline, err);
        if (st == HSP_ECLOSED && c->parser.n_raw > 0) {
            return hsp_err_set(err, HSP_EPROTO, 0, "closed by the peer in the middle of a frame");
        }
        if (st != HSP_OK) {
            return st;
        }
    }
}

static enum hsp_status send_some(struct hsp_client *c, const void *data, size_t len,
                                 uint64_t deadline, struct hsp_err *err)
{
    const uint8_t *p = data;
    if (c->tls == NULL) {
        return send_raw(c, p, len, deadline, err);
    }
    while (len > 0) {
        size_t n = len < BUFFER ? len : BUFFER;
        pthread_mutex_lock(&c->tls_lock);
        enum hsp_status st = hsp_tls_write(c->tls, p, n, err);
        pthread_mutex_unlock(&c->tls_lock);
        if (st == HSP_OK) {
            st = send_pending(c, deadline, err);
        }
        if (st != HSP_OK) {
            return st;
        }
        p += n;
        len -= n;
    }
    return HSP_OK;
}

enum hsp_status hsp_client_send(struct hsp_client *c, const struct hsp_frame_header *head,
                                const void *body, size_t body_len, const void *blob,
                                size_t blob_len, uint32_t timeout_ms, struct hsp_err *err)
{
    uint8_t raw[HSP_FRAME_HEADER];
    struct hsp_frame_header h = *head;
    if (body_len > HSP_FRAME_BODY_MAX || blob_len > HSP_FRAME_BLOB_MAX) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "frame of %zu + %zu bytes is longer than any limit",
                           body_len, blob_len);
    }
    h.version = hsp_protocol.newest;
    h.oldest = hsp_protocol.oldest;
    h.body_len = (uint32_t)body_len;
    h.blob_len = (uint32_t)blob_len;
    hsp_frame_header_encode(&h, raw);
    uint64_t deadline = deadline_of(timeout_ms);
    pthread_mutex_lock(&c->send_lock);
    enum hsp_status st = send_some(c, raw, sizeof raw, deadline, err);
    if (st == HSP_OK) {
        st = send_some(c, body, body_len, deadline, err);
    }
    if (st == HSP_OK) {
        st = send_some(c, blob, blob_len, deadline, err);
    }
    pthread_mutex_unlock(&c->send_lock);
    return st;
}

/* ---- open and close ---- */

/* Returns a connected non-blocking socket, or -errno. */
static int connect_one(int family, const struct sockaddr *sa, socklen_t len, uint64_t deadline)
{
    struct hsp_err err;
    int e = 0;
    socklen_t e_len = sizeof e;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    if (connect(fd, sa, len) == 0) {
        return fd;
    }
    if (errno != EINPROGRESS) {
        e = errno;
    } else if (wait_for(fd, POLLOUT, deadline, &err) != HSP_OK) {
        e = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &e_len) != 0) {
        e = errno;
    }
    if (e != 0) {
        close(fd);
        return -e;
    }
    return fd;
}

static int connect_tcp(const struct hsp_addr *a, uint64_t deadline, const char **ret_why)
{
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *ai = NULL;
    (void)snprintf(port, sizeof port, "%u", a->port);
    int r = getaddrinfo(a->host, port, &hints, &ai);
    if (r != 0) {
        *ret_why = gai_strerror(r);
        return -ENOENT;
    }
    int fd = -ENOENT;
    for (const struct addrinfo *p = ai; p != NULL && fd < 0; p = p->ai_next) {
        fd = connect_one(p->ai_family, p->ai_addr, p->ai_addrlen, deadline);
    }
    freeaddrinfo(ai);
    if (fd >= 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* works without */
    }
    return fd;
}

static enum hsp_status connect_to(const struct hsp_addr *a, const char *address, uint64_t deadline,
                                  int *ret_fd, struct hsp_err *err)
{
    const char *why = NULL;
    int fd;
    if (a->local) {
        struct sockaddr_un sa = {.sun_family = AF_UNIX};
        memcpy(sa.sun_path, a->path, sizeof a->path);
        fd = connect_one(AF_UNIX, (struct sockaddr *)&sa, sizeof sa, deadline);
    } else {
        fd = connect_tcp(a, deadline, &why);
    }
    if (fd >= 0) {
        *ret_fd = fd;
        return HSP_OK;
    }
    enum hsp_status code = fd == -ENOENT                   ? HSP_ENOENT
                           : fd == -ETIMEDOUT              ? HSP_ETIMEDOUT
                           : fd == -EACCES || fd == -EPERM ? HSP_EPERM
                                                           : HSP_EIO;
    return why != NULL ? hsp_err_set(err, code, 0, "cannot connect to %s: %s", address, why)
                       : hsp_err_set(err, code, -fd, "cannot connect to %s", address);
}

static enum hsp_status shake_hands(struct hsp_client *c, uint64_t deadline, struct hsp_err *err)
{
    for (;;) {
        size_t n = 0;
        struct hsp_err sent;
        enum hsp_status st = hsp_tls_handshake(c->tls, err);
        enum hsp_status out = send_pending(c, deadline, &sent);
        if (st == HSP_OK && out != HSP_OK) {
            *err = sent;
        }
        if (st != HSP_AGAIN) {
            return st == HSP_OK ? out : st;
        }
        st = recv_raw(c, c->raw, &n, deadline, err);
        if (st == HSP_ECLOSED) {
            return hsp_err_set(err, st, 0, "closed by the peer during the handshake");
        }
        if (st != HSP_OK || (st = hsp_tls_input(c->tls, c->raw, n, err)) != HSP_OK) {
            return st;
        }
    }
}

static enum hsp_status client_new(int fd, struct hsp_client **ret, struct hsp_err *err)
{
    static const struct hsp_frame_limits limits = {HSP_FRAME_BODY_MAX, HSP_FRAME_BLOB_MAX};
    struct hsp_client *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return hsp_err_nomem(err, "a connection");
    }
    c->fd = fd;
    pthread_mutex_init(&c->send_lock, NULL);
    pthread_mutex_init(&c->tls_lock, NULL);
    hsp_frame_parser_init(&c->parser, &limits);
    *ret = c;
    return HSP_OK;
}

enum hsp_status hsp_client_adopt(int fd, struct hsp_client **ret, struct hsp_err *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return hsp_err_set(err, HSP_EINVAL, errno, "descriptor %d", fd);
    }
    return client_new(fd, ret, err);
}

enum hsp_status hsp_client_open(const char *address, const struct hsp_net_keys *keys,
                                enum hsp_net_role role, uint32_t timeout_ms,
                                struct hsp_client **ret, struct hsp_err *err)
{
    struct hsp_addr a;
    struct hsp_client *c = NULL;
    uint64_t deadline = deadline_of(timeout_ms);
    int fd = -1;
    enum hsp_status st = hsp_addr_parse(address, HSP_PORT, &a, err);
    if (st != HSP_OK) {
        return st;
    }
    bool tls = !a.local && keys != NULL &&
               ((role == HSP_ROLE_ADMIN && keys->have_admin) ||
                (role == HSP_ROLE_WORKER && keys->have_worker));
    if (!tls && !hsp_addr_is_loopback(&a)) {
        return hsp_err_set(err, HSP_EPERM, 0, "%s is not loopback, and there is no %s key", address,
                           hsp_role_name(role));
    }
    st = connect_to(&a, address, deadline, &fd, err);
    if (st != HSP_OK) {
        return st;
    }
    st = client_new(fd, &c, err);
    if (st != HSP_OK) {
        close(fd);
        return st;
    }
    if (tls) {
        st = hsp_tls_ctx_new(keys, &c->ctx, err);
        if (st == HSP_OK) {
            st = hsp_tls_new(c->ctx, false, role, &c->tls, err);
        }
        if (st == HSP_OK && (st = shake_hands(c, deadline, err)) != HSP_OK) {
            (void)hsp_err_wrap(err, "%s", address);
        }
    }
    if (st != HSP_OK) {
        hsp_client_close(c);
        return st;
    }
    *ret = c;
    return HSP_OK;
}

void hsp_client_close(struct hsp_client *c)
{
    if (c == NULL) {
        return;
    }
    if (c->tls != NULL) {
        struct hsp_err err;
        hsp_tls_end(c->tls);
        (void)send_pending(c, now_ms(), &err); /* if it does not fit, closing says it too */
    }
    close(c->fd);
    hsp_tls_free(c->tls);
    hsp_tls_ctx_free(c->ctx);
    hsp_frame_parser_fini(&c->parser);
    pthread_mutex_destroy(&c->send_lock);
    pthread_mutex_destroy(&c->tls_lock);
    free(c);
}
