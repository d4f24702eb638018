/* The I/O thread of a mesh. The happy path: a link becomes readable; a header names a channel; the
 * bytes land in the receive posted for it, or in a buffer until one is. A link becomes writable;
 * the first queued message goes on. Possible failure: a connection breaks without BYE, a header
 * that does not continue the stream, no memory: the mesh is killed, peers are told by ABORT, all
 * sockets are shut down (their descriptors stay until close: the user thread may be writing).
 *
 * Invariant (M1): a request in state BUSY is touched by this thread; after `ended` there is none.
 * Invariant (M2): dst and its fields belong to this thread; matching lists are locked. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/le.h"
#include "worker/comm/mesh/meshimpl.h"

#define N_EVENTS   64
#define WAKE       UINT32_MAX        /* epoll tag of wake_fd */
#define WRITE_TURN ((size_t)1 << 20) /* bytes to one peer before others have their turn */
#define LEAD_MS    2                 /* a user thread that is away for longer gives up its lead */

/* magic u32, version u8, kind u8, 0 u16, job u64, epoch u64, rank u32, channel u32, sequence u64,
 * length u64 */
void hsp_mesh_header(const struct hsp_mesh *m, enum mesh_kind kind, uint32_t channel, uint64_t seq,
                     uint64_t bytes, uint8_t ret[MESH_HEADER])
{
    hsp_le_put(ret, MESH_MAGIC, 4);
    ret[4] = MESH_VERSION;
    ret[5] = (uint8_t)kind;
    hsp_le_put(ret + 6, 0, 2);
    hsp_le_put(ret + 8, m->job, 8);
    hsp_le_put(ret + 16, m->epoch, 8);
    hsp_le_put(ret + 24, m->base.rank, 4);
    hsp_le_put(ret + 28, channel, 4);
    hsp_le_put(ret + 32, seq, 8);
    hsp_le_put(ret + 40, bytes, 8);
}

void hsp_mesh_kill(struct hsp_mesh *m, enum hsp_status code, uint32_t lost, const char *fmt, ...)
{
    va_list ap;
    if (m->dead.code != HSP_OK) {
        return;
    }
    char text[sizeof m->dead.msg];
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)hsp_err_set(&m->dead, code, 0, "%s", text);
    m->lost = lost;
    pthread_cond_broadcast(&m->cond);
    pthread_cond_signal(&m->io_cond);
    hsp_mesh_wake(m->wake_fd);
}

void hsp_mesh_arm(struct hsp_mesh *m, uint32_t peer, bool in, bool out)
{
    struct mesh_link *l = &m->link[peer];
    if (l->in_off == !in && l->out_armed == out) {
        return;
    }
    bool was = !l->in_off || l->out_armed;
    l->in_off = !in;
    l->out_armed = out;
    struct epoll_event ev = {.events = (in ? EPOLLIN : 0u) | (out ? EPOLLOUT : 0u),
                             .data.u32 = peer};
    /* Out of the set when nothing is wanted: EPOLLHUP cannot be masked and would spin. None of the
     * three fails on a descriptor that is ours and (not) in the set. */
    int op = !was ? EPOLL_CTL_ADD : in || out ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    (void)epoll_ctl(m->epoll_fd, op, l->fd, &ev);
}

/* Sends to a peer that has closed are not errors of the mesh: who waits for them is told. */
static void drop_out(struct hsp_mesh *m, struct mesh_link *l)
{
    while (l->out != NULL) {
        struct mesh_out *o = l->out;
        l->out = o->next;
        if (o->req != NULL) {
            o->req->state = HSP_REQ_POSTED;
        }
        free(o);
    }
    l->out_last = &l->out;
    l->out_bytes = 0;
    pthread_cond_broadcast(&m->cond);
}

/* ---- receiving ---- */

/* A message is whole. Locked. */
static void finish(struct hsp_mesh *m, struct mesh_link *l)
{
    struct mesh_in *e = l->dst_msg;
    if (l->dst_req != NULL) {
        l->dst_req->state = HSP_REQ_DONE;
        pthread_cond_broadcast(&m->cond);
    } else if (e != NULL) {
        e->have = e->bytes;
        if (e->req != NULL) { /* its receive came meanwhile: the message left the list then */
            if (e->bytes > 0) {
                memcpy(e->req->buf, e->data, e->bytes);
            }
            e->req->state = HSP_REQ_DONE;
            free(e);
            pthread_cond_broadcast(&m->cond);
        }
    }
    l->dst = NULL;
    l->dst_req = NULL;
    l->dst_msg = NULL;
}

