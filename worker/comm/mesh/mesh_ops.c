/* Sends, receives and closes over the links of a mesh.
 *
 * A send writes by itself the bytes that the kernel takes, when nothing is queued before it: one
 * thread change less. The rest is written by the thread that runs the links: the user thread while
 * it waits (it leads), else the I/O thread. The lead changes hands late. A wait gets the lead when
 * the I/O thread has had its next event, and keeps it until it leaves bytes to be written, or stays
 * away for some time. So a collective, which waits again and again, changes threads once. */
#include "worker/comm/mesh/mesh_ops.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "worker/comm/mesh/mesh_bell.h"
#include "worker/comm/mesh/mesh_header.h"
#include "worker/comm/mesh/mesh_impl.h"
#include "worker/comm/mesh/mesh_io.h"
#include "worker/comm/mesh/mesh_links.h"
#include "worker/comm/mesh/mesh_listen.h"
#include "worker/comm/mesh/mesh_match.h"
#include "worker/comm/mesh/mesh_poll.h"
#include "worker/comm/mesh/mesh_shm.h"
#include "worker/comm/mesh/mesh_yield.h"

#define SPIN_NS 100000 /* awake for so long: twice the cost of sleeping and waking */
#define FLUSH_S 10     /* close: a peer that does not read for that long is given up */

static struct hsp_mesh *mesh_of(struct hsp_comm *c)
{
    return (struct hsp_mesh *)c;
}

static enum hsp_status fail_dead(const struct hsp_mesh *m, struct hsp_err *err)
{
    if (err != NULL) {
        *err = m->dead;
    }
    return m->dead.code;
}

static enum hsp_status fail_closed(const struct hsp_mesh *m, uint32_t peer, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EPEER, 0, "rank %u (%s) has closed", peer, m->names[peer]);
}

/* Checks that the mesh lives, the peer exists and the message is valid; locked. */
static enum hsp_status check(const struct hsp_mesh *m, uint32_t peer, const struct hsp_runs *data,
                             size_t *ret_bytes, struct hsp_err *err)
{
    if (m->dead.code != HSP_OK) {
        return fail_dead(m, err);
    }
    if (peer >= m->base.n_ranks || m->link[peer].fd < 0) {
        return hsp_err_set(err, HSP_EINVAL, 0, "rank %u is not a peer of rank %u among %u", peer,
                           m->base.rank, m->base.n_ranks);
    }
    return hsp_runs_check(data, HSP_COMM_MAX_MESSAGE, ret_bytes, err);
}

/* Queues the rest of @o after other messages. With @req the data is borrowed, else copied.
 * Locked. */
static enum hsp_status enqueue(struct hsp_mesh *m, uint32_t peer, const struct mesh_out *o,
                               struct hsp_comm_req *req, struct hsp_err *err)
{
    struct mesh_link *l = &m->link[peer];
    if (o->bytes > HSP_COMM_MAX_QUEUED - l->out_bytes) {
        hsp_mesh_kill(m, HSP_ELIMIT, UINT32_MAX, "more than %llu bytes wait for rank %u",
                      (unsigned long long)HSP_COMM_MAX_QUEUED, peer);
        return fail_dead(m, err);
    }
    struct mesh_out *q = malloc(sizeof *q + (req == NULL ? o->bytes : 0));
    if (q == NULL) { /* part of the message may be out: the stream cannot go on */
        hsp_mesh_kill(m, HSP_ENOMEM, UINT32_MAX, "no memory for %zu bytes to rank %u", o->bytes,
                      peer);
        return fail_dead(m, err);
    }
    memcpy(q, o, sizeof *q);
    q->req = req;
    q->next = NULL;
    if (req == NULL && o->bytes > 0) {
        size_t done = o->sent > MESH_HEADER ? o->sent - MESH_HEADER : 0;
        hsp_runs_gather(&o->data, done, q->own + done, o->bytes - done);
        q->data = hsp_run(q->own, o->bytes);
    }
    *l->out_last = q;
    l->out_last = &q->next;
    l->out_bytes += q->bytes;
    if (l->shm == NULL) {
        hsp_mesh_arm(m, peer, !l->in_off, true);
    }
    return HSP_OK;
}

