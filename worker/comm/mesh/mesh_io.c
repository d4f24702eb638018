/* Runs the I/O thread of a mesh. The normal course: when a link becomes readable, a header names a
 * channel, and the bytes go to the receive posted for that channel, or to a buffer until a receive
 * is posted. When a link becomes writable, the first queued message goes on. Possible failures: a
 * connection ends without BYE, a header does not continue the stream, or memory is short. Then the
 * thread kills the mesh, sends ABORT to the peers and shuts down all sockets. Their descriptors
 * stay open until close, since the user thread may be writing.
 *
 * Invariant (M2): dst and its fields belong to the thread that runs the links: this thread, or the
 * user thread while it leads. For links by shared memory that is the thread with the lock. Matching
 * lists are locked. */
#include "worker/comm/mesh/mesh_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/le.h"
#include "worker/comm/mesh/mesh_beat.h"
#include "worker/comm/mesh/mesh_header.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_match.h"
#include "worker/comm/mesh/mesh_poll.h"
#include "worker/comm/mesh/mesh_shm.h"
#include "worker/comm/mesh/mesh_tls.h"
#include "worker/comm/mesh/mesh_yield.h"

#define N_EVENTS   64
#define WAKE       UINT32_MAX         /* epoll tag of wake_fd */
#define WRITE_TURN ((size_t)1 << 20)  /* bytes to one peer before others have their turn */
#define WRITE_SOME ((size_t)64 << 10) /* the same where the mesh yields */
/* bytes read at most after a message, since they are copied */
#define BEHIND    ((size_t)2 << 10)
#define READ_TURN 16                 /* reads from one peer before others have their turn */
#define STRAIGHT  ((size_t)4 << 10)  /* a shorter run is copied: one read takes in many of them */
#define STAGE     ((size_t)64 << 10) /* runs shorter than that are sent together */
#define LEAD_MS   2                  /* a user thread that is away for longer gives up its lead */
#define LONG_MS   10                 /* how often this thread looks while the user thread waits */

/* ---- receiving ---- */

/* Acts on a header. Returns false if the thread must stop reading this link. */
static bool on_header(struct hsp_mesh *m, uint32_t peer, const uint8_t h[MESH_HEADER])
{
    struct mesh_link *l = &m->link[peer];
    uint64_t seq = hsp_le_get(h + 32, 8);
    uint32_t channel = (uint32_t)hsp_le_get(h + 28, 4);
    if (!hsp_mesh_header_ok(m, peer, h) || (h[5] == MESH_RING && l->shm == NULL)) {
        hsp_mesh_kill(m, HSP_EPEER, peer, "rank %u (%s) sent data that is no message of epoch %llu",
                      peer, m->names[peer], (unsigned long long)m->epoch);
        return false;
    }
    switch ((enum mesh_kind)h[5]) {
    case MESH_BYE:
        hsp_mesh_arm(m, peer, false, false);
        if (l->shm != NULL) {
            hsp_shm_said_bye(m, peer);
        } else {
            l->closed = true;
            hsp_mesh_drop_out(m, l);
        }
        return false;
    case MESH_ABORT: {
        const struct hsp_mesh_loss loss = {.rank = seq < m->base.n_ranks ? (uint32_t)seq : peer,
                                           .by = (uint32_t)hsp_le_get(h + 40, 4)};
        hsp_mesh_told(m, peer, (enum mesh_end)channel, &loss);
        return false;
    }
    case MESH_RING:
    case MESH_BEAT: return true;
    case MESH_DATA: break;
    }
    return hsp_mesh_on_data(m, peer, h);
}

static void has_come(struct mesh_link *l, size_t bytes)
{
    atomic_fetch_add_explicit(&l->arrived, bytes, memory_order_relaxed);
}

/* Handles the bytes in the input buffer. Returns false if the thread must stop reading this
 * link. */
static bool digest(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    for (;;) {
        if (l->dst != NULL) {
            size_t n = l->dst_bytes - l->dst_have, lies = l->in_have - l->in_pos;
            n = n < lies ? n : lies;
            if (n > 0) {
                hsp_runs_scatter(l->dst, l->dst_have, l->input + l->in_pos, n);
                l->dst_have += n;
                l->in_pos += n;
                has_come(l, n);
            }
            if (l->dst_have < l->dst_bytes) {
                return true;
            }
            pthread_mutex_lock(&m->lock);
            hsp_mesh_finish(m, l);
            pthread_mutex_unlock(&m->lock);
        }
        if (l->in_have - l->in_pos < MESH_HEADER) {
            return true;
        }
        pthread_mutex_lock(&m->lock);
        bool go = on_header(m, peer, l->input + l->in_pos);
        l->in_pos += MESH_HEADER;
        if (go && l->dst_bytes == 0) {
            hsp_mesh_finish(m, l);
        }
        pthread_mutex_unlock(&m->lock);
        if (!go) {
            return false;
        }
    }
}