/* Finds room for the message whose header was read. False: dead, or held. Locked. */
static bool begin(struct hsp_mesh *m, uint32_t peer, uint32_t channel, size_t bytes)
{
    struct mesh_link *l = &m->link[peer];
    l->dst_have = 0;
    l->dst_bytes = bytes;
    for (struct hsp_comm_req **p = &l->posted; *p != NULL; p = &(*p)->next) {
        struct hsp_comm_req *r = *p;
        if (r->channel != channel) {
            continue;
        }
        if (r->bytes != bytes) {
            hsp_mesh_kill(m, HSP_EPROTO, UINT32_MAX,
                          "rank %u sent %zu bytes on channel %u, rank %u expected %zu", peer, bytes,
                          channel, m->base.rank, r->bytes);
            return false;
        }
        *p = r->next;
        if (r->next == NULL) {
            l->posted_last = p;
        }
        r->state = HSP_REQ_BUSY;
        l->dst_req = r;
        l->dst = r->buf;
        return true;
    }
    if (l->early_bytes + bytes > HSP_MESH_BUFFER && l->early != NULL && l->posted == NULL) {
        l->held = true;
        l->held_channel = channel;
        l->held_bytes = bytes;
        hsp_mesh_arm(m, peer, false, l->out_armed);
        return false;
    }
    struct mesh_in *e = malloc(sizeof *e + bytes); /* bytes <= HSP_COMM_MAX_MESSAGE */
    if (e == NULL) {
        hsp_mesh_kill(m, HSP_ENOMEM, UINT32_MAX, "no memory for %zu bytes from rank %u", bytes,
                      peer);
        return false;
    }
    *e = (struct mesh_in){.channel = channel, .bytes = bytes};
    *l->early_last = e;
    l->early_last = &e->next;
    l->early_bytes += bytes;
    l->dst_msg = e;
    l->dst = e->data;
    return true;
}

/* Acts on a header. False: stop reading this link. Locked. */
static bool on_header(struct hsp_mesh *m, uint32_t peer, const uint8_t *h)
{
    struct mesh_link *l = &m->link[peer];
    uint8_t kind = h[5];
    uint32_t channel = (uint32_t)hsp_le_get(h + 28, 4);
    uint64_t seq = hsp_le_get(h + 32, 8), bytes = hsp_le_get(h + 40, 8);
    if (hsp_le_get(h, 4) != MESH_MAGIC || h[4] != MESH_VERSION || kind > MESH_ABORT ||
        hsp_le_get(h + 6, 2) != 0 || hsp_le_get(h + 8, 8) != m->job ||
        hsp_le_get(h + 16, 8) != m->epoch || hsp_le_get(h + 24, 4) != peer ||
        bytes > HSP_COMM_MAX_MESSAGE || (kind == MESH_DATA && seq != l->seq_in)) {
        hsp_mesh_kill(m, HSP_EPEER, peer, "rank %u (%s) sent what is no message of epoch %llu",
                      peer, m->names[peer], (unsigned long long)m->epoch);
        return false;
    }
    if (kind == MESH_BYE) {
        l->closed = true;
        drop_out(m, l);
        hsp_mesh_arm(m, peer, false, false);
        return false;
    }
    if (kind == MESH_ABORT) {
        uint32_t lost = seq < m->base.n_ranks ? (uint32_t)seq : peer;
        if (channel == 1) {
            hsp_mesh_kill(m, HSP_ECANCELED, UINT32_MAX, "aborted by rank %u (%s)", peer,
                          m->names[peer]);
        } else if (lost == m->base.rank) {
            hsp_mesh_kill(m, HSP_EPEER, peer, "rank %u (%s) lost its connection to this rank, %u",
                          peer, m->names[peer], lost);
        } else {
            hsp_mesh_kill(m, HSP_EPEER, lost, "lost rank %u (%s), told by rank %u", lost,
                          m->names[lost], peer);
        }
        return false;
    }
    l->seq_in++;
    return begin(m, peer, channel, (size_t)bytes);
}

