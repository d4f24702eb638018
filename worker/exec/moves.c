/* Runs Reshards: runs the moves of the binding on views of tensors and a transport (comm.h).
 *
 * A message contains the cells of one (move, sender, receiver) in the order of the move. All ranks
 * share this order, so both sides agree on the layout of a message without a header. If a cell is
 * alone in its message and contiguous in its tensor, the transport sends it from there and receives
 * it to there. */
#include "worker/exec/moves.h"

#include <stdlib.h>

#include "proto/layout/box.h"
#include "worker/exec/engine.h"
#include "worker/exec/move_cells.h"
#include "worker/exec/move_group.h"
#include "worker/exec/moves_impl.h"
#include "worker/exec/operand.h"
#include "worker/exec/staging.h"

/* ---- copy ---- */

static enum hsp_status run_copy(const struct hsp_move_run *r, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
        struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
        st = hsp_move_fetch(r, &r->out, &cell, err);
    }
    return st;
}

/* ---- batched send-receive ---- */

/* Returns the address of a cell in the source if it is contiguous there; NULL if it must be
 * packed. */
static void *source_run(const struct hsp_move_run *r, const struct hsp_box *cell)
{
    if (r->m->src == HSP_MOVE_SUM) {
        return NULL;
    }
    struct hsp_cell_view v =
        r->m->src == HSP_MOVE_FROM_OUT ? r->out : hsp_move_source(r, r->m->src);
    return hsp_cell_run(&v, cell);
}

/* One message: all cells that go from this rank to one peer, or from the peer to this rank. */
struct message {
    uint32_t peer; /* rank */
    bool send;
    uint32_t n_cells;
    size_t bytes;
    uint8_t *buf;  /* in the tensor, or in a pack buffer */
    uint8_t *wire; /* memory for the transport: buf, or a staging copy of it */
    bool packed;   /* buf is in a pack buffer */
    size_t used;   /* bytes packed or unpacked so far */
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

/* Returns the rank of the cell's other side. *send: this rank sends the cell. */
static uint32_t peer_of(const struct hsp_move_run *r, const struct hsp_cell *c, bool *send)
{
    *send = r->m->ranks[c->root] == r->e->b->rank;
    return r->m->ranks[*send ? c->peer : c->root];
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Gives pack buffers to the messages that need packing, and staging copies to all messages if the
 * move is staged. */
static enum hsp_status p2p_buffers(const struct hsp_move_run *r, struct message *msg, uint32_t n,
                                   struct hsp_err *err)
{
    size_t need[2] = {0, 0}, all[2] = {0, 0}, at[2] = {0, 0}, wired[2] = {0, 0};
    uint8_t *base[2], *staging[2] = {NULL, NULL};
    for (uint32_t k = 0; k < n; k++) {
        need[msg[k].send] += msg[k].buf ? 0 : rounded(msg[k].bytes);
        all[msg[k].send] += rounded(msg[k].bytes);
    }
    enum hsp_status st = hsp_pack_get(r->e, &r->e->recv, need[0], (void **)&base[0], err);
    if (st == HSP_OK) {
        st = hsp_pack_get(r->e, &r->e->send, need[1], (void **)&base[1], err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_of(r, &r->e->recv_staging, NULL, all[0], &staging[0], err);
    }
    if (st == HSP_OK) {
        st = hsp_staging_of(r, &r->e->send_staging, NULL, all[1], &staging[1], err);
    }
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        struct message *x = &msg[k];
        if (!x->buf) {
            x->packed = true;
            x->buf = base[x->send] + at[x->send];
            at[x->send] += rounded(x->bytes);
        }
        x->wire = r->staged ? staging[x->send] + wired[x->send] : x->buf;
        wired[x->send] += rounded(x->bytes);
    }
    return st;
}

/* Lists the messages of the move with their sizes, and gives buffers to those that need one. */
static enum hsp_status p2p_plan(const struct hsp_move_run *r, struct message *msg, uint32_t *ret_n,
                                struct hsp_err *err)
{
    *ret_n = 0;
    for (uint32_t k = 0; k < r->m->n_cells; k++) {
        bool send;
        uint32_t peer = peer_of(r, &r->m->cells[k], &send);
        struct message *x = message_of(msg, ret_n, peer, send);
        struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
        x->bytes += hsp_cell_bytes(&cell, r->out.dtype);
        /* a cell alone in its message and contiguous needs no packing */
        x->buf = ++x->n_cells > 1 ? NULL
                 : send           ? source_run(r, &cell)
                                  : hsp_cell_run(&r->out, &cell);
    }
    return p2p_buffers(r, msg, *ret_n, err);
}

/* Packs the cells of all messages to send, or unpacks those of all messages received. */
static enum hsp_status p2p_cells(const struct hsp_move_run *r, struct message *msg, uint32_t n,
                                 bool send, struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < r->m->n_cells && st == HSP_OK; k++) {
        bool mine;
        uint32_t peer = peer_of(r, &r->m->cells[k], &mine);
        struct message *x = message_of(msg, &n, peer, mine);
        if (mine != send || !x->packed) {
            continue;
        }
        struct hsp_box cell = hsp_move_cell(r, &r->m->cells[k]);
        st = send ? hsp_move_pack(r, &cell, x->buf, &x->used, err)
                  : hsp_move_unpack(r, &cell, x->buf, &x->used, err);
    }
    return st;
}

/* Packs the messages to send into the memory from which the transport takes them. */
static enum hsp_status p2p_pack(const struct hsp_move_run *r, struct message *msg, uint32_t n,
                                struct hsp_err *err)
{
    enum hsp_status st = p2p_cells(r, msg, n, true, err);
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        if (msg[k].send) {
            st = hsp_staging_write(r, msg[k].wire, msg[k].buf, msg[k].bytes, err);
        }
    }
    return st == HSP_OK ? hsp_staging_ready(r, err) : st;
}

