/* Calls the peers of higher rank. mesh_join.c describes the conversation.
 *
 * Possible failure: a peer cannot be reached, or closes half way (called again with growing
 * pauses); a peer with another key (final); no memory to share (called once more without, unless
 * transport: shm asks for it). */
#include "worker/comm/mesh/mesh_call.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/comm/mesh/mesh_auth.h"
#include "worker/comm/mesh/mesh_beat.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_making.h"
#include "worker/comm/mesh/mesh_shm.h"
#include "worker/comm/mesh/mesh_tls.h"

#define PAUSE_MAX_MS 500

static void pair_retry(struct mesh_pair *q, int why, uint64_t now)
{
    if (q->fd >= 0) {
        close(q->fd);
    }
    q->fd = -1;
    q->tls = hsp_mesh_tls_free(q->tls);
    q->stage = MESH_IDLE;
    q->failed = true;
    q->why = why;
    if (why == 0 || why == ECONNREFUSED || why == ECONNRESET || why == EPIPE) {
        q->deaf_ms = 0; /* its host has answered */
    } else if (why == ETIMEDOUT) {
        q->deaf_ms = 1; /* the kernel has waited long enough */
    }
    q->by_tcp = !q->by_tcp; /* the other way next time, where there is one */
    q->pause_until = now + q->pause_ms;
    q->pause_ms = q->pause_ms * 2 < PAUSE_MAX_MS ? q->pause_ms * 2 : PAUSE_MAX_MS;
}

static void say_hello(struct mesh_making *m, uint32_t r, bool tls, uint64_t now)
{
    struct mesh_pair *q = &m->pair[r];
    struct mesh_hello h = m->join.want;
    struct hsp_err err;
    h.from = m->p->rank;
    h.to = r;
    h.tls = tls;
    h.shares = !q->by_tcp && m->seg.head != NULL && !q->no_share;
    q->have = 0;
    q->stage = MESH_CALLED;
    if (!hsp_mesh_hello_make(&h, q->hello) || !hsp_mesh_send_all(q->fd, q->hello, MESH_HELLO)) {
        pair_retry(q, errno, now);
    } else if (tls &&
               (hsp_mesh_tls_new(m->ctx, false, m->p->key, q->hello, &q->tls, &err) != HSP_OK ||
                hsp_mesh_tls_shake(q->tls, q->fd, &err) != HSP_AGAIN)) {
        pair_retry(q, ENOBUFS, now);
    }
}

static void call(struct mesh_making *m, uint32_t r, uint64_t now)
{
    struct mesh_pair *q = &m->pair[r];
    bool waits = false;
    int fd = -ENOENT;
    if (hsp_mesh_transport_of(m->l) != HSP_MESH_TCP && !q->by_tcp) {
        fd = hsp_mesh_dial(m->p->peers[r].address, true, &waits);
    }
    if (fd == -ENOENT) {
        q->by_tcp = true;
        fd = hsp_mesh_dial(m->p->peers[r].address, false, &waits);
        q->deaf_ms = q->deaf_ms == 0 ? now : q->deaf_ms;
    }
    if (fd < 0) {
        pair_retry(q, -fd, now);
        return;
    }
    q->fd = fd;
    hsp_mesh_watch(fd, m->p->silent_ms, true);
    q->stage = MESH_CONNECTING;
    if (!waits) {
        say_hello(m, r, m->p->tls && q->by_tcp, now);
    }
}

static enum hsp_status no_key(const struct mesh_making *m, uint32_t r, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EAUTH, 0, "rank %u (%s, %s) does not hold the key of epoch %llu", r,
                       mesh_name_of(m, r), m->p->peers[r].address, (unsigned long long)m->p->epoch);
}

static enum hsp_status answer_challenge(struct mesh_making *m, uint32_t r, uint64_t now,
                                        struct hsp_err *err)
{
    struct mesh_pair *q = &m->pair[r];
    uint8_t want[MESH_PROOF], mine[MESH_PROOF];
    if (!hsp_mesh_proof(m->p->key, true, q->hello, q->in, want) ||
        !hsp_mesh_proof(m->p->key, false, q->hello, q->in, mine)) {
        return hsp_err_set(err, HSP_EIO, 0, "cannot compute a proof");
    }
    if (!hsp_mesh_proof_equal(want, q->in + MESH_NONCE)) {
        return no_key(m, r, err);
    }
    q->have = 0;
    q->stage = MESH_PROVING;
    if (!hsp_mesh_send_all(q->fd, mine, MESH_PROOF)) {
        pair_retry(q, errno, now);
    }
    return HSP_OK;
}