/* Uses what lies in the input buffer. False: stop reading this link. */
static bool digest(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    for (;;) {
        if (l->dst != NULL) {
            size_t n = l->dst_bytes - l->dst_have, lies = l->in_have - l->in_pos;
            n = n < lies ? n : lies;
            if (n > 0) {
                memcpy(l->dst + l->dst_have, l->input + l->in_pos, n);
                l->dst_have += n;
                l->in_pos += n;
            }
            if (l->dst_have < l->dst_bytes) {
                return true;
            }
            pthread_mutex_lock(&m->lock);
            finish(m, l);
            pthread_mutex_unlock(&m->lock);
        }
        if (l->in_have - l->in_pos < MESH_HEADER) {
            return true;
        }
        pthread_mutex_lock(&m->lock);
        bool go = on_header(m, peer, l->input + l->in_pos);
        l->in_pos += MESH_HEADER;
        if (go && l->dst_bytes == 0) {
            finish(m, l);
        }
        pthread_mutex_unlock(&m->lock);
        if (!go) {
            return false;
        }
    }
}

/* @broken: what TLS says, else NULL. */
static void peer_gone(struct hsp_mesh *m, uint32_t peer, int e, const char *broken)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    if (l->closed) {
        hsp_mesh_arm(m, peer, false, false);
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

/* Uses all that has been taken in, until the link has to stop. */
static void digest_tls(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    struct hsp_err err;
    while (digest(m, peer)) { /* when it says stop, the link is disarmed or the mesh dead */
        size_t n = 0;
        compact(l);
        bool direct = l->dst != NULL;
        uint8_t *to = direct ? l->dst + l->dst_have : l->input + l->in_have;
        size_t room = direct ? l->dst_bytes - l->dst_have : MESH_INPUT - l->in_have;
        enum hsp_status st = hsp_mesh_tls_read(l->tls, to, room, &n, &err);
        if (st == HSP_AGAIN) {
            return;
        }
        if (st != HSP_OK) {
            peer_gone(m, peer, 0, err.msg);
            return;
        }
        l->dst_have += direct ? n : 0;
        l->in_have += direct ? 0 : n;
    }
}

/* What lies in the buffers is used; as above. */
static void go_on(struct hsp_mesh *m, uint32_t peer)
{
    if (m->link[peer].tls != NULL) {
        digest_tls(m, peer);
    } else {
        (void)digest(m, peer);
    }
}

/* Bytes read; 0: the end; -errno. */
static ssize_t read_clear(struct mesh_link *l)
{
    compact(l);
    /* The rest of a message goes straight to its place, what follows to the input buffer. */
    struct iovec iov[2] = {{.iov_len = 0}, {l->input + l->in_have, MESH_INPUT - l->in_have}};
    if (l->dst != NULL) {
        iov[0] = (struct iovec){l->dst + l->dst_have, l->dst_bytes - l->dst_have};
    }
    ssize_t n = readv(l->fd, iov, 2);
    if (n < 0) {
        return -errno;
    }
    size_t direct = (size_t)n < iov[0].iov_len ? (size_t)n : iov[0].iov_len;
    l->dst_have += direct;
    l->in_have += (size_t)n - direct;
    return n;
}

static void read_link(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    bool off = l->in_off;
    pthread_mutex_unlock(&m->lock);
    if (off) {
        return; /* an error while it is held: found when reading goes on */
    }
    ssize_t n = l->tls != NULL ? hsp_mesh_tls_fill(l->tls, l->fd) : read_clear(l);
    if (n > 0) {
        go_on(m, peer);
    } else if (n != -EAGAIN && n != -EINTR) {
        peer_gone(m, peer, (int)-n, NULL);
    }
}

/* A receive waits for a held link: its message is taken now, wherever it goes. */
static void resume(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    bool go = l->held && l->posted != NULL;
    if (go) {
        l->held = false;
        go = begin(m, peer, l->held_channel, l->held_bytes);
    }
    if (go) {
        hsp_mesh_arm(m, peer, true, l->out_armed);
        if (l->dst_bytes == 0) {
            finish(m, l);
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
    while (o->sent < MESH_HEADER + o->bytes) {
        if (most == 0) {
            return 0;
        }
        struct iovec iov[2];
        struct msghdr h = {.msg_iov = iov};
        if (o->sent < MESH_HEADER) {
            iov[h.msg_iovlen++] = (struct iovec){o->head + o->sent, MESH_HEADER - o->sent};
        }
        size_t done = o->sent > MESH_HEADER ? o->sent - MESH_HEADER : 0;
        if (done < o->bytes) {
            size_t k = o->bytes - done < most ? o->bytes - done : most;
            iov[h.msg_iovlen++] = (struct iovec){(uint8_t *)(uintptr_t)o->data + done, k};
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

static void out_done(struct hsp_mesh *m, struct mesh_link *l)
{
    struct mesh_out *o = l->out;
    l->out = o->next;
    if (l->out == NULL) {
        l->out_last = &l->out;
    }
    l->out_bytes -= o->bytes;
    if (o->req != NULL) {
        o->req->state = HSP_REQ_DONE;
    }
    if (o->req != NULL || l->out == NULL) {
        pthread_cond_broadcast(&m->cond);
    }
    free(o);
}

static void write_link(struct hsp_mesh *m, uint32_t peer)
{
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    struct mesh_out *o = l->out; /* this thread takes it off, nobody else */
    pthread_mutex_unlock(&m->lock);
    if (o == NULL) {
        return;
    }
    int r = hsp_mesh_write_some(l, o, WRITE_TURN);
    pthread_mutex_lock(&m->lock);
    if (r > 0) {
        out_done(m, l);
    }
    if (r < 0 || l->out == NULL) {
        /* On an error reading finds out what happened: a BYE may lie before the end. */
        hsp_mesh_arm(m, peer, !l->in_off, false);
    }
    pthread_mutex_unlock(&m->lock);
}

/* ---- the end ---- */

/* The last word to a peer. If it does not fit, the end of the connection says enough. */
static void say_abort(struct mesh_link *l, const uint8_t head[MESH_HEADER])
{
    if (l->closed || l->writing || (l->out != NULL && l->out->sent != 0)) {
        return;
    }
    if (l->tls != NULL) {
        (void)hsp_mesh_tls_say(l->tls, l->fd, head, MESH_HEADER);
    } else {
        ssize_t n = send(l->fd, head, MESH_HEADER, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)n;
    }
}

/* Tells the others, shuts everything down, gives all buffers back. */
static void bury(struct hsp_mesh *m)
{
    uint8_t head[MESH_HEADER];
    pthread_mutex_lock(&m->lock);
    uint32_t lost = m->lost < m->base.n_ranks ? m->lost : m->base.rank;
    hsp_mesh_header(m, MESH_ABORT, m->dead.code == HSP_ECANCELED ? 1 : 0, lost, 0, head);
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        struct mesh_link *l = &m->link[i];
        if (l->fd < 0) {
            continue;
        }
        say_abort(l, head);
        (void)shutdown(l->fd, SHUT_RDWR);
        (void)epoll_ctl(m->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
        drop_out(m, l);
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
    pthread_cond_broadcast(&m->cond);
    bool tell = m->dead.code == HSP_EPEER && m->lost < m->base.n_ranks && m->on_peer_lost != NULL;
    pthread_mutex_unlock(&m->lock);
    if (tell) {
        m->on_peer_lost(m->ctx, m->lost, m->dead.msg); /* dead does not change any more */
    }
}

/* After a wake: false when there is an end to come to. */
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

bool hsp_mesh_turn(struct hsp_mesh *m)
{
    struct epoll_event ev[N_EVENTS];
    bool go = true;
    int n = epoll_wait(m->epoll_fd, ev, N_EVENTS, -1);
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

/* Lets the user thread lead if it wants to, and sleeps until it gives the links back, stays away for
 * LEAD_MS, or the mesh ends. Locked. */
static void park(struct hsp_mesh *m)
{
    m->led = m->led || m->wants;
    m->wants = false;
    if (m->led) {
        pthread_cond_broadcast(&m->cond);
    }
    while (m->led && !m->stop && m->dead.code == HSP_OK) {
        struct timespec until;
        if (m->pumping) { /* for long, maybe: it says when it leaves */
            m->deep = true;
            pthread_cond_wait(&m->io_cond, &m->lock);
            m->deep = false;
            continue;
        }
        uint64_t before = m->n_pump;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LEAD_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_cond_timedwait(&m->io_cond, &m->lock, &until) == ETIMEDOUT && !m->pumping &&
            m->n_pump == before) {
            m->led = false;
        }
    }
}

void *hsp_mesh_io_main(void *mesh)
{
    struct hsp_mesh *m = mesh;
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        if (m->link[i].tls != NULL) {
            digest_tls(m, i); /* what came behind the handshake */
        }
    }
    bool go = true;
    while (go && hsp_mesh_turn(m)) {
        pthread_mutex_lock(&m->lock);
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