/* Handles the end of a connection. The peer counts as dead, unless it has sent BYE. A rank that
 * closes, too, waits for no more messages, so it accepts an end without BYE. @broken: the error of
 * TLS, else NULL. */
static void peer_gone(struct hsp_mesh *m, uint32_t peer, int e, const char *broken)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    if (l->closed || (l->shm != NULL && hsp_shm_has_said_bye(l->shm))) {
        hsp_mesh_arm(m, peer, false, false);
    } else if (m->closing) {
        hsp_mesh_arm(m, peer, false, false);
        l->closed = true;
        hsp_mesh_drop_out(m, l);
    } else {
        hsp_mesh_kill(m, HSP_EPEER, peer, "lost rank %u (%s): %s", peer, m->names[peer],
                      broken != NULL ? broken
                      : e == 0       ? "connection closed"
                                     : strerror(e));
    }
    pthread_mutex_unlock(&m->lock);
}

static void compact(struct mesh_link *l)
{
    if (l->in_pos > 0) {
        memmove(l->input, l->input + l->in_pos, l->in_have - l->in_pos);
        l->in_have -= l->in_pos;
        l->in_pos = 0;
    }
}

/* Returns the address to which the next *ret_n bytes of the message under way go directly from the
 * socket. *ret_n is 0 if they go through the input buffer, as the bytes of many short runs do.
 * *ret_all: these bytes are the rest of the message. */
static uint8_t *straight(const struct mesh_link *l, size_t *ret_n, bool *ret_all)
{
    size_t rest = l->dst != NULL ? l->dst_bytes - l->dst_have : 0;
    uint8_t *to = rest > 0 ? hsp_runs_at(l->dst, l->dst_have, ret_n) : NULL;
    *ret_n = rest > 0 ? *ret_n : 0;
    *ret_all = *ret_n == rest;
    *ret_n = *ret_all || *ret_n >= STRAIGHT ? *ret_n : 0;
    return to;
}

/* Handles all bytes that the session has taken in, until the link has to stop. */
static void digest_tls(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    struct hsp_err err;
    while (digest(m, peer)) { /* when it says stop, the link is disarmed or the mesh dead */
        size_t n = 0, room = 0;
        bool all;
        compact(l);
        uint8_t *to = straight(l, &room, &all);
        bool direct = room > 0;
        to = direct ? to : l->input + l->in_have;
        room = direct ? room : MESH_INPUT - l->in_have;
        enum hsp_status st = hsp_mesh_tls_read(l->tls, to, room, &n, &err);
        if (st == HSP_AGAIN) {
            return;
        }
        if (st != HSP_OK) {
            peer_gone(m, peer, 0, err.msg);
            return;
        }
        l->dst_have += direct ? n : 0;
        has_come(l, direct ? n : 0);
        l->in_have += direct ? 0 : n;
    }
}

/* Reads the socket of a link by shared memory, which carries short messages only. */
static void hear(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    bool go = true, rung = false;
    for (; go && l->in_have - l->in_pos >= MESH_HEADER; l->in_pos += MESH_HEADER) {
        const uint8_t *h = l->input + l->in_pos;
        if (h[5] == MESH_DATA) {
            hsp_mesh_kill(m, HSP_EPEER, peer, "rank %u (%s) sent data beside its shared memory",
                          peer, m->names[peer]);
            break;
        }
        rung = rung || h[5] == MESH_RING;
        go = on_header(m, peer, h);
    }
    if (rung) {
        hsp_shm_rung(m);
    }
    pthread_mutex_unlock(&m->lock);
}

/* Handles the bytes in the buffers, of the session or of the link. */
static void go_on(struct hsp_mesh *m, uint32_t peer)
{
    if (m->link[peer].shm != NULL) {
        hear(m, peer);
    } else if (m->link[peer].tls != NULL) {
        digest_tls(m, peer);
    } else {
        (void)digest(m, peer);
    }
}

/* Reads from the socket. Returns the number of bytes, 0 at the end, or -errno. *ret_more: there may
 * be more. */
static ssize_t read_clear(struct mesh_link *l, bool *ret_more)
{
    compact(l);
    /* The rest of a message, or of a run, goes directly to its place, and the bytes after it go to
     * the input buffer. On a link by shared memory the place is not ours: another thread may be
     * filling it. */
    struct iovec iov[2] = {{.iov_len = 0}, {l->input + l->in_have, MESH_INPUT - l->in_have}};
    if (l->shm == NULL && l->dst != NULL) {
        bool all;
        iov[0].iov_base = straight(l, &iov[0].iov_len, &all);
        iov[1].iov_len = all && iov[1].iov_len > BEHIND ? BEHIND : iov[1].iov_len;
    }
    ssize_t n = readv(l->fd, iov, 2);
    if (n < 0) {
        return -errno;
    }
    size_t direct = (size_t)n < iov[0].iov_len ? (size_t)n : iov[0].iov_len;
    if (direct > 0) {
        l->dst_have += direct;
        has_come(l, direct);
    }
    l->in_have += (size_t)n - direct;
    *ret_more = (size_t)n == iov[0].iov_len + iov[1].iov_len;
    return n;
}

