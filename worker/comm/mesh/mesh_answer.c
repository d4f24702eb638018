/* Answers the peers of lower rank that call. mesh_join.c describes the conversation.
 *
 * Possible failure: a caller with another key or of the other kind (dropped and counted), one that
 * falls silent (dropped), one whose segment is not valid (final). */
#include "worker/comm/mesh/mesh_answer.h"

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

#define PROOF_MS 5000 /* a client that has been challenged answers within that */

void hsp_mesh_drop_caller(struct mesh_making *m, uint32_t i)
{
    if (m->caller[i].a.fd >= 0) {
        close(m->caller[i].a.fd);
    }
    (void)hsp_mesh_tls_free(m->caller[i].tls);
    (void)hsp_shm_free(m->caller[i].shm);
    m->caller[i] = m->caller[--m->n_callers];
}

/* Answers a hello. Returns false if the connection cannot be used. */
static bool greet(struct mesh_making *m, struct mesh_caller *c)
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
    return ok && hsp_mesh_send_all(c->a.fd, out, sizeof out);
}

void hsp_mesh_take_callers(struct mesh_making *m, uint64_t now)
{
    struct mesh_arrival a;
    while (hsp_mesh_join_take(m->l, &m->join, &a)) {
        if (m->n_callers == m->cap_callers) {
            hsp_mesh_drop_caller(m, 0); /* none is proven; a real peer calls again */
        }
        hsp_mesh_watch(a.fd, m->p->silent_ms, true);
        m->caller[m->n_callers++] = (struct mesh_caller){.a = a, .until_ms = now + PROOF_MS};
        if (!greet(m, &m->caller[m->n_callers - 1])) {
            hsp_mesh_drop_caller(m, m->n_callers - 1);
        }
    }
}

/* Goes on with the server's side of a proof. HSP_OK: proven; HSP_AGAIN: not yet; HSP_EAUTH: the
 * caller has another key; else the caller is gone. */
static enum hsp_status hear_proof(struct mesh_making *m, struct mesh_caller *c)
{
    uint8_t want[MESH_PROOF];
    if (c->tls != NULL) {
        struct hsp_err err;
        ssize_t n = hsp_mesh_tls_fill(c->tls, c->a.fd);
        return n > 0                         ? hsp_mesh_tls_shake(c->tls, c->a.fd, &err)
               : n == -EAGAIN || n == -EINTR ? HSP_AGAIN
                                             : HSP_ECLOSED;
    }
    int k = hsp_mesh_read_more(c->a.fd, c->proof, &c->have, MESH_PROOF);
    if (k <= 0) {
        return k < 0 ? HSP_ECLOSED : HSP_AGAIN;
    }
    return hsp_mesh_proof(m->p->key, false, c->a.hello, c->nonce, want) &&
                   hsp_mesh_proof_equal(want, c->proof)
               ? HSP_OK
               : HSP_EAUTH;
}

/* Returns true if both ranks would share memory, and there is memory for it on our side, which the
 * caller then holds. */
static bool will_share(struct mesh_making *m, struct mesh_caller *c)
{
    struct mesh_hello h;
    return c->a.local && m->seg.head != NULL && hsp_mesh_hello_read(c->a.hello, &h) && h.shares &&
           hsp_shm_new(&m->seg, c->a.from, &c->shm, NULL) == HSP_OK;
}

static bool say_ready(struct mesh_making *m, struct mesh_caller *c)
{
    const uint8_t ready = MESH_READY;
    return c->tls != NULL     ? hsp_mesh_tls_say(c->tls, c->a.fd, &ready, 1)
           : will_share(m, c) ? hsp_seg_send(c->a.fd, MESH_READY_SHARE, m->seg.fd)
                              : hsp_seg_send(c->a.fd, MESH_READY, -1);
}

/* Receives the client's segment. HSP_ECLOSED: the connection cannot be used. */
static enum hsp_status hear_segment(struct mesh_making *m, struct mesh_caller *c,
                                    struct hsp_err *err)
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
        hsp_err_wrap(err, "shared memory with rank %u (%s)", c->a.from, mesh_name_of(m, c->a.from));
    }
    return st;
}

static void caller_up(struct mesh_making *m, struct mesh_caller *c)
{
    hsp_mesh_pair_up(m, c->a.from, c->a.fd, c->a.local, c->tls, c->shm);
    c->a.fd = -1;
    c->tls = NULL;
    c->shm = NULL;
}

enum hsp_status hsp_mesh_answer(struct mesh_making *m, uint32_t i, short events, uint64_t now,
                                struct hsp_err *err)
{
    struct mesh_caller *c = &m->caller[i];
    bool sharing = c->shm != NULL; /* proven; the segment is still to come */
    enum hsp_status st = events == 0 ? HSP_AGAIN
                         : sharing   ? hear_segment(m, c, err)
                                     : hear_proof(m, c);
    if (st == HSP_AGAIN && now < c->until_ms) {
        return HSP_OK;
    }
    m->n_refused += st == HSP_EAUTH;
    if (st == HSP_OK && m->pair[c->a.from].stage < MESH_UP && (sharing || say_ready(m, c))) {
        if (!sharing && c->shm != NULL) {
            return HSP_OK;
        }
        caller_up(m, c);
    }
    hsp_mesh_drop_caller(m, i);
    return sharing && (st == HSP_EPROTO || st == HSP_EIO) ? st : HSP_OK;
}