static enum hsp_status post_send(struct hsp_mesh *m, uint32_t peer, uint32_t channel,
                                 const struct hsp_runs *data, size_t bytes,
                                 struct hsp_comm_req *req, struct hsp_err *err)
{
    struct mesh_link *l = &m->link[peer];
    struct mesh_out o = {.data = *data, .bytes = bytes};
    hsp_mesh_header(m, MESH_DATA, channel, l->seq_out++, bytes, o.head);
    l->said = true;
    if (l->shm != NULL) {
        if (l->out == NULL && hsp_shm_put(m, peer, &o, false)) {
            if (req != NULL) {
                req->state = HSP_REQ_DONE;
            }
            return HSP_OK;
        }
    } else if (l->out == NULL && (req == NULL || m->led) && !hsp_mesh_yields(m, l, bytes)) {
        l->writing = true;
        pthread_mutex_unlock(&m->lock);
        int r = hsp_mesh_write_some(l, &o, SIZE_MAX);
        pthread_mutex_lock(&m->lock);
        l->writing = false;
        if (r > 0) {
            if (req != NULL) {
                req->state = HSP_REQ_DONE;
            }
            return HSP_OK;
        }
        if (m->dead.code != HSP_OK) {
            return fail_dead(m, err);
        }
        /* On an error the message is queued all the same: reading finds the lost peer. */
    }
    if (l->closed) {
        return fail_closed(m, peer, err);
    }
    if (m->ended) {
        return fail_dead(m, err);
    }
    return enqueue(m, peer, &o, req, err);
}

static bool flushed(const struct hsp_mesh *m)
{
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        if (m->link[i].out != NULL) {
            return false;
        }
    }
    return true;
}

/* Called when the user thread leaves the mesh. The I/O thread takes over queued bytes at once, and
 * the reading of links after a while. Locked. */
static void leave(struct hsp_mesh *m)
{
    if (m->n_shm > 0) {
        if (!m->attending) {
            hsp_shm_leave(m);
        }
        return;
    }
    m->wants = false;
    if (m->attending) {
        return;
    }
    if (m->led && !flushed(m)) {
        m->led = false;
        pthread_cond_signal(&m->io_cond);
    }
}

/* Waits for an event of the mesh, and runs the links if the I/O thread allows it. @peer: the sender
 * of the awaited message, UINT32_MAX: none. Locked; the lock is dropped meanwhile. */
static void await(struct hsp_mesh *m, uint32_t peer)
{
    if (m->n_shm > 0) {
        hsp_shm_enter(m);
        hsp_shm_await(m, peer);
        hsp_mesh_give_way(m); /* not before: the end of the mesh would be overlooked */
        return;
    }
    if (!m->led || m->dead.code != HSP_OK) {
        m->wants = true;
        pthread_cond_wait(&m->cond, &m->lock);
        return;
    }
    m->pumping = true;
    pthread_mutex_unlock(&m->lock);
    (void)hsp_mesh_turn(m, SPIN_NS); /* an end is seen below, and by the I/O thread */
    pthread_mutex_lock(&m->lock);
    m->pumping = false;
    m->n_pump++;
    if (m->dead.code != HSP_OK) {
        pthread_cond_signal(&m->io_cond);
    }
}

static void mesh_attend(struct hsp_comm *c, bool on)
{
    struct hsp_mesh *m = mesh_of(c);
    pthread_mutex_lock(&m->lock);
    m->attending = on;
    if (on && m->n_shm > 0) {
        hsp_shm_enter(m);
    }
    leave(m);
    pthread_mutex_unlock(&m->lock);
}