/* Reads once from a link. Returns true if there may be more. */
static bool read_once(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    bool more = false;
    pthread_mutex_lock(&m->lock);
    bool off = l->in_off;
    pthread_mutex_unlock(&m->lock);
    if (off) {
        return false; /* an error while it is held: found when reading goes on */
    }
    ssize_t n = l->tls != NULL ? hsp_mesh_tls_fill(l->tls, l->fd) : read_clear(l, &more);
    if (n > 0) {
        atomic_store_explicit(&l->heard, true, memory_order_relaxed);
        go_on(m, peer);
    } else if (n != -EAGAIN && n != -EINTR) {
        peer_gone(m, peer, (int)-n, NULL);
    }
    return more;
}

static void read_link(struct hsp_mesh *m, uint32_t peer)
{
    for (int i = 0; i < READ_TURN && read_once(m, peer); i++) {
    }
}

/* Reads a held link again, since a receive waits for its message. The message now goes to its
 * receive or to a buffer. */
static void resume(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    bool go = l->held && l->posted != NULL && l->shm == NULL;
    if (go) {
        l->held = false;
        go = hsp_mesh_begin(m, peer, l->held_channel, l->held_bytes);
    }
    if (go) {
        hsp_mesh_arm(m, peer, true, l->out_armed);
        if (l->dst_bytes == 0) {
            hsp_mesh_finish(m, l);
        }
    }
    pthread_mutex_unlock(&m->lock);
    if (go) {
        go_on(m, peer);
    }
}

/* ---- sending ---- */

int hsp_mesh_write_some(struct mesh_link *l, struct mesh_out *o, size_t most)
{
    if (l->tls != NULL) {
        return hsp_mesh_tls_write_some(l->tls, l->fd, o, most);
    }
    uint8_t stage[STAGE];
    while (o->sent < MESH_HEADER + o->bytes) {
        if (most == 0) {
            return 0;
        }
        struct iovec iov[2];
        struct msghdr h = {.msg_iov = iov};
        if (o->sent < MESH_HEADER) {
            iov[h.msg_iovlen++] = (struct iovec){o->head + o->sent, MESH_HEADER - o->sent};
        }
        size_t done = o->sent > MESH_HEADER ? o->sent - MESH_HEADER : 0, k;
        if (done < o->bytes) {
            const uint8_t *from = hsp_runs_piece(&o->data, done, stage, STAGE, &k);
            k = k < most ? k : most;
            iov[h.msg_iovlen++] = (struct iovec){(uint8_t *)(uintptr_t)from, k};
        }
        ssize_t n = sendmsg(l->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? 0 : -errno;
        }
        o->sent += (size_t)n;
        most -= (size_t)n < most ? (size_t)n : most;
    }
    return 1;
}

static void write_link(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    struct mesh_out *o = l->out; /* this thread takes it off, nobody else */
    bool go = o != NULL && !hsp_mesh_hold(m, peer, o->bytes);
    bool some = go && hsp_mesh_yields(m, l, o->bytes);
    pthread_mutex_unlock(&m->lock);
    if (!go) {
        return;
    }
    int r = hsp_mesh_write_some(l, o, some ? WRITE_SOME : WRITE_TURN);
    pthread_mutex_lock(&m->lock);
    if (r > 0) {
        hsp_mesh_out_done(m, l);
    }
    if (r < 0 || l->out == NULL) {
        /* On an error the next read finds the cause: a BYE may lie before the end. */
        hsp_mesh_arm(m, peer, !l->in_off, false);
    }
    pthread_mutex_unlock(&m->lock);
}

/* ---- the end ---- */

/* Sends an ABORT. If it does not fit, the end of the connection tells the peer. */
static void say_abort(struct mesh_link *l, const uint8_t head[MESH_HEADER])
{
    if (l->closed || (l->shm == NULL && (l->writing || (l->out != NULL && l->out->sent != 0)))) {
        return;
    }
    if (l->tls != NULL) {
        (void)hsp_mesh_tls_say(l->tls, l->fd, head, MESH_HEADER);
    } else {
        ssize_t n = send(l->fd, head, MESH_HEADER, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)n;
    }
}

