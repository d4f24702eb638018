/* Making a mesh. The happy path, per pair (client = lower rank):
 *
 *   client -> hello       job, epoch, both ranks, n, nonce
 *   server -> challenge   nonce, proof under the epoch key
 *   client -> proof
 *   server -> ready       one byte; both ends stand
 *
 * On one host, when both have a segment: the hello says so, ready comes with the server's segment and is
 * answered by the client's. Then both stand.
 *
 * By TCP with TLS: client -> hello, then a TLS 1.3 handshake under the secret of that hello, which
 * proves the key to both, then ready inside TLS. A server takes what its own parameters say and
 * refuses the other kind: nobody on the way can talk two ranks out of TLS.
 *
 * Everything runs in the caller's thread over one poll. Possible failure: a peer cannot be reached,
 * or closes half way (called again with growing pauses until the time is up; it may be restarting,
 * or not have the epoch yet), a server with another key (final), a client with another key (dropped
 * and counted), a standing peer that goes away (final), cancellation, the deadline. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/net/tlspsk.h"
#include "worker/comm/mesh/meshimpl.h"

#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 500
#define PROOF_MS     5000 /* a client that has been challenged answers within that */
#define READY        0x6b
#define READY_SHARE  0x6c /* with a segment, both ways */

enum stage {
    IDLE,       /* client: to be called (again) at pause_until */
    CONNECTING, /* client: by the kernel */
    CALLED,     /* client: hello sent, waits for the challenge; for long if the server is behind */
    PROVING,    /* client: proof sent, waits for ready */
    UP,
};

struct pair {
    enum stage stage;
    int fd;               /* -1: none */
    struct mesh_tls *tls; /* NULL: clear */
    struct mesh_shm *shm; /* UP: NULL: bytes go by the socket */
    uint64_t pause_until, pause_ms;
    bool by_tcp;   /* the local socket did not work */
    bool local;    /* UP: by it */
    bool no_share; /* there was no memory for it */
    bool ended;    /* UP: it has closed; its last words are read when the mesh stands */
    bool failed;   /* an attempt has */
    int why;       /* its errno; 0: closed by the peer */
    uint8_t hello[MESH_HELLO];
    size_t have;
    uint8_t in[MESH_NONCE + MESH_PROOF];
};

/* A caller that has been challenged. */
struct caller {
    struct mesh_arrival a;
    struct mesh_tls *tls; /* NULL: clear */
    struct mesh_shm *shm; /* not NULL: it is proven, its segment is to come */
    uint8_t nonce[MESH_NONCE], proof[MESH_PROOF];
    size_t have;
    uint64_t until_ms;
};

struct making {
    struct hsp_mesh_listener *l;
    const struct hsp_mesh_params *p;
    struct mesh_join join;
    struct hsp_tls_ctx *ctx; /* NULL: without TLS */
    struct seg seg;          /* head NULL: none */
    uint64_t deadline;
    struct pair *pair; /* n */
    uint32_t n_up;
    struct caller *caller; /* cap_callers */
    uint32_t n_callers, cap_callers, n_refused;
    struct pollfd *poll; /* 2 + n + cap_callers */
};