static enum hsp_status p2p_unpack(const struct hsp_move_run *r, struct message *msg, uint32_t n,
                                  struct hsp_err *err)
{
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        if (!msg[k].send) {
            st = hsp_staging_read(r, msg[k].buf, msg[k].wire, msg[k].bytes, err);
        }
    }
    return st == HSP_OK ? p2p_cells(r, msg, n, false, err) : st;
}

static enum hsp_status p2p_post(const struct hsp_move_run *r, struct message *msg, uint32_t n,
                                bool send, struct hsp_err *err)
{
    struct hsp_comm *c = r->comm;
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < n && st == HSP_OK; k++) {
        struct message *x = &msg[k];
        if (x->send != send || x->bytes == 0) {
            continue; /* both sides know that the message is empty */
        }
        if (send) {
            st = c->ops->send(c, x->peer, r->m->channel, x->wire, x->bytes, err);
        } else {
            st = c->ops->irecv(c, x->peer, r->m->channel, hsp_run(x->wire, x->bytes), &x->req, err);
            x->posted = st == HSP_OK;
        }
        r->e->comm_bytes += send ? x->bytes : 0;
    }
    return st;
}

/* Posts the receives first, so that messages go directly to their memory, and then sends. The
 * compiler's deadlock check assumes that a send never waits for its receiver. So the messages go by
 * `send`, which copies the bytes or hands them to the kernel, and not by `isend`, which borrows
 * them. */
static enum hsp_status p2p_start(const struct hsp_move_run *r, struct message *msg, uint32_t n,
                                 struct hsp_err *err)
{
    struct hsp_comm *c = r->comm;
    enum hsp_status st = c->ops->batch ? c->ops->batch(c, true, err) : HSP_OK;
    if (st != HSP_OK) {
        return st;
    }
    st = p2p_post(r, msg, n, false, err);
    if (st == HSP_OK) {
        st = p2p_pack(r, msg, n, err);
    }
    if (st == HSP_OK) {
        st = p2p_post(r, msg, n, true, err);
    }
    enum hsp_status ended = HSP_OK;
    if (c->ops->batch) {
        ended = c->ops->batch(c, false, st == HSP_OK ? err : NULL);
    }
    return st == HSP_OK ? ended : st;
}

static enum hsp_status run_p2p(const struct hsp_move_run *r, struct hsp_err *err)
{
    struct hsp_comm *c = r->comm;
    uint32_t n = 0;
    struct message *msg = calloc(2 * (size_t)r->m->n_ranks, sizeof(*msg));
    if (!msg) {
        return hsp_move_no_memory(err, 2 * r->m->n_ranks * sizeof(*msg));
    }
    enum hsp_status st = p2p_plan(r, msg, &n, err);
    if (st == HSP_OK) {
        st = p2p_start(r, msg, n, err);
    }
    for (uint32_t k = 0; k < n; k++) {
        if (msg[k].posted) {
            enum hsp_status w = c->ops->wait(c, &msg[k].req, st == HSP_OK ? err : NULL);
            st = st == HSP_OK ? w : st;
        }
    }
    if (st == HSP_OK) {
        st = p2p_unpack(r, msg, n, err);
    }
    free(msg);
    return st;
}

