/* Sends and receives messages by NCCL.
 *
 * Posts are kept until the batch ends, or a thread waits; then all of them are given to the device
 * at once. First come the copies of messages to send, then one group of the library's calls: sends,
 * each on the lane of its pair, and receives, on HSP_DEVQ_COMM. A copy behind a receive would hold
 * up a message for which the receive may wait. For the same reason a send that is no request goes
 * at once, and leaves receives where they are. */
#include "worker/comm/nccl/nccl_send.h"

#include <stdlib.h>
#include <string.h>

#include "worker/comm/nccl/nccl_abort.h"
#include "worker/comm/nccl/nccl_pool.h"
#include "worker/comm/nccl/nccl_stage.h"

static const struct hsp_nccl_way *way_to(const struct hsp_nccl_comm *c, uint32_t peer, bool out)
{
    for (uint32_t k = 0; k < c->n_ways; k++) {
        if (c->way[k].peer == peer && c->way[k].out == out) {
            return &c->way[k];
        }
    }
    return NULL;
}

/* ---- stages ---- */

/* Between the message where it lies and its stage. */
static enum hsp_status copy_runs(struct hsp_nccl_comm *c, const struct hsp_nccl_post *p, bool in,
                                 struct hsp_err *err)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    enum hsp_status st = HSP_OK;
    for (size_t k = 0; k < p->data.n && st == HSP_OK; k++) {
        uint8_t *there = p->data.base + k * p->data.stride;
        uint8_t *stage = (uint8_t *)p->stage->data + k * p->data.run;
        st = b->copy(b, HSP_DEVQ_COMM, in ? stage : there, in ? there : stage, p->data.run, err);
    }
    return st;
}

/* ---- giving ---- */

/* Copies the messages to send, and takes room for receives that are not contiguous. */
static enum hsp_status stage_all(struct hsp_nccl_comm *c, struct hsp_err *err)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    uint64_t copied = 0;
    bool sends = false;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < c->n_now && st == HSP_OK; k++) {
        struct hsp_nccl_post *p = &c->post[k];
        if (p->way->out || p->data.n > 1) {
            st = hsp_nccl_stage_take(c, p->bytes, p->way->out ? HSP_NCCL_SENT : HSP_NCCL_QUEUED,
                                     &p->stage, err);
        }
        if (st == HSP_OK && p->way->out) {
            st = copy_runs(c, p, true, err);
            sends = true;
        }
    }
    if (st == HSP_OK && sends) {
        st = b->mark(b, HSP_DEVQ_COMM, &copied, err);
    }
    for (uint32_t k = 0; k < c->n_now && st == HSP_OK; k++) {
        if (c->post[k].way->out) {
            st = b->await(b, c->post[k].way->lane, HSP_DEVQ_COMM, copied, err);
        }
    }
    return st;
}

static bool first_of_link(const struct hsp_nccl_comm *c, uint32_t k)
{
    for (uint32_t j = 0; j < k; j++) {
        if (c->post[j].way == c->post[k].way) {
            return false;
        }
    }
    return true;
}

/* The communicator of post @k, which the first post of its way holds. */
static struct nccl_comm *handle_of(const struct hsp_nccl_comm *c, uint32_t k)
{
    uint32_t j = 0;
    while (c->post[j].way != c->post[k].way) {
        j++;
    }
    return c->post[j].handle;
}

static uint32_t messages_of_way(const struct hsp_nccl_comm *c, const struct hsp_nccl_way *w)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n_now; k++) {
        n += c->post[k].way == w;
    }
    return n;
}

static enum nccl_result group_of_calls(struct hsp_nccl_comm *c)
{
    const struct hsp_nccl_lib *lib = &c->of->lib;
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    enum nccl_result r = lib->GroupStart();
    if (r != NCCL_SUCCESS) {
        return r;
    }
    for (uint32_t k = 0; k < c->n_now && (r == NCCL_SUCCESS || r == NCCL_IN_PROGRESS); k++) {
        const struct hsp_nccl_post *p = &c->post[k];
        void *stream = b->native(b, p->way->out ? p->way->lane : HSP_DEVQ_COMM);
        struct nccl_comm *h = handle_of(c, k);
        r = p->way->out ? lib->Send(p->stage->data, p->bytes, NCCL_INT8, 1, h, stream)
                        : lib->Recv(p->stage != NULL ? p->stage->data : p->data.base, p->bytes,
                                    NCCL_INT8, 0, h, stream);
    }
    enum nccl_result ended = lib->GroupEnd();
    return r == NCCL_SUCCESS || r == NCCL_IN_PROGRESS ? ended : r;
}

