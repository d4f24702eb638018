/* Makes a mesh: connects this rank to all peers. The happy path, per pair (client = lower rank):
 *
 *   client -> hello       job, epoch, both ranks, n, nonce
 *   server -> challenge   nonce, proof under the epoch key
 *   client -> proof
 *   server -> ready       one byte; both ends stand
 *
 * On one host, when both have a segment: the hello says so, ready comes with the server's segment,
 * and the client answers with its own. Then both stand.
 *
 * By TCP with TLS: client -> hello, then a TLS 1.3 handshake under the secret of that hello, which
 * proves the key to both, then ready inside TLS. A server accepts only the kind that its own
 * parameters name, so nobody on the way can talk two ranks out of TLS.
 *
 * Everything runs in the caller's thread over one poll. Possible failure: a peer cannot be reached,
 * or closes half way (called again with growing pauses until the time is up; it may be restarting,
 * or not have the epoch yet); a server with another key (final); a client with another key (dropped
 * and counted); a standing peer that goes away (final); cancellation; the deadline. */
#include "worker/comm/mesh/mesh_join.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/net/tls_psk.h"
#include "worker/comm/mesh/mesh_answer.h"
#include "worker/comm/mesh/mesh_call.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_making.h"
#include "worker/comm/mesh/mesh_shm.h"
#include "worker/comm/mesh/mesh_start.h"
#include "worker/comm/mesh/mesh_tls.h"

static enum hsp_status too_late(const struct mesh_making *m, struct hsp_err *err)
{
    const struct hsp_mesh_params *p = m->p;
    uint32_t r = 0;
    while (r == p->rank || m->pair[r].stage >= MESH_UP) {
        r++;
    }
    hsp_mesh_blame(m, r, false);
    /* The address without its local part: a person checks this one. */
    int host = (int)strcspn(p->peers[r].address, ",");
    uint32_t missing = m->n_wanted - m->n_up;
    char more[64] = "";
    if (missing > 1) {
        (void)snprintf(more, sizeof more, " (and %u more)", missing - 1);
    }
    if (r > p->rank) {
        const struct mesh_pair *q = &m->pair[r];
        const char *why = q->stage == MESH_CALLED || q->stage == MESH_PROVING
                              ? "it has not prepared the epoch"
                          : !q->failed                          ? "no answer"
                          : q->why != 0 && q->why != ECONNRESET ? strerror(q->why)
                                                                : "it closes the connection";
        return hsp_err_set(err, HSP_EPEER, 0, "rank %u (%s) cannot reach rank %u (%s, %.*s)%s: %s",
                           p->rank, mesh_name_of(m, p->rank), r, mesh_name_of(m, r), host,
                           p->peers[r].address, more, why);
    }
    char refused[96] = "";
    if (m->n_refused > 0) {
        (void)snprintf(refused, sizeof refused,
                       "; %u callers were refused: without the key, or with another data_plane",
                       m->n_refused);
    }
    return hsp_err_set(err, HSP_EPEER, 0, "rank %u (%s, %.*s) did not reach rank %u (%s)%s%s", r,
                       mesh_name_of(m, r), host, p->peers[r].address, p->rank,
                       mesh_name_of(m, p->rank), more, refused);
}

static enum hsp_status serve_pair(struct mesh_making *m, uint32_t r, short events, uint64_t now,
                                  struct hsp_err *err)
{
    struct mesh_pair *q = &m->pair[r];
    if (q->stage != MESH_UP) {
        return hsp_mesh_call(m, r, events, now, err);
    }
    if (events == 0) {
        return HSP_OK;
    }
    uint8_t b; /* POLLRDHUP: the peer is gone, unless its bytes are still to be read */
    ssize_t n = recv(q->fd, &b, 1, MSG_PEEK);
    bool silent = n < 0 && errno == ETIMEDOUT;
    q->ended = n > 0;
    if (!q->ended) {
        hsp_mesh_blame(m, r, silent);
    }
    return q->ended ? HSP_OK
                    : hsp_err_set(err, HSP_EPEER, 0, "rank %u (%s) %s while the mesh was made", r,
                                  mesh_name_of(m, r), silent ? "fell silent" : "left");
}

/* The moment from which on calls to @r are useless; UINT64_MAX: @r may still answer. */
static uint64_t deaf_at(const struct mesh_making *m, uint32_t r)
{
    const struct mesh_pair *q = &m->pair[r];
    bool calls = q->stage < MESH_UP && q->deaf_ms != 0 && m->p->silent_ms != 0;
    return calls ? q->deaf_ms + m->p->silent_ms : UINT64_MAX;
}