/* Goes on with the client's side of TLS: the handshake, then the byte that says ready. */
static enum hsp_status serve_tls(struct mesh_making *m, uint32_t r, uint64_t now,
                                 struct hsp_err *err)
{
    struct mesh_pair *q = &m->pair[r];
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
        q->stage = MESH_PROVING;
        st = hsp_mesh_tls_read(q->tls, &ready, 1, &k, err);
    }
    if (st == HSP_OK && ready == MESH_READY) {
        hsp_mesh_pair_up(m, r, q->fd, false, q->tls, NULL);
    } else if (st != HSP_AGAIN) {
        pair_retry(q, EPROTO, now);
    }
    return HSP_OK;
}

/* Makes the client's half of the link, and maps the segment that came from rank @r. */
static enum hsp_status share(struct mesh_making *m, uint32_t r, int fd, struct mesh_shm **ret,
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
        hsp_err_wrap(err, "shared memory with rank %u (%s)", r, mesh_name_of(m, r));
        return st;
    }
    *ret = shm;
    return HSP_OK;
}

/* Reads the last word of the server: ready, maybe with a segment. */
static enum hsp_status hear_ready(struct mesh_making *m, uint32_t r, uint64_t now,
                                  struct hsp_err *err)
{
    struct mesh_pair *q = &m->pair[r];
    struct mesh_shm *shm = NULL;
    uint8_t byte = 0;
    int fd = -1, k = hsp_seg_recv(q->fd, &byte, &fd);
    enum hsp_status st = k > 0 && byte == MESH_READY_SHARE ? share(m, r, fd, &shm, err) : HSP_OK;
    if (fd >= 0) {
        close(fd);
    }
    if (st != HSP_OK && hsp_mesh_transport_of(m->l) == HSP_MESH_SHM) {
        return st;
    }
    if (st != HSP_OK) { /* AUTO: once more, without */
        q->no_share = true;
        pair_retry(q, ENOMEM, now);
        q->by_tcp = false;
    } else if (k < 0 || (k > 0 && byte != MESH_READY && byte != MESH_READY_SHARE) ||
               (shm != NULL && !hsp_seg_send(q->fd, MESH_READY_SHARE, m->seg.fd))) {
        (void)hsp_shm_free(shm);
        pair_retry(q, k < 0 ? errno : EPROTO, now);
    } else if (k > 0) {
        hsp_mesh_pair_up(m, r, q->fd, !q->by_tcp, NULL, shm);
    }
    return HSP_OK;
}

enum hsp_status hsp_mesh_call(struct mesh_making *m, uint32_t r, short events, uint64_t now,
                              struct hsp_err *err)
{
    struct mesh_pair *q = &m->pair[r];
    if (q->stage == MESH_IDLE && r > m->p->rank && now >= q->pause_until) {
        call(m, r, now);
        return HSP_OK;
    }
    if (events == 0 || q->fd < 0) {
        return HSP_OK;
    }
    if (q->stage == MESH_CONNECTING) {
        int e = 0;
        socklen_t len = sizeof e;
        if (getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &e, &len) != 0 || e != 0) {
            pair_retry(q, e, now);
        } else {
            q->deaf_ms = 0;
            say_hello(m, r, m->p->tls && q->by_tcp, now);
        }
        return HSP_OK;
    }
    if (q->tls != NULL) {
        return serve_tls(m, r, now, err);
    }
    if (q->stage == MESH_PROVING) {
        return hear_ready(m, r, now, err);
    }
    int k = hsp_mesh_read_more(q->fd, q->in, &q->have, MESH_NONCE + MESH_PROOF);
    if (k < 0) {
        pair_retry(q, errno, now);
    } else if (k > 0) {
        return answer_challenge(m, r, now, err);
    }
    return HSP_OK;
}