static enum hsp_status give(struct hsp_nccl_comm *c, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    uint32_t begun = 0;
    for (uint32_t k = 0; k < c->n_now && st == HSP_OK; k++) {
        c->post[k].handle = NULL;
        if (first_of_link(c, k)) {
            st = hsp_link_begin(c->post[k].way->link, c, &c->post[k].handle, err);
        }
        begun += st == HSP_OK;
    }
    st = st == HSP_OK ? hsp_nccl_alive(c, err) : st;
    enum nccl_result r = st == HSP_OK ? group_of_calls(c) : NCCL_SUCCESS;
    for (uint32_t k = 0; k < begun; k++) {
        const struct hsp_nccl_way *w = c->post[k].way;
        if (!first_of_link(c, k)) {
            continue;
        }
        const struct hsp_link_given g = {.q = w->out ? w->lane : HSP_DEVQ_COMM,
                                         .n_ops = messages_of_way(c, w),
                                         .what = w->out ? "a send" : "a receive"};
        enum hsp_status e = hsp_link_end(w->link, &g, r, st == HSP_OK ? err : NULL);
        st = st == HSP_OK ? e : st;
    }
    return st;
}

/* Notes when stages are free, by their queues, and copies messages received in runs to their
 * places. */
static enum hsp_status unstage_all(struct hsp_nccl_comm *c, struct hsp_err *err)
{
    struct hsp_backend *b = hsp_nccl_backend_of(c);
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < c->n_now && st == HSP_OK; k++) {
        struct hsp_nccl_post *p = &c->post[k];
        if (p->stage == NULL) {
            continue;
        }
        if (!p->way->out) {
            st = copy_runs(c, p, false, err);
        }
        p->stage->q = p->way->out ? p->way->lane : HSP_DEVQ_COMM;
        if (st == HSP_OK) {
            st = b->mark(b, p->stage->q, &p->stage->ticket, err);
        }
        p->stage->taken = st != HSP_OK;
    }
    return st;
}

/* Sends to the front, both in their order. Returns their number. */
static uint32_t sends_first(struct hsp_nccl_comm *c)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < c->n_posts; k++) {
        if (c->post[k].way->out) {
            struct hsp_nccl_post p = c->post[k];
            memmove(&c->post[n + 1], &c->post[n], (k - n) * sizeof p);
            c->post[n++] = p;
        }
    }
    return n;
}

static enum hsp_status flush(struct hsp_nccl_comm *c, uint32_t n, struct hsp_err *err)
{
    if (n == 0) {
        return HSP_OK;
    }
    struct hsp_err why = {0};
    c->n_now = n;
    enum hsp_status st = hsp_nccl_alive(c, &why);
    st = st == HSP_OK ? stage_all(c, &why) : st;
    st = st == HSP_OK ? give(c, &why) : st;
    st = st == HSP_OK ? unstage_all(c, &why) : st;
    for (uint32_t k = 0; k < n; k++) {
        if (c->post[k].req != NULL) {
            c->post[k].req->state = HSP_REQ_DONE;
        }
    }
    c->n_posts -= n;
    memmove(c->post, &c->post[n], c->n_posts * sizeof *c->post);
    if (st != HSP_OK) {
        hsp_nccl_kill(c, &why);
        return hsp_nccl_alive(c, err);
    }
    return HSP_OK;
}

enum hsp_status hsp_nccl_flush(struct hsp_nccl_comm *c, struct hsp_err *err)
{
    return flush(c, c->n_posts, err);
}

/* ---- posting ---- */