/* Ends a killed mesh: tells the peers, shuts all sockets down, gives all buffers back. */
static void bury(struct hsp_mesh *m)
{
    uint8_t head[MESH_HEADER];
    pthread_mutex_lock(&m->lock);
    struct hsp_mesh_loss loss;
    enum mesh_end end = hsp_mesh_end_of(m, &loss);
    hsp_mesh_header(m, MESH_ABORT, (uint32_t)end, loss.rank, loss.by, head);
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        struct mesh_link *l = &m->link[i];
        if (l->fd < 0) {
            continue;
        }
        say_abort(l, head);
        (void)shutdown(l->fd, SHUT_RDWR);
        (void)epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
        hsp_mesh_drop_out(m, l);
        if (l->dst_req != NULL) {
            l->dst_req->state = HSP_REQ_POSTED;
            l->dst_req = NULL;
        }
        if (l->dst_msg != NULL && l->dst_msg->req != NULL) {
            l->dst_msg->req->state = HSP_REQ_POSTED;
            free(l->dst_msg);
        }
        l->dst_msg = NULL;
        l->dst = NULL;
    }
    m->ended = true;
    hsp_mesh_notify(m);
    bool tell =
        m->dead.code == HSP_EPEER && m->loss.rank < m->base.n_ranks && m->on_peer_lost != NULL;
    pthread_mutex_unlock(&m->lock);
    if (tell) {
        m->on_peer_lost(m->ctx, &m->loss, m->dead.msg); /* neither changes any more */
    }
}

/* Handles a wake-up. Returns false if the mesh is to end. */
static bool on_wake(struct hsp_mesh *m)
{
    uint64_t v;
    ssize_t n = read(m->wake_fd, &v, sizeof v);
    (void)n; /* EAGAIN: nothing to clear */
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        if (m->link[i].fd >= 0) {
            resume(m, i);
        }
    }
    pthread_mutex_lock(&m->lock);
    bool go = !m->stop && m->dead.code == HSP_OK;
    pthread_mutex_unlock(&m->lock);
    return go;
}

static int wait_ms(const struct hsp_mesh *m)
{
    int ms = hsp_mesh_beat_wait(m);
    return m->holds && (ms < 0 || ms > MESH_YIELD_MS) ? MESH_YIELD_MS : ms;
}

bool hsp_mesh_turn(struct hsp_mesh *m, uint64_t spin_ns)
{
    struct epoll_event ev[N_EVENTS];
    bool go = true;
    spin_ns = m->holds ? 0 : spin_ns;
    int n = epoll_wait(m->epoll_fd, ev, N_EVENTS, spin_ns > 0 ? 0 : wait_ms(m));
    for (uint64_t until = hsp_mesh_now_ns() + spin_ns; n == 0 && spin_ns > 0;) {
        hsp_mesh_look_away(m);
        n = epoll_wait(m->epoll_fd, ev, N_EVENTS, hsp_mesh_now_ns() < until ? 0 : -1);
    }
    hsp_mesh_go_on(m);
    for (int i = 0; i < n; i++) {
        uint32_t peer = ev[i].data.u32;
        if (peer == WAKE) {
            go = on_wake(m);
            continue;
        }
        if ((ev[i].events & EPOLLOUT) != 0) {
            write_link(m, peer);
        }
        if ((ev[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
            read_link(m, peer);
        }
    }
    return go;
}

/* Lets the user thread lead if it wants to. Sleeps until the user thread gives the links back or
 * stays away for LEAD_MS, or the mesh ends. Locked. */
static void park(struct hsp_mesh *m)
{
    m->led = m->led || m->wants;
    m->wants = false;
    if (m->led) {
        hsp_mesh_notify(m);
    }
    while (m->led && !m->stop && m->dead.code == HSP_OK) {
        struct timespec until;
        uint64_t before = m->n_pump;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (m->pumping || m->attending ? LONG_MS : LEAD_MS) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&m->io_cond, &m->lock, &until) == ETIMEDOUT && !m->pumping &&
            !m->attending && m->n_pump == before) {
            m->led = false;
        }
        hsp_mesh_beat(m);
    }
}

void *hsp_mesh_io_main(void *mesh)
{
    struct hsp_mesh *m = mesh;
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        if (m->link[i].tls != NULL) {
            digest_tls(m, i); /* bytes that follow the handshake */
        }
    }
    bool go = true;
    while (go && hsp_mesh_turn(m, 0)) {
        pthread_mutex_lock(&m->lock);
        hsp_mesh_beat(m);
        park(m);
        go = !m->stop && m->dead.code == HSP_OK;
        pthread_mutex_unlock(&m->lock);
    }
    pthread_mutex_lock(&m->lock);
    while (m->pumping) {
        pthread_cond_wait(&m->io_cond, &m->lock);
    }
    bool dead = m->dead.code != HSP_OK;
    m->ended = !dead;
    pthread_mutex_unlock(&m->lock);
    if (dead) {
        bury(m);
    }
    return NULL;
}
