/* Passes messages between ranks through a shared hub. A sender finds the posted receive of its
 * peer, or leaves a message in the peer's mailbox. The second of the two ranks copies the message,
 * without the lock. Possible failures: an abort, or a receive of another size than its message,
 * kills the hub; then the operations of every rank fail.
 *
 * Invariant (L1): a request in state BUSY is being copied by some thread. A wait never returns
 * before that copy has ended, also when the hub is dead. */
#include "worker/comm/loop/loop_comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/size.h"

struct msg {
    struct msg *next;
    uint32_t channel;
    size_t bytes;
    struct hsp_runs data; /* the sender's, or own */
    /* the sender's request; NULL: the bytes are copied and follow this struct */
    struct hsp_comm_req *ref;
    uint8_t own[];
};

/* The messages from one rank to another, and the receives posted for them. At most one of the two
 * lists holds a given channel. */
struct box {
    struct msg *first, **last;                  /* sent, not received */
    struct hsp_comm_req *posted, **posted_last; /* receives */
    size_t queued_bytes;
};

struct loop {
    struct hsp_comm base;
    struct hub *hub;
    pthread_cond_t cond; /* this rank's waits */
    struct box *from;    /* n */
    bool closed;
};

struct hub {
    pthread_mutex_t lock;
    uint32_t n, n_open;
    struct loop *ranks;
    struct hsp_err dead; /* code HSP_OK while alive */
};

static struct loop *loop_of(struct hsp_comm *c)
{
    return (struct loop *)c;
}

static void hub_kill(struct hub *h, const struct hsp_err *why)
{
    if (h->dead.code == HSP_OK) {
        h->dead = *why;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        pthread_cond_broadcast(&h->ranks[i].cond);
    }
}

static enum hsp_status fail(const struct hsp_err *why, struct hsp_err *err)
{
    if (err != NULL) {
        *err = *why;
    }
    return why->code;
}

static enum hsp_status fail_closed(uint32_t peer, struct hsp_err *err)
{
    return hsp_err_set(err, HSP_EPEER, 0, "rank %u has closed", peer);
}

static enum hsp_status check_args(struct loop *l, uint32_t peer, const struct hsp_runs *data,
                                  size_t *ret_bytes, struct hsp_err *err)
{
    if (peer >= l->hub->n || peer == l->base.rank) {
        return hsp_err_set(err, HSP_EINVAL, 0, "rank %u is not a peer of rank %u among %u", peer,
                           l->base.rank, l->hub->n);
    }
    return hsp_runs_check(data, HSP_COMM_MAX_MESSAGE, ret_bytes, err);
}

static enum hsp_status kill_size(struct hub *h, uint32_t from, uint32_t to, uint32_t channel,
                                 size_t sent, size_t wanted, struct hsp_err *err)
{
    struct hsp_err e;
    (void)hsp_err_set(&e, HSP_EPROTO, 0,
                      "rank %u sent %zu bytes on channel %u, rank %u expected %zu", from, sent,
                      channel, to, wanted);
    hub_kill(h, &e);
    return fail(&e, err);
}

/* Removes the first posted receive of a channel from its list. Returns NULL if there is none. */
static struct hsp_comm_req *take_posted(struct box *b, uint32_t channel)
{
    for (struct hsp_comm_req **p = &b->posted; *p != NULL; p = &(*p)->next) {
        struct hsp_comm_req *r = *p;
        if (r->channel == channel) {
            *p = r->next;
            if (r->next == NULL) {
                b->posted_last = p;
            }
            r->next = NULL;
            return r;
        }
    }
    return NULL;
}

static void drop_posted(struct box *b, const struct hsp_comm_req *req)
{
    for (struct hsp_comm_req **p = &b->posted; *p != NULL; p = &(*p)->next) {
        if (*p == req) {
            *p = req->next;
            if (req->next == NULL) {
                b->posted_last = p;
            }
            return;
        }
    }
}

/* Removes a message from the mailbox: the first one of @channel (@ref NULL), or the one that the
 * request @ref sends. Returns NULL if there is none. */
static struct msg *take_msg(struct box *b, uint32_t channel, const struct hsp_comm_req *ref)
{
    for (struct msg **p = &b->first; *p != NULL; p = &(*p)->next) {
        struct msg *m = *p;
        if (ref != NULL ? m->ref == ref : m->channel == channel) {
            *p = m->next;
            if (m->next == NULL) {
                b->last = p;
            }
            b->queued_bytes -= m->bytes;
            return m;
        }
    }
    return NULL;
}

/* Copies a message into a posted receive. The lock is held at the call and at the return, but not
 * during the copy. */
static void deliver(struct hub *h, struct loop *to, struct hsp_comm_req *r,
                    const struct hsp_runs *data)
{
    r->state = HSP_REQ_BUSY;
    pthread_mutex_unlock(&h->lock);
    hsp_runs_copy(&r->data, data, r->bytes);
    pthread_mutex_lock(&h->lock);
    r->state = HSP_REQ_DONE;
    pthread_cond_broadcast(&to->cond);
}

