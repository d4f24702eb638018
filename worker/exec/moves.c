/* Reshards: the moves of the binding, executed over views and comm.h.
 *
 * A message holds the cells of one (move, sender, receiver) in the order of the move, which all
 * ranks share, so both sides agree on its layout without a header. A cell that is one run of bytes
 * in its tensor and alone in its message is sent from there and received to there. */
#include <stdlib.h>
#include <string.h>

#include "worker/exec/runner.h"

struct move_run {
    struct hsp_engine *e;
    const struct hsp_instr *i;
    const struct hsp_move *m;
    uint32_t micro;
    int64_t n_seq; /* of the running micro-batch */
    struct hsp_view out;
    size_t elem;
};

/* The cell with its running extents. */
static struct hsp_box running(const struct move_run *r, const struct hsp_cell *c)
{
    struct hsp_box b = c->box;
    if (b.rank > 0 && b.hi[0] == HSP_TO_END) {
        b.hi[0] = r->n_seq;
    }
    return b;
}

static struct hsp_view source_view(const struct move_run *r, uint8_t k)
{
    return hsp_operand(r->e, r->i->in[k], r->micro, false);
}

/* Where a cell of the source lies in one run; NULL when it must be packed. */
static void *source_run(const struct move_run *r, const struct hsp_box *cell)
{
    if (r->m->src == HSP_MOVE_SUM) {
        return NULL;
    }
    struct hsp_view v = r->m->src == HSP_MOVE_FROM_OUT ? r->out : source_view(r, r->m->src);
    return hsp_cell_run(&v, cell);
}

static enum hsp_reduce how(const struct move_run *r)
{
    return (enum hsp_reduce)r->m->reduce;
}

/* dst <- the move's source on this cell. */
static void fetch(const struct move_run *r, const struct hsp_view *dst, const struct hsp_box *cell)
{
    if (r->m->src == HSP_MOVE_FROM_OUT) {
        hsp_cell_copy(dst, &r->out, cell);
        return;
    }
    if (r->m->src != HSP_MOVE_SUM) {
        struct hsp_view v = source_view(r, r->m->src);
        hsp_cell_copy(dst, &v, cell);
        return;
    }
    bool first = true;
    for (uint8_t k = 0; k < r->i->n_in; k++) {
        struct hsp_view v = source_view(r, k);
        if (!hsp_box_inside(cell, &v.box)) {
            continue;
        }
        if (first) {
            hsp_cell_copy(dst, &v, cell);
        } else {
            hsp_cell_reduce(dst, &v, cell, how(r));
        }
        first = false;
    }
}

static size_t pack(const struct move_run *r, const struct hsp_box *cell, void *buf)
{
    struct hsp_view v = {.data = buf, .box = *cell, .dtype = r->out.dtype};
    fetch(r, &v, cell);
    return hsp_cell_bytes(cell, v.dtype);
}

static size_t unpack(const struct move_run *r, const struct hsp_box *cell, void *buf)
{
    struct hsp_view v = {.data = buf, .box = *cell, .dtype = r->out.dtype};
    hsp_cell_copy(&r->out, &v, cell);
    return hsp_cell_bytes(cell, v.dtype);
}

static enum hsp_status no_memory(struct hsp_err *err, size_t bytes)
{
    return hsp_err_set(err, HSP_ENOMEM, 0, "no memory for %zu bytes of pack buffer", bytes);
}

static bool find_me(const struct move_run *r, struct hsp_group *ret)
{
    *ret = (struct hsp_group){.n = r->m->n_ranks, .ranks = r->m->ranks};
    while (ret->me < ret->n && ret->ranks[ret->me] != r->e->b->rank) {
        ret->me++;
    }
    return ret->me < ret->n; /* hsp_program_check made sure */
}

/* ---- copy ---- */

static enum hsp_status run_copy(const struct move_run *r, struct hsp_err *err)
{
    (void)err; /* nothing here can fail */
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        fetch(r, &r->out, &cell);
    }
    return HSP_OK;
}