/* Fails when the host of a peer does not answer at all. */
static enum hsp_status check_deaf(const struct mesh_making *m, uint64_t now, struct hsp_err *err)
{
    for (uint32_t r = m->p->rank + 1; r < m->p->n; r++) {
        if (now >= deaf_at(m, r)) {
            const char *address = m->p->peers[r].address;
            hsp_mesh_blame(m, r, true);
            return hsp_err_set(
                err, HSP_EPEER, 0,
                "rank %u (%s) cannot reach rank %u (%s, %.*s): its host has not answered for %u ms",
                m->p->rank, mesh_name_of(m, m->p->rank), r, mesh_name_of(m, r),
                (int)strcspn(address, ","), address, m->p->silent_ms);
        }
    }
    return HSP_OK;
}

static int fill_poll(struct mesh_making *m, uint64_t now)
{
    const struct hsp_mesh_params *p = m->p;
    uint64_t until = m->deadline;
    m->poll[0] = (struct pollfd){.fd = p->cancel_fd, .events = POLLIN};
    m->poll[1] = (struct pollfd){.fd = m->join.wake_fd, .events = POLLIN};
    for (uint32_t r = 0; r < p->n; r++) {
        const struct mesh_pair *q = &m->pair[r];
        short events = q->stage == MESH_CONNECTING ? POLLOUT
                       : q->stage == MESH_UP       ? POLLRDHUP
                                                   : POLLIN;
        m->poll[2 + r] = (struct pollfd){.fd = q->ended ? -1 : q->fd, .events = events};
        if (q->stage == MESH_IDLE && r > p->rank && q->pause_until < until) {
            until = q->pause_until;
        }
        until = deaf_at(m, r) < until ? deaf_at(m, r) : until;
    }
    for (uint32_t i = 0; i < m->n_callers; i++) {
        m->poll[2 + p->n + i] = (struct pollfd){.fd = m->caller[i].a.fd, .events = POLLIN};
        until = m->caller[i].until_ms < until ? m->caller[i].until_ms : until;
    }
    uint64_t left = until > now ? until - now : 0;
    return left < 60000 ? (int)left : 60000;
}

static enum hsp_status make(struct mesh_making *m, struct hsp_err *err)
{
    const struct hsp_mesh_params *p = m->p;
    while (m->n_up < m->n_wanted) {
        uint64_t now = hsp_mesh_now_ms();
        if (now >= m->deadline) {
            return too_late(m, err);
        }
        if (check_deaf(m, now, err) != HSP_OK) {
            return HSP_EPEER;
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
            enum hsp_status st = hsp_mesh_answer(m, i, m->poll[2 + p->n + i].revents, now, err);
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
            hsp_mesh_take_callers(m, now);
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

/* Fails when transport: shm asks for shared memory and a pair of this host has none. */
static enum hsp_status check_shared(const struct mesh_making *m, struct hsp_err *err)
{
    for (uint32_t r = 0; r < m->p->n && hsp_mesh_transport_of(m->l) == HSP_MESH_SHM; r++) {
        if (m->pair[r].local && m->pair[r].shm == NULL) {
            return hsp_err_set(
                err, HSP_EPEER, 0,
                "rank %u (%s) is on this host and shares no memory, which transport: "
                "shm asks for",
                r, mesh_name_of(m, r));
        }
    }
    return HSP_OK;
}

/* Connects all pairs, while the listener hands arrivals over. Gives the connections to @wire. */
static enum hsp_status join(struct mesh_making *m, struct mesh_wire *wire, struct hsp_err *err)
{
    for (uint32_t r = 0; r < m->p->n; r++) {
        bool apart = m->p->peers[r].apart && r != m->p->rank;
        m->pair[r] = (struct mesh_pair){
            .fd = -1, .pause_ms = MESH_PAUSE_MS, .stage = apart ? MESH_APART : MESH_IDLE};
        m->n_wanted += !apart && r != m->p->rank;
    }
    enum hsp_status st = make(m, err);
    if (st == HSP_OK) {
        st = check_shared(m, err);
    }
    hsp_mesh_join_close(m->l, &m->join);
    while (m->n_callers > 0) {
        hsp_mesh_drop_caller(m, m->n_callers - 1);
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

/* Makes our segment, as the transport asks. */
static enum hsp_status make_segment(struct mesh_making *m, struct hsp_err *err)
{
    enum hsp_mesh_transport t = hsp_mesh_transport_of(m->l);
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
    struct mesh_making m = {
        .l = l,
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
        st = hsp_err_nomem(err, "a mesh of %u", p->n);
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