static enum hsp_status post(struct hsp_nccl_comm *c, const struct hsp_nccl_post *p,
                            struct hsp_err *err)
{
    if (c->n_posts == c->cap_posts) {
        uint32_t cap = c->cap_posts == 0 ? 16 : 2 * c->cap_posts;
        struct hsp_nccl_post *more = realloc(c->post, cap * sizeof *more);
        if (more == NULL) {
            return hsp_err_nomem(err, "%u messages", cap);
        }
        c->post = more;
        c->cap_posts = cap;
    }
    c->post[c->n_posts++] = *p;
    return HSP_OK;
}

static enum hsp_status post_runs(struct hsp_comm *base, uint32_t peer, bool out,
                                 struct hsp_runs data, struct hsp_comm_req *req,
                                 struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    struct hsp_nccl_post p = {.req = req, .data = data, .way = way_to(c, peer, out)};
    enum hsp_status st = hsp_nccl_alive(c, err);
    if (st != HSP_OK) {
        return st;
    }
    if (p.way == NULL) {
        return hsp_err_set(err, HSP_EINVAL, 0, "rank %u does not %s rank %u by NCCL", base->rank,
                           out ? "send to" : "receive from", peer);
    }
    st = hsp_runs_check(&data, HSP_COMM_MAX_MESSAGE, &p.bytes, err);
    if (st != HSP_OK) {
        return st;
    }
    if (req != NULL) {
        *req = (struct hsp_comm_req){.data = data, .bytes = p.bytes, .peer = peer, .is_send = out};
        req->state = p.bytes > 0 && !c->wants.on ? HSP_REQ_POSTED : HSP_REQ_DONE;
    }
    if (c->wants.on && p.bytes > 0 && (out || data.n > 1)) {
        hsp_nccl_stage_want(c, p.bytes, out ? HSP_NCCL_SENT : HSP_NCCL_QUEUED);
    }
    return c->wants.on ? HSP_OK : p.bytes > 0 ? post(c, &p, err) : HSP_OK;
}

enum hsp_status hsp_nccl_isend(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                               struct hsp_runs data, struct hsp_comm_req *req, struct hsp_err *err)
{
    (void)channel; /* L2 */
    return post_runs(c, peer, true, data, req, err);
}

enum hsp_status hsp_nccl_irecv(struct hsp_comm *c, uint32_t peer, uint32_t channel,
                               struct hsp_runs data, struct hsp_comm_req *req, struct hsp_err *err)
{
    (void)channel;
    return post_runs(c, peer, false, data, req, err);
}

enum hsp_status hsp_nccl_wait(struct hsp_comm *base, struct hsp_comm_req *req, struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    if (req->state == HSP_REQ_IDLE) {
        return HSP_OK;
    }
    enum hsp_status st = req->state == HSP_REQ_POSTED ? hsp_nccl_flush(c, err) : HSP_OK;
    req->state = HSP_REQ_IDLE;
    return st == HSP_OK ? hsp_nccl_alive(c, err) : st;
}

enum hsp_status hsp_nccl_send(struct hsp_comm *base, uint32_t peer, uint32_t channel,
                              const void *buf, size_t bytes, struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    (void)channel;
    enum hsp_status st = post_runs(base, peer, true, hsp_run(buf, bytes), NULL, err);
    return st == HSP_OK && !c->batching ? flush(c, sends_first(c), err) : st;
}

enum hsp_status hsp_nccl_recv(struct hsp_comm *base, uint32_t peer, uint32_t channel, void *buf,
                              size_t bytes, struct hsp_err *err)
{
    struct hsp_comm_req req = {0};
    enum hsp_status st = hsp_nccl_irecv(base, peer, channel, hsp_run(buf, bytes), &req, err);
    return st == HSP_OK ? hsp_nccl_wait(base, &req, err) : st;
}

enum hsp_status hsp_nccl_batch(struct hsp_comm *base, bool on, struct hsp_err *err)
{
    struct hsp_nccl_comm *c = hsp_nccl_of(base);
    enum hsp_status st = on ? hsp_nccl_alive(c, err) : hsp_nccl_flush(c, err);
    c->batching = on && st == HSP_OK;
    return st;
}