/* Begins a send. With @req NULL, bytes that the kernel does not take at once are copied. Locked. */
static enum hsp_status start_send(struct hsp_mesh *m, uint32_t peer, uint32_t channel,
                                  const struct hsp_runs *data, struct hsp_comm_req *req,
                                  struct hsp_err *err)
{
    size_t bytes = 0;
    enum hsp_status st = check(m, peer, data, &bytes, err);
    if (st == HSP_OK && m->link[peer].closed) {
        st = fail_closed(m, peer, err);
    }
    return st == HSP_OK ? post_send(m, peer, channel, data, bytes, req, err) : st;
}

static enum hsp_status mesh_isend(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                  struct hsp_runs data, struct hsp_comm_req *req,
                                  struct hsp_err *err)
{
    struct hsp_mesh *m = mesh_of(c);
    *req = (struct hsp_comm_req){
        .peer = peer, .channel = channel, .state = HSP_REQ_BUSY, .is_send = true};
    pthread_mutex_lock(&m->lock);
    hsp_mesh_give_way(m);
    enum hsp_status st = start_send(m, peer, channel, &data, req, err);
    if (st != HSP_OK) {
        req->state = HSP_REQ_IDLE;
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

static enum hsp_status mesh_send(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                 const void *buf, size_t bytes, struct hsp_err *err)
{
    struct hsp_mesh *m = mesh_of(c);
    const struct hsp_runs data = hsp_run(buf, bytes);
    pthread_mutex_lock(&m->lock);
    hsp_mesh_give_way(m);
    enum hsp_status st = start_send(m, peer, channel, &data, NULL, err);
    leave(m);
    pthread_mutex_unlock(&m->lock);
    return st;
}

/* Removes the first early message of a channel from the list. Returns NULL if there is none.
 * Locked. */
static struct mesh_in *take_early(struct mesh_link *l, uint32_t channel)
{
    for (struct mesh_in **p = &l->early; *p != NULL; p = &(*p)->next) {
        struct mesh_in *e = *p;
        if (e->channel == channel) {
            *p = e->next;
            if (e->next == NULL) {
                l->early_last = p;
            }
            l->early_bytes -= e->bytes;
            return e;
        }
    }
    return NULL;
}

/* Copies an early message to its receive. Locked; the lock is dropped for the copy. */
static enum hsp_status collect(struct hsp_mesh *m, struct mesh_in *e, struct hsp_comm_req *req,
                               struct hsp_err *err)
{
    struct mesh_link *l = &m->link[req->peer];
    if (e->bytes != req->bytes) {
        hsp_mesh_kill(m, HSP_EPROTO, UINT32_MAX,
                      "rank %u sent %zu bytes on channel %u, rank %u expected %zu", req->peer,
                      e->bytes, e->channel, m->base.rank, req->bytes);
        *l->early_last = e; /* the I/O thread may be filling it: the list's end frees it */
        l->early_last = &e->next;
        e->next = NULL;
        return fail_dead(m, err);
    }
    if (e->have < e->bytes) {
        e->req = req;
        req->state = HSP_REQ_BUSY;
        return HSP_OK;
    }
    pthread_mutex_unlock(&m->lock);
    hsp_runs_scatter(&req->data, 0, e->data, e->bytes);
    free(e);
    pthread_mutex_lock(&m->lock);
    req->state = HSP_REQ_DONE;
    return HSP_OK;
}

static enum hsp_status mesh_irecv(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                  struct hsp_runs data, struct hsp_comm_req *req,
                                  struct hsp_err *err)
{
    struct hsp_mesh *m = mesh_of(c);
    *req = (struct hsp_comm_req){.data = data, .peer = peer, .channel = channel};
    pthread_mutex_lock(&m->lock);
    enum hsp_status st = check(m, peer, &data, &req->bytes, err);
    if (st == HSP_OK) {
        struct mesh_link *l = &m->link[peer];
        struct mesh_in *e = take_early(l, channel);
        if (e != NULL) {
            st = collect(m, e, req, err);
        } else if (l->closed) {
            st = fail_closed(m, peer, err);
        } else {
            req->state = HSP_REQ_POSTED;
            *l->posted_last = req;
            l->posted_last = &req->next;
            if (l->held && l->shm == NULL) {
                hsp_mesh_wake(m->wake_fd);
            }
        }
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

static void drop_posted(struct mesh_link *l, const struct hsp_comm_req *req)
{
    for (struct hsp_comm_req **p = &l->posted; *p != NULL; p = &(*p)->next) {
        if (*p == req) {
            *p = req->next;
            if (req->next == NULL) {
                l->posted_last = p;
            }
            return;
        }
    }
}

static void begin_wait(struct hsp_mesh *m, uint32_t peer, bool sends)
{
    m->waits = (struct hsp_mesh_wait){true, sends, peer, hsp_mesh_now_ns()};
}

static enum hsp_status mesh_wait(struct hsp_comm *c, struct hsp_comm_req *req, struct hsp_err *err)
{
    struct hsp_mesh *m = mesh_of(c);
    enum hsp_status st = HSP_OK;
    pthread_mutex_lock(&m->lock);
    struct mesh_link *l = req->state != HSP_REQ_IDLE ? &m->link[req->peer] : NULL;
    if (req->state == HSP_REQ_BUSY || req->state == HSP_REQ_POSTED) {
        begin_wait(m, req->peer, req->is_send);
    }
    while (req->state == HSP_REQ_BUSY ||
           (req->state == HSP_REQ_POSTED && m->dead.code == HSP_OK && !l->closed)) {
        await(m, req->is_send ? UINT32_MAX : req->peer);
    }
    if (req->state == HSP_REQ_POSTED) {
        if (!req->is_send) {
            drop_posted(l, req);
        }
        st = m->dead.code != HSP_OK ? fail_dead(m, err) : fail_closed(m, req->peer, err);
    }
    req->state = HSP_REQ_IDLE;
    m->waits.waits = false;
    leave(m);
    pthread_mutex_unlock(&m->lock);
    return st;
}

static enum hsp_status mesh_recv(struct hsp_comm *c, uint32_t peer, uint32_t channel, void *buf,
                                 size_t bytes, struct hsp_err *err)
{
    struct hsp_comm_req req;
    enum hsp_status st = mesh_irecv(c, peer, channel, hsp_run(buf, bytes), &req, err);
    return st == HSP_OK ? mesh_wait(c, &req, err) : st;
}

static bool mesh_lends(struct hsp_comm *c, uint32_t peer, size_t bytes)
{
    return hsp_shm_lends(mesh_of(c), peer, bytes);
}

static bool is_early(const struct mesh_link *l, uint32_t channel)
{
    for (const struct mesh_in *e = l->early; e != NULL; e = e->next) {
        if (e->channel == channel) {
            return true;
        }
    }
    return false;
}

static enum hsp_status mesh_lend(struct hsp_comm *c, uint32_t peer, uint32_t channel, size_t bytes,
                                 const void **ret, struct hsp_err *err)
{
    struct hsp_mesh *m = mesh_of(c);
    struct mesh_link *l = &m->link[peer];
    pthread_mutex_lock(&m->lock);
    const struct hsp_runs one = hsp_run(NULL, bytes);
    enum hsp_status st = check(m, peer, &one, &bytes, err);
    if (st == HSP_OK && (!hsp_shm_lends(m, peer, bytes) || is_early(l, channel))) {
        st = HSP_AGAIN;
    }
    if (st == HSP_OK) {
        const void *p = NULL;
        hsp_shm_lend_begin(m, peer, channel, bytes);
        begin_wait(m, peer, false);
        while ((p = hsp_shm_lent(m, peer)) == NULL && m->dead.code == HSP_OK && !l->closed) {
            await(m, peer);
        }
        if (p == NULL) {
            hsp_shm_lend_end(m, peer);
            st = m->dead.code != HSP_OK ? fail_dead(m, err) : fail_closed(m, peer, err);
        } else {
            *ret = p;
        }
        m->waits.waits = false;
    }
    pthread_mutex_unlock(&m->lock);
    return st;
}

static void mesh_unlend(struct hsp_comm *c, uint32_t peer)
{
    struct hsp_mesh *m = mesh_of(c);
    pthread_mutex_lock(&m->lock);
    hsp_shm_lend_end(m, peer);
    leave(m);
    pthread_mutex_unlock(&m->lock);
}

static void mesh_abort(struct hsp_comm *c)
{
    struct hsp_mesh *m = mesh_of(c);
    hsp_mesh_lock_soon(m);
    hsp_mesh_kill(m, HSP_ECANCELED, UINT32_MAX, "aborted by rank %u (%s)", c->rank,
                  m->names[c->rank]);
    pthread_mutex_unlock(&m->lock);
}

/* ---- close ---- */

/* Returns true if the kernels of the peers have all sent bytes. Closing a TCP socket with unread
 * input resets the connection, and a reset discards bytes that are still under way. */
static bool acknowledged(const struct hsp_mesh *m)
{
    for (uint32_t i = 0; i < m->base.n_ranks; i++) {
        const struct mesh_link *l = &m->link[i];
        int left = 0;
        if (l->fd >= 0 && l->tcp && !l->closed && ioctl(l->fd, SIOCOUTQ, &left) == 0 && left > 0) {
            return false;
        }
    }
    return true;
}

/* Sends BYE after the queued messages, and waits until the peers have all of them. */
static void say_bye(struct hsp_mesh *m)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FLUSH_S;
    pthread_mutex_lock(&m->lock);
    m->closing = true;
    for (uint32_t i = 0; i < m->base.n_ranks && m->dead.code == HSP_OK; i++) {
        if (m->link[i].fd >= 0 && !m->link[i].closed) {
            struct mesh_out o = {.bytes = 0};
            hsp_mesh_header(m, MESH_BYE, 0, 0, 0, o.head);
            (void)enqueue(m, i, &o, NULL, NULL); /* a failure kills the mesh */
        }
    }
    m->attending = false;
    leave(m);
    int r = 0;
    while (m->dead.code == HSP_OK && !flushed(m) && r == 0) {
        r = pthread_cond_timedwait(&m->cond, &m->lock, &until);
    }
    while (m->dead.code == HSP_OK && r == 0 && !acknowledged(m)) {
        struct timespec soon, now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        soon = now;
        soon.tv_nsec += 1000000;
        soon.tv_sec += soon.tv_nsec / 1000000000;
        soon.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&m->cond, &m->lock, &soon); /* only a pause is wanted */
        r = now.tv_sec > until.tv_sec ? ETIMEDOUT : 0;
    }
    m->stop = true;
    pthread_cond_signal(&m->io_cond);
    pthread_mutex_unlock(&m->lock);
    hsp_mesh_wake(m->wake_fd);
}

static void mesh_close(struct hsp_comm *c)
{
    struct hsp_mesh *m = mesh_of(c);
    say_bye(m);
    pthread_join(m->thread, NULL);
    hsp_mesh_free(m);
}

const struct hsp_comm_ops hsp_mesh_ops = {
    .name = "mesh",
    .send = mesh_send,
    .recv = mesh_recv,
    .isend = mesh_isend,
    .irecv = mesh_irecv,
    .wait = mesh_wait,
    .lends = mesh_lends,
    .lend = mesh_lend,
    .unlend = mesh_unlend,
    .attend = mesh_attend,
    .yield = hsp_mesh_yield,
    .abort = mesh_abort,
    .close = mesh_close,
};