static enum hsp_status enqueue(struct hub *h, struct box *b, uint32_t channel,
                               const struct hsp_runs *data, size_t bytes, struct hsp_comm_req *ref,
                               struct hsp_err *err)
{
    size_t total = sizeof(struct msg);
    if (bytes > HSP_COMM_MAX_QUEUED - b->queued_bytes) {
        struct hsp_err e;
        (void)hsp_err_set(&e, HSP_ELIMIT, 0, "more than %llu bytes sent and not received",
                          (unsigned long long)HSP_COMM_MAX_QUEUED);
        hub_kill(h, &e);
        return fail(&e, err);
    }
    struct msg *m = NULL;
    if (ref != NULL || hsp_add_size(total, bytes, &total)) {
        m = malloc(total);
    }
    if (m == NULL) {
        return hsp_err_nomem(err, "a message of %zu bytes", bytes);
    }
    *m = (struct msg){.channel = channel, .bytes = bytes, .data = *data, .ref = ref};
    if (ref == NULL) {
        hsp_runs_gather(data, 0, m->own, bytes);
        m->data = hsp_run(m->own, bytes);
    }
    *b->last = m;
    b->last = &m->next;
    b->queued_bytes += bytes;
    return HSP_OK;
}

/* Delivers the message, or queues it if no receive is posted. @req NULL: a queued message is
 * copied. */