/* ---- batched send-receive ---- */

/* One message: all cells between this rank and one peer. */
struct message {
    uint32_t peer; /* rank */
    bool send;
    uint32_t n_cells;
    size_t bytes;
    void *buf;   /* in the tensor, or in a pack buffer */
    bool packed; /* buf is in a pack buffer */
    size_t used; /* packed so far */
    struct hsp_comm_req req;
    bool posted;
};

static struct message *message_of(struct message *all, uint32_t *n, uint32_t peer, bool send)
{
    for (uint32_t k = 0; k < *n; k++) {
        if (all[k].peer == peer && all[k].send == send) {
            return &all[k];
        }
    }
    all[*n] = (struct message){.peer = peer, .send = send};
    return &all[(*n)++];
}

/* Which side of the cell this rank is on; the peer's rank. */
static uint32_t peer_of(const struct move_run *r, const struct hsp_cell *c, bool *send)
{
    *send = r->m->ranks[c->root] == r->e->b->rank;
    return r->m->ranks[*send ? c->peer : c->root];
}

static enum hsp_status p2p_buffers(const struct move_run *r, struct message *msg, uint32_t n,
                                   struct hsp_err *err)
{
    size_t need[2] = {0, 0}, at[2] = {0, 0};
    for (uint32_t k = 0; k < n; k++) {
        need[msg[k].send] += msg[k].buf ? 0 : (msg[k].bytes + 63) / 64 * 64;
    }
    uint8_t *base[2] = {hsp_pack_get(&r->e->recv, need[0]), hsp_pack_get(&r->e->send, need[1])};
    if (!base[0] || !base[1]) {
        return no_memory(err, need[0] + need[1]);
    }
    for (uint32_t k = 0; k < n; k++) {
        if (!msg[k].buf) {
            msg[k].packed = true;
            msg[k].buf = base[msg[k].send] + at[msg[k].send];
            at[msg[k].send] += (msg[k].bytes + 63) / 64 * 64;
        }
    }
    return HSP_OK;
}

/* Messages of the move with their sizes, and buffers for those that need one. */
static enum hsp_status p2p_plan(const struct move_run *r, struct message *msg, uint32_t *ret_n,
                                struct hsp_err *err)
{
    *ret_n = 0;
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        bool send;
        uint32_t peer = peer_of(r, &r->m->cells[k], &send);
        struct message *x = message_of(msg, ret_n, peer, send);
        struct hsp_box cell = running(r, &r->m->cells[k]);
        x->bytes += hsp_cell_bytes(&cell, r->out.dtype);
        /* alone in its message and one run: no packing */
        x->buf = ++x->n_cells > 1 ? NULL
                 : send           ? source_run(r, &cell)
                                  : hsp_cell_run(&r->out, &cell);
    }
    return p2p_buffers(r, msg, *ret_n, err);
}

static void p2p_cells(const struct move_run *r, struct message *msg, uint32_t n, bool send)
{
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        bool mine;
        uint32_t peer = peer_of(r, &r->m->cells[k], &mine);
        struct message *x = message_of(msg, &n, peer, mine);
        if (mine != send || !x->packed) {
            continue;
        }
        struct hsp_box cell = running(r, &r->m->cells[k]);
        uint8_t *at = (uint8_t *)x->buf + x->used;
        x->used += send ? pack(r, &cell, at) : unpack(r, &cell, at);
    }
}

static enum hsp_status p2p_post(const struct move_run *r, struct message *msg, uint32_t n,
                                bool send, struct hsp_err *err)
{
    struct hsp_comm *c = r->e->o.comm;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        struct message *x = &msg[k];
        if (x->send != send || x->bytes == 0) {
            continue; /* both sides know that nothing travels */
        }
        if (send) {
            st = c->ops->send(c, x->peer, r->m->channel, x->buf, x->bytes, err);
        } else {
            st = c->ops->irecv(c, x->peer, r->m->channel, hsp_run(x->buf, x->bytes), &x->req, err);
            x->posted = st == HSP_OK;
        }
        r->e->comm_bytes += send ? x->bytes : 0;
    }
    return st;
}