static bool send_all(int fd, const void *p, size_t n)
{
    /* A fresh socket has room for the few bytes of a handshake; if not, it is no good. */
    return send(fd, p, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void pair_up(struct making *m, uint32_t r, int fd, bool local, struct mesh_tls *tls,
                    struct mesh_shm *shm)
{
    m->pair[r].fd = fd;
    m->pair[r].local = local;
    m->pair[r].tls = tls;
    m->pair[r].shm = shm;
    m->pair[r].stage = UP;
    m->n_up++;
}

static void pair_retry(struct pair *q, int why, uint64_t now)
{
    if (q->fd >= 0) {
        close(q->fd);
    }
    q->fd = -1;
    q->tls = hsp_mesh_tls_free(q->tls);
    q->stage = IDLE;
    q->failed = true;
    q->why = why;
    q->by_tcp = !q->by_tcp; /* the other way next time, where there is one */
    q->pause_until = now + q->pause_ms;
    q->pause_ms = q->pause_ms * 2 < PAUSE_MAX_MS ? q->pause_ms * 2 : PAUSE_MAX_MS;
}

static void say_hello(struct making *m, uint32_t r, bool tls, uint64_t now)
{
    struct pair *q = &m->pair[r];
    struct mesh_hello h = m->join.want;
    struct hsp_err err;
    h.from = m->p->rank;
    h.to = r;
    h.tls = tls;
    h.shares = !q->by_tcp && m->seg.head != NULL && !q->no_share;
    q->have = 0;
    q->stage = CALLED;
    if (!hsp_mesh_hello_make(&h, q->hello) || !send_all(q->fd, q->hello, MESH_HELLO)) {
        pair_retry(q, errno, now);
    } else if (tls &&
               (hsp_mesh_tls_new(m->ctx, false, m->p->key, q->hello, &q->tls, &err) != HSP_OK ||
                hsp_mesh_tls_shake(q->tls, q->fd, &err) != HSP_AGAIN)) {
        pair_retry(q, ENOBUFS, now);
    }
}

static void call(struct making *m, uint32_t r, uint64_t now)
{
    struct pair *q = &m->pair[r];
    bool waits = false;
    int fd = -ENOENT;
    if (hsp_mesh_transport(m->l) != HSP_MESH_TCP && !q->by_tcp) {
        fd = hsp_mesh_dial(m->p->peers[r].address, true, &waits);
    }
    if (fd == -ENOENT) {
        q->by_tcp = true;
        fd = hsp_mesh_dial(m->p->peers[r].address, false, &waits);
    }
    if (fd < 0) {
        pair_retry(q, -fd, now);
        return;
    }
    q->fd = fd;
    q->stage = CONNECTING;
    if (!waits) {
        say_hello(m, r, m->p->tls && q->by_tcp, now);
    }
}

static const char *name_of(const struct making *m, uint32_t r)
{
    return m->p->peers[r].name;
}

/* Reads up to @want bytes in all. 1: complete; 0: not yet; -1: gone (errno, 0: closed). */
static int read_more(int fd, uint8_t *buf, size_t *have, size_t want)
{
    ssize_t n = recv(fd, buf + *have, want - *have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        errno = n == 0 ? 0 : errno;
        return -1;
    }
    *have += (size_t)n;
    return *have == want;
}

static enum hsp_status no_key(const struct making *m, uint32_t r, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EAUTH, 0, "rank %u (%s, %s) does not hold the key of epoch %llu", r,
                       name_of(m, r), m->p->peers[r].address, (unsigned long long)m->p->epoch);
}

static enum hsp_status answer_challenge(struct making *m, uint32_t r, uint64_t now,
                                        struct hsp_err *err)
{
    struct pair *q = &m->pair[r];
    uint8_t want[MESH_PROOF], mine[MESH_PROOF];
    if (!hsp_mesh_proof(m->p->key, true, q->hello, q->in, want) ||
        !hsp_mesh_proof(m->p->key, false, q->hello, q->in, mine)) {
        return hsp_err_set(err, HSP_EIO, 0, "cannot compute a proof");
    }
    if (!hsp_mesh_proof_equal(want, q->in + MESH_NONCE)) {
        return no_key(m, r, err);
    }
    q->have = 0;
    q->stage = PROVING;
    if (!send_all(q->fd, mine, MESH_PROOF)) {
        pair_retry(q, errno, now);
    }
    return HSP_OK;
}

/* The client's side of TLS: the handshake, then the byte that says ready. */
static enum hsp_status serve_tls(struct making *m, uint32_t r, uint64_t now, struct hsp_err *err)
{
    struct pair *q = &m->pair[r];
    ssize_t n = hsp_mesh_tls_fill(q->tls, q->fd);
    if (n == -EAGAIN || n == -EINTR) {
        return HSP_OK;
    }
    if (n <= 0) {
        pair_retry(q, (int)-n, now);
        return HSP_OK;
    }
    enum hsp_status st = hsp_mesh_tls_shake(q->tls, q->fd, err);
    if (st == HSP_EAUTH) {
        return no_key(m, r, err);
    }
    size_t k = 0;
    uint8_t ready = 0;
    if (st == HSP_OK) {
        q->stage = PROVING;
        st = hsp_mesh_tls_read(q->tls, &ready, 1, &k, err);
    }
    if (st == HSP_OK && ready == READY) {
        pair_up(m, r, q->fd, false, q->tls, NULL);
    } else if (st != HSP_AGAIN) {
        pair_retry(q, EPROTO, now);
    }
    return HSP_OK;
}

/* The client's half and the segment that came from rank @r. */
static enum hsp_status share(struct making *m, uint32_t r, int fd, struct mesh_shm **ret,
                             struct hsp_err *err)
{
    struct mesh_shm *shm = NULL;
    enum hsp_status st = fd >= 0 && m->seg.head != NULL
                             ? hsp_shm_new(&m->seg, r, &shm, err)
                             : hsp_err_set(err, HSP_EPROTO, 0, "no segment came");
    if (st == HSP_OK) {
        st = hsp_shm_attach(shm, fd, m->p->n, m->p->rank, err);
    }
    if (st != HSP_OK) {
        (void)hsp_shm_free(shm);
        hsp_err_wrap(err, "shared memory with rank %u (%s)", r, name_of(m, r));
        return st;
    }
    *ret = shm;
    return HSP_OK;
}

/* The client's side of the end: ready, maybe with a segment. */
static enum hsp_status hear_ready(struct making *m, uint32_t r, uint64_t now, struct hsp_err *err)
{
    struct pair *q = &m->pair[r];
    struct mesh_shm *shm = NULL;
    uint8_t byte = 0;
    int fd = -1, k = hsp_seg_recv(q->fd, &byte, &fd);
    enum hsp_status st = k > 0 && byte == READY_SHARE ? share(m, r, fd, &shm, err) : HSP_OK;
    if (fd >= 0) {
        close(fd);
    }
    if (st != HSP_OK && hsp_mesh_transport(m->l) == HSP_MESH_SHM) {
        return st;
    }
    if (st != HSP_OK) { /* AUTO: once more, without */
        q->no_share = true;
        pair_retry(q, ENOMEM, now);
        q->by_tcp = false;
    } else if (k < 0 || (k > 0 && byte != READY && byte != READY_SHARE) ||
               (shm != NULL && !hsp_seg_send(q->fd, READY_SHARE, m->seg.fd))) {
        (void)hsp_shm_free(shm);
        pair_retry(q, k < 0 ? errno : EPROTO, now);
    } else if (k > 0) {
        pair_up(m, r, q->fd, !q->by_tcp, NULL, shm);
    }
    return HSP_OK;
}

static enum hsp_status serve_pair(struct making *m, uint32_t r, short events, uint64_t now,
                                  struct hsp_err *err)
{
    struct pair *q = &m->pair[r];
    if (q->stage == IDLE && r > m->p->rank && now >= q->pause_until) {
        call(m, r, now);
        return HSP_OK;
    }
    if (events == 0 || q->fd < 0) {
        return HSP_OK;
    }
    if (q->stage == UP) { /* POLLRDHUP: gone, unless its bytes are still to be read */
        uint8_t b;
        q->ended = recv(q->fd, &b, 1, MSG_PEEK) > 0;
        return q->ended
                   ? HSP_OK
                   : hsp_err_set(err, HSP_EPEER, 0, "rank %u (%s) left while the mesh was made", r,
                                 name_of(m, r));
    }
    if (q->stage == CONNECTING) {
        int e = 0;
        socklen_t len = sizeof e;
        if (getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0 || e != 0) {
            pair_retry(q, e, now);
        } else {
            say_hello(m, r, m->p->tls && q->by_tcp, now);
        }
        return HSP_OK;
    }
    if (q->tls != NULL) {
        return serve_tls(m, r, now, err);
    }
    if (q->stage == PROVING) {
        return hear_ready(m, r, now, err);
    }
    int k = read_more(q->fd, q->in, &q->have, MESH_NONCE + MESH_PROOF);
    if (k < 0) {
        pair_retry(q, errno, now);
    } else if (k > 0) {
        return answer_challenge(m, r, now, err);
    }
    return HSP_OK;
}

/* ---- callers ---- */

static void drop_caller(struct making *m, uint32_t i)
{
    if (m->caller[i].a.fd >= 0) {
        close(m->caller[i].a.fd);
    }
    (void)hsp_mesh_tls_free(m->caller[i].tls);
    (void)hsp_shm_free(m->caller[i].shm);
    m->caller[i] = m->caller[--m->n_callers];
}

/* Answers a hello. False: no use. */
static bool greet(struct making *m, struct caller *c)
{
    struct mesh_hello h;
    struct hsp_err err;
    bool tls = m->p->tls && !c->a.local;
    if (c->a.from >= m->p->rank || !hsp_mesh_hello_read(c->a.hello, &h)) {
        return false;
    }
    if (h.tls != tls) {
        m->n_refused++;
        return false;
    }
    if (tls) {
        return hsp_mesh_tls_new(m->ctx, true, m->p->key, c->a.hello, &c->tls, &err) == HSP_OK;
    }
    uint8_t out[MESH_NONCE + MESH_PROOF];
    bool ok = hsp_mesh_nonce(c->nonce) &&
              hsp_mesh_proof(m->p->key, true, c->a.hello, c->nonce, out + MESH_NONCE);
    memcpy(out, c->nonce, MESH_NONCE);
    return ok && send_all(c->a.fd, out, sizeof out);
}

static void take_callers(struct making *m, uint64_t now)
{
    struct mesh_arrival a;
    while (hsp_mesh_join_take(m->l, &m->join, &a)) {
        if (m->n_callers == m->cap_callers) {
            drop_caller(m, 0); /* none is proven; a true one calls again */
        }
        m->caller[m->n_callers++] = (struct caller){.a = a, .until_ms = now + PROOF_MS};
        if (!greet(m, &m->caller[m->n_callers - 1])) {
            drop_caller(m, m->n_callers - 1);
        }
    }
}

/* The server's side of a proof. HSP_OK: proven; HSP_AGAIN: not yet; HSP_EAUTH: has another key;
 * else gone. */
static enum hsp_status hear_proof(struct making *m, struct caller *c)
{
    uint8_t want[MESH_PROOF];
    if (c->tls != NULL) {
        struct hsp_err err;
        ssize_t n = hsp_mesh_tls_fill(c->tls, c->a.fd);
        return n > 0                         ? hsp_mesh_tls_shake(c->tls, c->a.fd, &err)
               : n == -EAGAIN || n == -EINTR ? HSP_AGAIN
                                             : HSP_ECLOSED;
    }
    int k = read_more(c->a.fd, c->proof, &c->have, MESH_PROOF);
    if (k <= 0) {
        return k < 0 ? HSP_ECLOSED : HSP_AGAIN;
    }
    return hsp_mesh_proof(m->p->key, false, c->a.hello, c->nonce, want) &&
                   hsp_mesh_proof_equal(want, c->proof)
               ? HSP_OK
               : HSP_EAUTH;
}

/* Whether both would share, and there is memory for it on our side: then it is the caller's. */
static bool will_share(struct making *m, struct caller *c)
{
    struct mesh_hello h;
    return c->a.local && m->seg.head != NULL && hsp_mesh_hello_read(c->a.hello, &h) && h.shares &&
           hsp_shm_new(&m->seg, c->a.from, &c->shm, NULL) == HSP_OK;
}

static bool say_ready(struct making *m, struct caller *c)
{
    const uint8_t ready = READY;
    return c->tls != NULL     ? hsp_mesh_tls_say(c->tls, c->a.fd, &ready, 1)
           : will_share(m, c) ? hsp_seg_send(c->a.fd, READY_SHARE, m->seg.fd)
                              : hsp_seg_send(c->a.fd, READY, -1);
}

/* The client's segment comes. HSP_ECLOSED: the connection is no good. */
static enum hsp_status hear_segment(struct making *m, struct caller *c, struct hsp_err *err)
{
    uint8_t byte = 0;
    int fd = -1, k = hsp_seg_recv(c->a.fd, &byte, &fd);
    enum hsp_status st = k == 0            ? HSP_AGAIN
                         : k < 0 || fd < 0 ? HSP_ECLOSED
                                           : hsp_shm_attach(c->shm, fd, m->p->n, m->p->rank, err);
    if (fd >= 0) {
        close(fd);
    }
    if (st == HSP_EPROTO || st == HSP_EIO) {
        hsp_err_wrap(err, "shared memory with rank %u (%s)", c->a.from, name_of(m, c->a.from));
    }
    return st;
}

static void caller_up(struct making *m, struct caller *c)
{
    pair_up(m, c->a.from, c->a.fd, c->a.local, c->tls, c->shm);
    c->a.fd = -1;
    c->tls = NULL;
    c->shm = NULL;
}

static enum hsp_status serve_caller(struct making *m, uint32_t i, short events, uint64_t now,
                                    struct hsp_err *err)
{
    struct caller *c = &m->caller[i];
    bool sharing = c->shm != NULL; /* it is proven; its segment is to come */
    enum hsp_status st = events == 0 ? HSP_AGAIN
                         : sharing   ? hear_segment(m, c, err)
                                     : hear_proof(m, c);
    if (st == HSP_AGAIN && now < c->until_ms) {
        return HSP_OK;
    }
    m->n_refused += st == HSP_EAUTH;
    if (st == HSP_OK && m->pair[c->a.from].stage != UP && (sharing || say_ready(m, c))) {
        if (!sharing && c->shm != NULL) {
            return HSP_OK;
        }
        caller_up(m, c);
    }
    drop_caller(m, i);
    return sharing && (st == HSP_EPROTO || st == HSP_EIO) ? st : HSP_OK;
}

/* ---- the loop ---- */

static enum hsp_status too_late(const struct making *m, struct hsp_err *err)
{
    const struct hsp_mesh_params *p = m->p;
    uint32_t r = 0;
    while (r == p->rank || m->pair[r].stage == UP) {
        r++;
    }
    /* The address without its local part: what a person checks. */
    int host = (int)strcspn(p->peers[r].address, ",");
    uint32_t missing = p->n - 1 - m->n_up;
    char more[64] = "";
    if (missing > 1) {
        (void)snprintf(more, sizeof more, " (and %u more)", missing - 1);
    }
    if (r > p->rank) {
        const struct pair *q = &m->pair[r];
        const char *why = q->stage == CALLED || q->stage == PROVING
                              ? "it has not prepared the epoch"
                          : !q->failed                          ? "no answer"
                          : q->why != 0 && q->why != ECONNRESET ? strerror(q->why)
                                                                : "it closes the connection";
        return hsp_err_set(err, HSP_EPEER, 0, "rank %u (%s) cannot reach rank %u (%s, %.*s)%s: %s",
                           p->rank, name_of(m, p->rank), r, name_of(m, r), host,
                           p->peers[r].address, more, why);
    }
    char refused[96] = "";
    if (m->n_refused > 0) {
        (void)snprintf(refused, sizeof refused,
                       "; %u callers were refused: without the key, or with another data_plane",
                       m->n_refused);
    }
    return hsp_err_set(err, HSP_EPEER, 0, "rank %u (%s, %.*s) did not reach rank %u (%s)%s%s", r,
                       name_of(m, r), host, p->peers[r].address, p->rank, name_of(m, p->rank), more,
                       refused);
}

static int fill_poll(struct making *m, uint64_t now)
{
    const struct hsp_mesh_params *p = m->p;
    uint64_t until = m->deadline;
    m->poll[0] = (struct pollfd){.fd = p->cancel_fd, .events = POLLIN};
    m->poll[1] = (struct pollfd){.fd = m->join.wake_fd, .events = POLLIN};
    for (uint32_t r = 0; r < p->n; r++) {
        const struct pair *q = &m->pair[r];
        short events = q->stage == CONNECTING ? POLLOUT : q->stage == UP ? POLLRDHUP : POLLIN;
        m->poll[2 + r] = (struct pollfd){.fd = q->ended ? -1 : q->fd, .events = events};
        if (q->stage == IDLE && r > p->rank && q->pause_until < until) {
            until = q->pause_until;
        }
    }
    for (uint32_t i = 0; i < m->n_callers; i++) {
        m->poll[2 + p->n + i] = (struct pollfd){.fd = m->caller[i].a.fd, .events = POLLIN};
        until = m->caller[i].until_ms < until ? m->caller[i].until_ms : until;
    }
    uint64_t left = until > now ? until - now : 0;
    return left < 60000 ? (int)left : 60000;
}

static enum hsp_status make(struct making *m, struct hsp_err *err)
{
    const struct hsp_mesh_params *p = m->p;
    while (m->n_up < p->n - 1) {
        uint64_t now = hsp_mesh_now_ms();
        if (now >= m->deadline) {
            return too_late(m, err);
        }
        int timeout = fill_poll(m, now);
        uint32_t n_callers = m->n_callers;
        if (poll(m->poll, 2 + p->n + n_callers, timeout) < 0 && errno != EINTR) {
            return hsp_err_set(err, HSP_EIO, errno, "cannot wait for peers");
        }
        if (m->poll[0].revents != 0) {
            return hsp_err_set(err, HSP_ECANCELED, 0, "preparing epoch %llu was given up",
                               (unsigned long long)p->epoch);
        }
        now = hsp_mesh_now_ms();
        for (uint32_t i = n_callers; i-- > 0;) { /* backwards: see drop_caller */
            enum hsp_status st = serve_caller(m, i, m->poll[2 + p->n + i].revents, now, err);
            if (st != HSP_OK) {
                return st;
            }
        }
        for (uint32_t r = 0; r < p->n; r++) {
            enum hsp_status st = serve_pair(m, r, m->poll[2 + r].revents, now, err);
            if (st != HSP_OK) {
                return st;
            }
        }
        if (m->poll[1].revents != 0) {
            take_callers(m, now);
        }
    }
    return HSP_OK;
}

static enum hsp_status check(const struct hsp_mesh_params *p, struct hsp_err *err)
{
    if (p->n == 0 || p->n > HSP_MESH_MAX_RANKS || p->rank >= p->n) {
        return hsp_err_set(err, HSP_EINVAL, 0, "rank %u of a mesh of %u, want at most %d", p->rank,
                           p->n, HSP_MESH_MAX_RANKS);
    }
    return HSP_OK;
}

/* What was asked for is what came of it. */
static enum hsp_status check_shared(const struct making *m, struct hsp_err *err)
{
    for (uint32_t r = 0; r < m->p->n && hsp_mesh_transport(m->l) == HSP_MESH_SHM; r++) {
        if (m->pair[r].local && m->pair[r].shm == NULL) {
            return hsp_err_set(
                err, HSP_EPEER, 0,
                "rank %u (%s) is on this host and shares no memory, which transport: "
                "shm asks for",
                r, name_of(m, r));
        }
    }
    return HSP_OK;
}

/* The join is open: makes the mesh, gives the connections to @wire. */
static enum hsp_status join(struct making *m, struct mesh_wire *wire, struct hsp_err *err)
{
    for (uint32_t r = 0; r < m->p->n; r++) {
        m->pair[r] = (struct pair){.fd = -1, .pause_ms = PAUSE_MIN_MS};
    }
    enum hsp_status st = make(m, err);
    if (st == HSP_OK) {
        st = check_shared(m, err);
    }
    hsp_mesh_join_close(m->l, &m->join);
    while (m->n_callers > 0) {
        drop_caller(m, m->n_callers - 1);
    }
    for (uint32_t r = 0; r < m->p->n; r++) {
        wire[r] = (struct mesh_wire){m->pair[r].fd, m->pair[r].tls, m->pair[r].shm};
        if (st != HSP_OK) {
            if (wire[r].fd >= 0) {
                close(wire[r].fd);
            }
            (void)hsp_mesh_tls_free(wire[r].tls);
            (void)hsp_shm_free(wire[r].shm);
        }
    }
    return st;
}

/* Our segment, as the transport asks. */
static enum hsp_status make_segment(struct making *m, struct hsp_err *err)
{
    enum hsp_mesh_transport t = hsp_mesh_transport(m->l);
    if (m->p->n == 1 || (t != HSP_MESH_AUTO && t != HSP_MESH_SHM)) {
        return HSP_OK;
    }
    enum hsp_status st = hsp_seg_new(m->p->n, &m->seg, t == HSP_MESH_SHM ? err : NULL);
    return t == HSP_MESH_SHM ? st : HSP_OK; /* AUTO goes without */
}

enum hsp_status hsp_mesh_connect(struct hsp_mesh_listener *l, const struct hsp_mesh_params *p,
                                 struct hsp_comm **ret, struct hsp_err *err)
{
    static const struct hsp_net_keys none; /* the epoch's key is all there is */
    struct making m = {.l = l,
                       .p = p,
                       .seg.fd = -1,
                       .join.want = {.job = p->job, .epoch = p->epoch, .to = p->rank, .n = p->n},
                       .deadline = hsp_mesh_now_ms() + p->timeout_ms,
                       .cap_callers = p->n + MESH_ARRIVALS};
    enum hsp_status st = check(p, err);
    if (st == HSP_OK && p->tls) {
        st = hsp_tls_ctx_new(&none, &m.ctx, err);
    }
    if (st == HSP_OK) {
        st = make_segment(&m, err);
    }
    if (st != HSP_OK) {
        (void)hsp_tls_ctx_free(m.ctx);
        return st;
    }
    m.pair = calloc(p->n, sizeof *m.pair);
    m.caller = calloc(m.cap_callers, sizeof *m.caller);
    m.poll = calloc(2 + p->n + m.cap_callers, sizeof *m.poll);
    struct mesh_wire *wire = calloc(p->n, sizeof *wire);
    if (m.pair == NULL || m.caller == NULL || m.poll == NULL || wire == NULL) {
        st = hsp_err_set(err, HSP_ENOMEM, 0, "no memory for a mesh of %u", p->n);
    } else {
        st = hsp_mesh_join_open(l, &m.join, err);
    }
    if (st == HSP_OK) {
        st = join(&m, wire, err);
    }
    if (st == HSP_OK) {
        hsp_seg_close_fd(&m.seg);
        st = hsp_mesh_start(p, wire, m.ctx, &m.seg, ret, err);
    } else {
        hsp_seg_free(&m.seg);
        (void)hsp_tls_ctx_free(m.ctx);
    }
    free(m.pair);
    free(m.caller);
    free(m.poll);
    free(wire);
    return st;
}