static enum hsp_status post_send(struct loop *l, uint32_t peer, uint32_t channel,
                                 const struct hsp_runs *data, struct hsp_comm_req *req,
                                 struct hsp_err *err)
{
    struct hub *h = l->hub;
    size_t bytes = 0;
    enum hsp_status st = check_args(l, peer, data, &bytes, err);
    if (st != HSP_OK) {
        return st;
    }
    struct loop *to = &h->ranks[peer];
    struct box *b = &to->from[l->base.rank];
    pthread_mutex_lock(&h->lock);
    if (h->dead.code != HSP_OK) {
        st = fail(&h->dead, err);
    } else if (to->closed) {
        st = fail_closed(peer, err);
    } else {
        struct hsp_comm_req *r = take_posted(b, channel);
        if (r == NULL) {
            st = enqueue(h, b, channel, data, bytes, req, err);
        } else if (r->bytes != bytes) {
            st = kill_size(h, l->base.rank, peer, channel, bytes, r->bytes, err);
        } else {
            deliver(h, to, r, data);
            if (req != NULL) {
                req->state = HSP_REQ_DONE;
            }
        }
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

static enum hsp_status loop_send(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                 const void *buf, size_t bytes, struct hsp_err *err)
{
    const struct hsp_runs data = hsp_run(buf, bytes);
    return post_send(loop_of(c), peer, channel, &data, NULL, err);
}

static enum hsp_status loop_isend(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                  struct hsp_runs data, struct hsp_comm_req *req,
                                  struct hsp_err *err)
{
    *req = (struct hsp_comm_req){
        .peer = peer, .channel = channel, .state = HSP_REQ_POSTED, .is_send = true};
    enum hsp_status st = post_send(loop_of(c), peer, channel, &data, req, err);
    if (st != HSP_OK) {
        req->state = HSP_REQ_IDLE;
    }
    return st;
}

/* Copies a message out of the mailbox. The lock is held at the call and at the return, but not
 * during the copy. */
static void collect(struct hub *h, struct msg *m, struct hsp_comm_req *req, uint32_t peer)
{
    if (m->ref != NULL) {
        m->ref->state = HSP_REQ_BUSY;
    }
    pthread_mutex_unlock(&h->lock);
    hsp_runs_copy(&req->data, &m->data, m->bytes);
    pthread_mutex_lock(&h->lock);
    if (m->ref != NULL) {
        m->ref->state = HSP_REQ_DONE;
        pthread_cond_broadcast(&h->ranks[peer].cond);
    }
    req->state = HSP_REQ_DONE;
    free(m);
}

static enum hsp_status loop_irecv(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                                  struct hsp_runs data, struct hsp_comm_req *req,
                                  struct hsp_err *err)
{
    struct loop *l = loop_of(c);
    struct hub *h = l->hub;
    *req = (struct hsp_comm_req){.data = data, .peer = peer, .channel = channel};
    enum hsp_status st = check_args(l, peer, &data, &req->bytes, err);
    if (st != HSP_OK) {
        return st;
    }
    struct box *b = &l->from[peer];
    pthread_mutex_lock(&h->lock);
    struct msg *m = NULL;
    if (h->dead.code != HSP_OK) {
        st = fail(&h->dead, err);
    } else if ((m = take_msg(b, channel, NULL)) != NULL) {
        if (m->bytes != req->bytes) {
            st = kill_size(h, peer, c->rank, channel, m->bytes, req->bytes, err);
            free(m);
        } else {
            collect(h, m, req, peer);
        }
    } else if (h->ranks[peer].closed) {
        st = fail_closed(peer, err);
    } else {
        req->state = HSP_REQ_POSTED;
        *b->posted_last = req;
        b->posted_last = &req->next;
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

static enum hsp_status loop_wait(struct hsp_comm *c, struct hsp_comm_req *req, struct hsp_err *err)
{
    struct loop *l = loop_of(c);
    struct hub *h = l->hub;
    enum hsp_status st = HSP_OK;
    pthread_mutex_lock(&h->lock);
    while (req->state == HSP_REQ_BUSY || (req->state == HSP_REQ_POSTED && h->dead.code == HSP_OK &&
                                          !h->ranks[req->peer].closed)) {
        pthread_cond_wait(&l->cond, &h->lock);
    }
    if (req->state == HSP_REQ_POSTED) {
        if (req->is_send) {
            free(take_msg(&h->ranks[req->peer].from[c->rank], req->channel, req));
        } else {
            drop_posted(&l->from[req->peer], req);
        }
        st = h->dead.code != HSP_OK ? fail(&h->dead, err) : fail_closed(req->peer, err);
    }
    req->state = HSP_REQ_IDLE;
    pthread_mutex_unlock(&h->lock);
    return st;
}

static enum hsp_status loop_recv(struct hsp_comm *c, uint32_t peer, uint32_t channel, void *buf,
                                 size_t bytes, struct hsp_err *err)
{
    struct hsp_comm_req req;
    enum hsp_status st = loop_irecv(c, peer, channel, hsp_run(buf, bytes), &req, err);
    return st == HSP_OK ? loop_wait(c, &req, err) : st;
}

static void loop_abort(struct hsp_comm *c)
{
    struct hub *h = loop_of(c)->hub;
    struct hsp_err e;
    (void)hsp_err_set(&e, HSP_ECANCELED, 0, "aborted by rank %u", c->rank);
    pthread_mutex_lock(&h->lock);
    hub_kill(h, &e);
    pthread_mutex_unlock(&h->lock);
}

static void hub_free(struct hub *h, uint32_t n_made)
{
    for (uint32_t i = 0; i < n_made; i++) {
        struct loop *l = &h->ranks[i];
        for (uint32_t j = 0; l->from != NULL && j < h->n; j++) {
            while (l->from[j].first != NULL) {
                struct msg *m = l->from[j].first;
                l->from[j].first = m->next;
                free(m);
            }
        }
        free(l->from);
        pthread_cond_destroy(&l->cond);
    }
    pthread_mutex_destroy(&h->lock);
    free(h->ranks);
    free(h);
}

static void loop_close(struct hsp_comm *c)
{
    struct loop *l = loop_of(c);
    struct hub *h = l->hub;
    free(c->scratch);
    c->scratch = NULL;
    pthread_mutex_lock(&h->lock);
    l->closed = true;
    for (uint32_t i = 0; i < h->n; i++) {
        pthread_cond_broadcast(&h->ranks[i].cond);
    }
    bool last = --h->n_open == 0;
    pthread_mutex_unlock(&h->lock);
    if (last) {
        hub_free(h, h->n);
    }
}

static const struct hsp_comm_ops loop_ops = {
    .name = "loop",
    .send = loop_send,
    .recv = loop_recv,
    .isend = loop_isend,
    .irecv = loop_irecv,
    .wait = loop_wait,
    .abort = loop_abort,
    .close = loop_close,
};

enum hsp_status hsp_loop_open(uint32_t n, struct hsp_comm **ret, struct hsp_err *err)
{
    if (n == 0 || n > HSP_LOOP_MAX_RANKS) {
        return hsp_err_set(err, HSP_EINVAL, 0, "%u ranks, want 1 to %d", n, HSP_LOOP_MAX_RANKS);
    }
    struct hub *h = calloc(1, sizeof *h);
    if (h != NULL) {
        h->ranks = calloc(n, sizeof *h->ranks);
    }
    if (h == NULL || h->ranks == NULL) {
        free(h);
        return hsp_err_nomem(err, "%u ranks", n);
    }
    h->n = n;
    h->n_open = n;
    pthread_mutex_init(&h->lock, NULL);
    for (uint32_t i = 0; i < n; i++) {
        struct loop *l = &h->ranks[i];
        *l = (struct loop){.base = {.ops = &loop_ops, .rank = i, .n_ranks = n, .near = true},
                           .hub = h};
        pthread_cond_init(&l->cond, NULL);
        l->from = calloc(n, sizeof *l->from);
        if (l->from == NULL) {
            hub_free(h, i + 1);
            return hsp_err_nomem(err, "%u ranks", n);
        }
        for (uint32_t j = 0; j < n; j++) {
            l->from[j].last = &l->from[j].first;
            l->from[j].posted_last = &l->from[j].posted;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = &h->ranks[i].base;
    }
    return HSP_OK;
}