/* Receives are posted first, so that bytes land where they belong; then all sends leave; then we
 * wait for what we receive. A send never waits for its receiver: that is what the compiler's
 * deadlock check assumes, and why bytes are handed over rather than lent. */
static enum hsp_status run_p2p(const struct move_run *r, struct hsp_err *err)
{
    struct hsp_comm *c = r->e->o.comm;
    uint32_t n = 0;
    struct message *msg = calloc(2 * (size_t)r->m->n_ranks, sizeof(*msg));
    if (!msg) {
        return no_memory(err, 2 * r->m->n_ranks * sizeof(*msg));
    }
    enum hsp_status st = p2p_plan(r, msg, &n, err);
    if (st == HSP_OK) {
        st = p2p_post(r, msg, n, false, err);
    }
    if (st == HSP_OK) {
        p2p_cells(r, msg, n, true);
        st = p2p_post(r, msg, n, true, err);
    }
    for (uint32_t k = 0; k < n; k++) {
        if (msg[k].posted) {
            enum hsp_status w = c->ops->wait(c, &msg[k].req, st == HSP_OK ? err : NULL);
            st = st == HSP_OK ? w : st;
        }
    }
    if (st == HSP_OK) {
        p2p_cells(r, msg, n, false);
    }
    free(msg);
    return st;
}

/* ---- collectives ---- */

static size_t all_bytes(const struct move_run *r)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        bytes += hsp_cell_bytes(&cell, r->out.dtype);
    }
    return bytes;
}

static enum hsp_status run_all_reduce(const struct move_run *r, struct hsp_err *err)
{
    struct hsp_group g;
    size_t bytes = all_bytes(r);
    if (!find_me(r, &g) || bytes == 0) {
        return HSP_OK;
    }
    r->e->comm_bytes += bytes;
    if (r->m->n_cells == 1) { /* in place when the result is one run */
        struct hsp_box cell = running(r, &r->m->cells[0]);
        void *run = hsp_cell_run(&r->out, &cell);
        if (run) {
            if (r->m->src != HSP_MOVE_FROM_OUT) {
                fetch(r, &r->out, &cell);
            }
            return hsp_comm_all_reduce(r->e->o.comm, &g, r->m->channel, r->out.dtype, how(r), run,
                                       bytes / r->elem, err);
        }
    }
    uint8_t *buf = hsp_pack_get(&r->e->send, bytes);
    if (!buf) {
        return no_memory(err, bytes);
    }
    size_t at = 0;
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        at += pack(r, &cell, buf + at);
    }
    enum hsp_status st = hsp_comm_all_reduce(r->e->o.comm, &g, r->m->channel, r->out.dtype, how(r),
                                             buf, bytes / r->elem, err);
    at = 0;
    for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        at += unpack(r, &cell, buf + at);
    }
    return st;
}

/* Elements per root, and where each root's part begins in the concatenation (bytes). */
static void root_counts(const struct move_run *r, size_t *count, size_t *begin)
{
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        count[r->m->cells[k].root] += (size_t)hsp_box_count(&cell);
    }
    for (uint32_t i = 1; i < r->m->n_ranks; i++) {
        begin[i] = begin[i - 1] + count[i - 1] * r->elem;
    }
}

/* Moves the cells between the concatenation at @buf and the tensors: packs those of @root (all
 * roots when it is UINT32_MAX) or unpacks them. @at[i]: where the next cell of root i lies;
 * advanced. */
static void root_cells(const struct move_run *r, uint8_t *buf, size_t *at, uint32_t root,
                       bool packing)
{
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        uint32_t owner = r->m->cells[k].root;
        if (root != UINT32_MAX && owner != root) {
            continue;
        }
        struct hsp_box cell = running(r, &r->m->cells[k]);
        at[owner] += packing ? pack(r, &cell, buf + at[owner]) : unpack(r, &cell, buf + at[owner]);
    }
}