/* ---- all ---- */

/* Chooses the device's own transport if it reaches all ranks of the move, else the host's. */
static void choose_comm(struct hsp_move_run *r)
{
    struct hsp_comm *direct = r->e->o.direct;
    bool reached =
        direct != NULL && r->m->kind != HSP_MOVE_COPY &&
        (!direct->ops->reaches || direct->ops->reaches(direct, r->m->ranks, r->m->n_ranks));
    r->comm = reached ? direct : r->e->o.comm;
    if (r->e->rehearses != HSP_REHEARSE_NONE && (!reached || direct->ops->rehearse == NULL)) {
        r->comm = &r->e->dry;
    }
    r->staged = r->e->o.backend->device && !reached;
}

/* Runs one move, or the @n moves of a bucket as one. */
static enum hsp_status run_move(const struct hsp_move_run *r, uint32_t n, struct hsp_err *err)
{
    switch ((enum hsp_move_kind)r->m->kind) {
    case HSP_MOVE_COPY: return run_copy(r, err);
    case HSP_MOVE_P2P: return run_p2p(r, err);
    case HSP_MOVE_ALL_REDUCE: return hsp_move_all_reduce(r, n, err);
    case HSP_MOVE_REDUCE_SCATTER:
    case HSP_MOVE_ALL_GATHER: return hsp_move_rooted(r, n, err);
    case HSP_MOVE_REDUCE_SEND: return hsp_move_reduce_send(r, err);
    }
    return hsp_err_set(err, HSP_EINVAL, 0, "move of kind %u", r->m->kind);
}

static void begin_move(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                       struct hsp_move_run *ret)
{
    const struct hsp_instr *i = &e->t->instrs[k];
    *ret = (struct hsp_move_run){.e = e, .i = i, .micro = micro, .q = hsp_devq_of(q)};
    ret->out = hsp_engine_view(e, i->out[0], micro);
    ret->elem = hsp_dtype_size(ret->out.dtype);
    ret->n_seq = micro < e->sheet.n_micro ? e->sheet.micro[micro].n_seq : 0;
}

/* Returns the number of Reshards from @k on that are one bucket, at least 1. hsp_program_check made
 * sure that a bucket lies in one piece. */
static uint32_t bucket_length(const struct hsp_engine *e, uint32_t k)
{
    uint32_t bucket = e->b->reshard[e->t->instrs[k].arg].bucket, n = 1;
    while (e->b->buckets && bucket != 0 && k + n < e->t->n_instrs &&
           e->t->instrs[k + n].kind == HSP_I_RESHARD &&
           e->b->reshard[e->t->instrs[k + n].arg].bucket == bucket) {
        n++;
    }
    return n;
}

/* Runs a bucket: each of its @n Reshards is one collective of the same kind and group. */
static enum hsp_status run_bucket(struct hsp_engine *e, uint32_t k, uint32_t n, uint32_t micro,
                                  enum hsp_queue q, struct hsp_err *err)
{
    struct hsp_move_run *r = calloc(n, sizeof(*r));
    if (!r) {
        return hsp_move_no_memory(err, n * sizeof(*r));
    }
    for (uint32_t j = 0; j < n; j++) {
        begin_move(e, k + j, micro, q, &r[j]);
        r[j].m = &e->b->reshard[r[j].i->arg].moves[0];
        choose_comm(&r[j]);
    }
    enum hsp_status st = run_move(r, n, err);
    free(r);
    return st;
}

enum hsp_status hsp_run_reshard(struct hsp_engine *e, uint32_t k, uint32_t micro, enum hsp_queue q,
                                uint32_t *ret_n, struct hsp_err *err)
{
    const struct hsp_reshard_bind *b = &e->b->reshard[e->t->instrs[k].arg];
    struct hsp_backend *be = e->o.backend;
    struct hsp_move_run r;
    enum hsp_status st = HSP_OK;
    *ret_n = bucket_length(e, k);
    if (*ret_n > 1) {
        return run_bucket(e, k, *ret_n, micro, q, err);
    }
    begin_move(e, k, micro, q, &r);
    if (b->zero_first) {
        st = be->fill(be, r.q, r.out.dtype, r.out.data, 0.0, hsp_box_count(&r.out.box), err);
    }
    for (uint32_t j = 0; j < b->n_moves && st == HSP_OK; j++) {
        r.m = &b->moves[j];
        choose_comm(&r);
        st = run_move(&r, 1, err);
    }
    return st;
}