static enum hsp_status reduce_scatter(const struct move_run *r, const struct hsp_group *g,
                                      size_t *count, size_t *at, struct hsp_err *err)
{
    size_t bytes = all_bytes(r), mine = count[g->me] * r->elem, zero[1] = {0};
    uint8_t *in = hsp_pack_get(&r->e->send, bytes), *out = hsp_pack_get(&r->e->recv, mine);
    if (!in || !out) {
        return no_memory(err, bytes + mine);
    }
    root_cells(r, in, at, UINT32_MAX, true);
    enum hsp_status st = hsp_comm_reduce_scatter(r->e->o.comm, g, r->m->channel, r->out.dtype,
                                                 how(r), in, count, out, err);
    for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
        if (r->m->cells[k].root == g->me) {
            struct hsp_box cell = running(r, &r->m->cells[k]);
            zero[0] += unpack(r, &cell, out + zero[0]);
        }
    }
    return st;
}

/* The whole output in the order of the concatenation: nothing to pack or unpack. */
static uint8_t *gather_in_place(const struct move_run *r)
{
    uint8_t *base = NULL, *next = NULL;
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        if (hsp_box_empty(&cell)) {
            continue;
        }
        uint8_t *run = hsp_cell_run(&r->out, &cell);
        if (!run || (next && run != next) ||
            (k > 0 && r->m->cells[k].root < r->m->cells[k - 1].root)) {
            return NULL;
        }
        base = base ? base : run;
        next = run + hsp_cell_bytes(&cell, r->out.dtype);
    }
    return base;
}

static enum hsp_status all_gather(const struct move_run *r, const struct hsp_group *g,
                                  size_t *count, size_t *begin, size_t *at, struct hsp_err *err)
{
    size_t bytes = all_bytes(r);
    uint8_t *buf = gather_in_place(r);
    bool in_place = buf != NULL;
    if (!in_place) {
        buf = hsp_pack_get(&r->e->recv, bytes);
        if (!buf) {
            return no_memory(err, bytes);
        }
    }
    if (!in_place || r->m->src != HSP_MOVE_FROM_OUT) {
        root_cells(r, buf, at, g->me, true);
    }
    enum hsp_status st = hsp_comm_all_gather(r->e->o.comm, g, r->m->channel, r->out.dtype,
                                             buf + begin[g->me], count, buf, err);
    if (st == HSP_OK && !in_place) {
        memcpy(at, begin, r->m->n_ranks * sizeof(*at));
        root_cells(r, buf, at, UINT32_MAX, false);
    }
    return st;
}

/* Collectives whose cells have roots. */
static enum hsp_status run_rooted(const struct move_run *r, struct hsp_err *err)
{
    struct hsp_group g;
    size_t bytes = all_bytes(r), n = r->m->n_ranks;
    if (!find_me(r, &g) || bytes == 0) {
        return HSP_OK;
    }
    size_t *count = calloc(3 * n, sizeof(*count));
    if (!count) {
        return no_memory(err, 3 * n * sizeof(*count));
    }
    size_t *begin = count + n, *at = begin + n;
    root_counts(r, count, begin);
    memcpy(at, begin, n * sizeof(*at));
    r->e->comm_bytes += bytes;
    enum hsp_status st = r->m->kind == HSP_MOVE_REDUCE_SCATTER
                             ? reduce_scatter(r, &g, count, at, err)
                             : all_gather(r, &g, count, begin, at, err);
    free(count);
    return st;
}

/* ---- sums that are handed on ---- */

static enum hsp_status receive_sum(const struct move_run *r, uint32_t root, size_t bytes,
                                   struct hsp_err *err)
{
    struct hsp_comm *c = r->e->o.comm;
    struct hsp_comm_req req;
    uint8_t *buf = hsp_pack_get(&r->e->recv, bytes);
    if (!buf) {
        return no_memory(err, bytes);
    }
    enum hsp_status st = c->ops->irecv(c, root, r->m->channel, hsp_run(buf, bytes), &req, err);
    if (st == HSP_OK) {
        st = c->ops->wait(c, &req, err);
    }
    size_t at = 0;
    for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        at += unpack(r, &cell, buf + at);
    }
    return st;
}

/* A reduce-scatter among all but the peer, of which the root gets everything; it sends that on. */
static enum hsp_status add_and_send(const struct move_run *r, const struct hsp_group *g,
                                    size_t *count, uint32_t root, uint32_t peer, size_t bytes,
                                    struct hsp_err *err)
{
    struct hsp_comm *c = r->e->o.comm;
    bool mine = g->ranks[g->me] == root;
    size_t at = 0;
    uint8_t *in = hsp_pack_get(&r->e->send, bytes);
    uint8_t *out = hsp_pack_get(&r->e->recv, mine ? bytes : 0);
    if (!in || !out) {
        return no_memory(err, 2 * bytes);
    }
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        struct hsp_box cell = running(r, &r->m->cells[k]);
        at += pack(r, &cell, in + at);
    }
    for (uint32_t k = 0; k < g->n; k++) {
        count[k] = g->ranks[k] == root ? bytes / r->elem : 0;
    }
    enum hsp_status st =
        hsp_comm_reduce_scatter(c, g, r->m->channel, r->out.dtype, how(r), in, count, out, err);
    if (st == HSP_OK && mine) {
        st = c->ops->send(c, peer, r->m->channel, out, bytes, err);
    }
    r->e->comm_bytes += mine ? 2 * bytes : bytes;
    return st;
}

static enum hsp_status run_reduce_send(const struct move_run *r, struct hsp_err *err)
{
    struct hsp_group g;
    size_t bytes = all_bytes(r);
    if (!find_me(r, &g) || bytes == 0) {
        return HSP_OK;
    }
    uint32_t root = g.ranks[r->m->cells[0].root], peer = r->m->cells[0].peer;
    if (g.me == peer) {
        return receive_sum(r, root, bytes, err);
    }
    uint32_t *adders = calloc(g.n, sizeof(*adders));
    size_t *count = calloc(g.n, sizeof(*count));
    enum hsp_status st = HSP_OK;
    if (!adders || !count) {
        st = no_memory(err, g.n * (sizeof(*adders) + sizeof(*count)));
    } else {
        struct hsp_group a = {.me = g.me - (g.me > peer ? 1 : 0), .ranks = adders};
        for (uint32_t k = 0; k < g.n; k++) {
            if (k != peer) {
                adders[a.n++] = g.ranks[k];
            }
        }
        st = add_and_send(r, &a, count, root, g.ranks[peer], bytes, err);
    }
    free(adders);
    free(count);
    return st;
}

/* ---- all ---- */

enum hsp_status hsp_run_reshard(struct hsp_engine *e, const struct hsp_instr *i, uint32_t micro,
                                struct hsp_err *err)
{
    const struct hsp_reshard_bind *b = &e->b->reshard[i->arg];
    struct move_run r = {.e = e, .i = i, .micro = micro};
    r.out = hsp_operand(e, i->out[0], micro, true);
    r.elem = hsp_dtype_size(r.out.dtype);
    r.n_seq = micro < e->sheet.n_micro ? e->sheet.micro[micro].n_seq : 0;
    if (b->zero_first) {
        memset(r.out.data, 0, hsp_cell_bytes(&r.out.box, r.out.dtype));
    }
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < b->n_moves && st == HSP_OK; k++) {
        r.m = &b->moves[k];
        switch ((enum hsp_move_kind)r.m->kind) {
        case HSP_MOVE_COPY: st = run_copy(&r, err); break;
        case HSP_MOVE_P2P: st = run_p2p(&r, err); break;
        case HSP_MOVE_ALL_REDUCE: st = run_all_reduce(&r, err); break;
        case HSP_MOVE_REDUCE_SCATTER:
        case HSP_MOVE_ALL_GATHER: st = run_rooted(&r, err); break;
        case HSP_MOVE_REDUCE_SEND: st = run_reduce_send(&r, err); break;
        }
    }
    return st;
}
