#include "tests/unit/spmd/machine.h"

#include <math.h>

#include "proto/program/sheet.h"
#include "tests/lib/naive_ops.h"
#include "tests/lib/testlib.h"

enum { BLOCK = 64 }; /* bytes under one tag */

struct message {
    uint8_t *data; /* owned */
    size_t bytes;
};

/* Messages of one channel in order: from rank, to rank (collectives: to = from). */
struct lane {
    uint32_t channel, from, to;
    struct message *msg; /* owned */
    uint32_t n, cap;
};

struct running {
    bool active;
    uint32_t instr, move, n_sent; /* inside the entry; messages received of the move so far */
    bool arrived;
};

struct rank {
    const struct hsp_program *p;
    uint8_t *mem, *state[2];
    uint64_t *tag; /* per block */
    uint32_t done[HSP_N_QUEUES];
    struct running run[HSP_N_QUEUES];
    double stat[HSP_N_STATS];
    uint32_t votes;
    double **grad; /* [param]: what its update read; owned */
    struct hsp_box *grad_box;
};

struct hsp_machine {
    struct rank *r;
    uint32_t n;
    uint64_t seed, draw;
    hsp_machine_input input;
    bool eval;
    uint64_t step;
    const struct hsp_update_scalars *scalars;
    struct lane *lane; /* owned */
    uint32_t n_lanes, cap_lanes;
    uint32_t *count; /* [channel * n + rank]: arrivals; owned */
    uint32_t n_channels;
};

struct view {
    uint8_t *data;
    struct hsp_box box;
    uint8_t dtype;
};

enum { MAX_PARAMS = 512 };

static const struct hsp_sched *sched_of(const struct hsp_machine *m, const struct rank *r)
{
    return m->eval ? &r->p->bind.eval : &r->p->bind.train;
}

static uint32_t micro_seqs(const struct hsp_machine *m, const struct rank *r, uint32_t micro)
{
    const struct hsp_stream_bind *s = &r->p->bind.stream;
    return m->eval ? hsp_micro_size(s->eval_n_seq, s->eval_n_micro, micro)
                   : hsp_micro_size(s->n_seq, s->n_micro, micro);
}

static uint32_t micro_first(const struct hsp_machine *m, const struct rank *r, uint32_t micro)
{
    uint32_t at = m->eval ? r->p->bind.stream.eval_first : r->p->bind.stream.first_seq;
    for (uint32_t i = 0; i < micro; i++) {
        at += micro_seqs(m, r, i);
    }
    return at;
}

static struct view view_of(const struct hsp_machine *m, const struct rank *r, uint32_t tensor,
                           uint32_t micro, bool out)
{
    const struct hsp_tensor_bind *b = &r->p->bind.tensor[tensor];
    struct view v = {.box = b->box, .dtype = r->p->tpl.tensors[tensor].dtype};
    if (r->p->tpl.tensors[tensor].cls == HSP_CLASS_STATE) {
        v.data = r->state[(m->step + (out ? 1 : 0)) % 2] + b->offset;
    } else {
        v.data = r->mem + b->offset + (int64_t)(micro % b->n_slots) * b->slot_bytes;
    }
    if (b->batch_dim0) {
        v.box.hi[0] = micro_seqs(m, r, micro);
    }
    return v;
}

/* ---- tags ---- */

static uint64_t tag_of(const struct rank *r, uint32_t tensor, uint32_t micro)
{
    bool step = r->p->tpl.tensors[tensor].cls == HSP_CLASS_STEP;
    return ((uint64_t)tensor + 1) << 32 | (step ? 0 : micro);
}

static void tag_span(const struct rank *r, uint32_t tensor, uint32_t micro, int64_t *lo,
                     int64_t *hi)
{
    const struct hsp_tensor_bind *b = &r->p->bind.tensor[tensor];
    *lo = (b->offset + (int64_t)(micro % b->n_slots) * b->slot_bytes) / BLOCK;
    *hi = *lo + b->slot_bytes / BLOCK;
    if (r->p->tpl.tensors[tensor].cls == HSP_CLASS_STATE) {
        *hi = *lo; /* version t is only read, version t + 1 only written */
    }
}

static void check_read(const struct rank *r, uint32_t tensor, uint32_t micro)
{
    int64_t lo, hi;
    tag_span(r, tensor, micro, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        if (r->tag[i] != tag_of(r, tensor, micro)) {
            fail_msg("rank %u reads %s of micro-batch %u, but its bytes hold tensor %d (%s)",
                     r->p->bind.rank, r->p->tpl.tensors[tensor].name, micro,
                     (int)(r->tag[i] >> 32) - 1,
                     r->tag[i] >> 32 ? r->p->tpl.tensors[(r->tag[i] >> 32) - 1].name : "nothing");
        }
    }
}

static void mark_write(const struct rank *r, uint32_t tensor, uint32_t micro)
{
    int64_t lo, hi;
    tag_span(r, tensor, micro, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        r->tag[i] = tag_of(r, tensor, micro);
    }
}

static bool only_sends(const struct hsp_instr *i)
{
    return i->kind == HSP_I_RESHARD && i->n_in > 0 && i->in[0] == i->out[0];
}

/* Whether two instructions touch the same bytes, one of them writing. */
static bool clash(const struct rank *r, const struct hsp_instr *a, uint32_t ma,
                  const struct hsp_instr *b, uint32_t mb)
{
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        for (int k = 0; k < b->n_in + b->n_out; k++) {
            bool wa = i >= a->n_in && !only_sends(a), wb = k >= b->n_in && !only_sends(b);
            int64_t l1, h1, l2, h2;
            tag_span(r, i < a->n_in ? a->in[i] : a->out[i - a->n_in], ma, &l1, &h1);
            tag_span(r, k < b->n_in ? b->in[k] : b->out[k - b->n_in], mb, &l2, &h2);
            if ((wa || wb) && l1 < h1 && l2 < h2 && l1 < h2 && l2 < h1) {
                return true;
            }
        }
    }
    return false;
}

static void check_race(const struct hsp_machine *m, const struct rank *r, int queue)
{
    const struct hsp_sched *s = sched_of(m, r);
    int other = 1 - queue;
    if (!r->run[other].active) {
        return;
    }
    const struct hsp_sched_entry *a = &s->e[queue][r->done[queue]];
    const struct hsp_sched_entry *b = &s->e[other][r->done[other]];
    const struct hsp_piece *pa = &r->p->tpl.pieces[a->piece], *pb = &r->p->tpl.pieces[b->piece];
    for (uint32_t i = 0; i < pa->n; i++) {
        for (uint32_t k = 0; k < pb->n; k++) {
            if (clash(r, &r->p->tpl.instrs[pa->first + i], a->micro,
                      &r->p->tpl.instrs[pb->first + k], b->micro)) {
                fail_msg("rank %u: two running entries touch the same bytes", r->p->bind.rank);
            }
        }
    }
}

/* ---- cells ---- */

static size_t cell_bytes(const struct hsp_box *c, uint8_t dtype)
{
    return (size_t)hsp_box_count(c) * hsp_dtype_size((enum hsp_dtype)dtype);
}

/* Calls itself over dims; @packed walks on. */
static void walk(const struct view *v, const struct hsp_box *c, uint8_t d, int64_t at,
                 uint8_t **packed, bool pack)
{
    size_t e = hsp_dtype_size((enum hsp_dtype)v->dtype);
    if (d == c->rank) {
        uint8_t *x = v->data + (size_t)at * e;
        memcpy(pack ? *packed : x, pack ? x : *packed, e);
        *packed += e;
        return;
    }
    for (int64_t i = c->lo[d]; i < c->hi[d]; i++) {
        assert_true(i >= v->box.lo[d]);
        assert_true(i < v->box.hi[d]);
        walk(v, c, (uint8_t)(d + 1), at * (v->box.hi[d] - v->box.lo[d]) + i - v->box.lo[d], packed,
             pack);
    }
}

static void pack(const struct view *v, const struct hsp_box *c, uint8_t *to)
{
    walk(v, c, 0, 0, &to, true);
}

static void unpack(const struct view *v, const struct hsp_box *c, uint8_t *from)
{
    walk(v, c, 0, 0, &from, false);
}

static struct hsp_box running_box(const struct hsp_machine *m, const struct rank *r,
                                  const struct hsp_box *b, uint32_t micro)
{
    struct hsp_box x = *b;
    if (x.rank > 0 && x.hi[0] == HSP_TO_END) {
        x.hi[0] = micro_seqs(m, r, micro);
    }
    return x;
}

/* ---- messages ---- */

static struct lane *lane_of(struct hsp_machine *m, uint32_t channel, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < m->n_lanes; i++) {
        struct lane *l = &m->lane[i];
        if (l->channel == channel && l->from == from && l->to == to) {
            return l;
        }
    }
    if (m->n_lanes == m->cap_lanes) {
        m->cap_lanes = 2 * m->cap_lanes + 64;
        m->lane = realloc(m->lane, m->cap_lanes * sizeof *m->lane);
        assert_non_null(m->lane);
    }
    m->lane[m->n_lanes] = (struct lane){.channel = channel, .from = from, .to = to};
    return &m->lane[m->n_lanes++];
}

static void post(struct lane *l, const uint8_t *data, size_t bytes)
{
    if (l->n == l->cap) {
        l->cap = 2 * l->cap + 4;
        l->msg = realloc(l->msg, l->cap * sizeof *l->msg);
        assert_non_null(l->msg);
    }
    struct message *x = &l->msg[l->n++];
    x->data = malloc(bytes + 1);
    assert_non_null(x->data);
    memcpy(x->data, data, bytes);
    x->bytes = bytes;
}

struct move_run {
    struct hsp_machine *m;
    struct rank *r;
    const struct hsp_instr *i;
    const struct hsp_move *v;
    uint32_t micro;
};

static struct view source(const struct move_run *x)
{
    bool out = x->v->src == HSP_MOVE_FROM_OUT;
    return view_of(x->m, x->r, out ? x->i->out[0] : x->i->in[x->v->src], x->micro, out);
}

static uint32_t member(const struct hsp_move *v, uint32_t rank)
{
    for (uint32_t i = 0; i < v->n_ranks; i++) {
        if (v->ranks[i] == rank) {
            return i;
        }
    }
    fail_msg("rank %u is not in the group of channel %u", rank, v->channel);
    return 0;
}

/* Everything this rank gives to the move. */
static void arrive(struct move_run *x)
{
    uint32_t me = member(x->v, x->r->p->bind.rank), rank = x->r->p->bind.rank;
    x->m->count[(size_t)x->v->channel * x->m->n + rank]++;
    for (uint32_t k = 0; k < x->v->n_cells; k++) {
        const struct hsp_cell *c = &x->v->cells[k];
        struct hsp_box b = running_box(x->m, x->r, &c->box, x->micro);
        bool gives = x->v->kind == HSP_MOVE_ALL_REDUCE || x->v->kind == HSP_MOVE_REDUCE_SCATTER ||
                     c->root == me;
        uint32_t to = x->v->kind == HSP_MOVE_P2P ? x->v->ranks[c->peer] : rank;
        if (gives) {
            struct view v = source(x);
            size_t bytes = cell_bytes(&b, v.dtype);
            uint8_t *buf = malloc(bytes + 1);
            assert_non_null(buf);
            pack(&v, &b, buf);
            post(lane_of(x->m, x->v->channel, rank, to), buf, bytes);
            free(buf);
        }
    }
}

/* Messages a rank posts per execution of the move on its lane to @to. */
static uint32_t per_run(const struct hsp_move *v, uint32_t from, uint32_t to)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < v->n_cells; k++) {
        const struct hsp_cell *c = &v->cells[k];
        if (v->kind == HSP_MOVE_P2P) {
            n += v->ranks[c->root] == from && v->ranks[c->peer] == to ? 1 : 0;
        } else if (v->kind == HSP_MOVE_ALL_GATHER) {
            n += v->ranks[c->root] == from ? 1 : 0;
        } else {
            n++;
        }
    }
    return n;
}

static bool ready(const struct move_run *x)
{
    uint32_t rank = x->r->p->bind.rank;
    const uint32_t *count = &x->m->count[(size_t)x->v->channel * x->m->n];
    if (x->v->kind != HSP_MOVE_P2P) {
        for (uint32_t i = 0; i < x->v->n_ranks; i++) {
            if (count[x->v->ranks[i]] < count[rank]) {
                return false;
            }
        }
        return true;
    }
    for (uint32_t k = 0; k < x->v->n_cells; k++) {
        const struct hsp_cell *c = &x->v->cells[k];
        if (x->v->ranks[c->peer] == rank && count[x->v->ranks[c->root]] < count[rank]) {
            return false;
        }
    }
    return true;
}

/* The @k-th message of execution @run (from 1) from @from to @to. */
static const struct message *taken(const struct move_run *x, uint32_t from, uint32_t to,
                                   uint32_t run, uint32_t k)
{
    struct lane *l = lane_of(x->m, x->v->channel, from, to);
    uint32_t at = (run - 1) * per_run(x->v, from, to) + k;
    assert_true(at < l->n);
    return &l->msg[at];
}

/* Adds up or copies what this rank gets. */
static void take(struct move_run *x)
{
    uint32_t rank = x->r->p->bind.rank, me = member(x->v, rank);
    uint32_t run = x->m->count[(size_t)x->v->channel * x->m->n + rank];
    struct view out = view_of(x->m, x->r, x->i->out[0], x->micro, true);
    for (uint32_t k = 0; k < x->v->n_cells; k++) {
        const struct hsp_cell *c = &x->v->cells[k];
        struct hsp_box b = running_box(x->m, x->r, &c->box, x->micro);
        size_t bytes = cell_bytes(&b, out.dtype);
        bool p2p = x->v->kind == HSP_MOVE_P2P;
        bool gets = p2p ? c->peer == me : x->v->kind != HSP_MOVE_REDUCE_SCATTER || c->root == me;
        if (!gets) {
            continue;
        }
        if (p2p || x->v->kind == HSP_MOVE_ALL_GATHER) {
            uint32_t from = x->v->ranks[c->root], at = 0;
            for (uint32_t j = 0; j < k; j++) {
                const struct hsp_cell *d = &x->v->cells[j];
                at += d->root == c->root && (!p2p || d->peer == c->peer) ? 1 : 0;
            }
            const struct message *msg = taken(x, from, p2p ? rank : from, run, at);
            assert_int_equal(msg->bytes, bytes);
            unpack(&out, &b, msg->data);
            continue;
        }
        assert_int_equal(out.dtype, HSP_F64);
        double *sum = calloc(bytes / 8 + 1, 8);
        assert_non_null(sum);
        for (uint32_t i = 0; i < x->v->n_ranks; i++) {
            const struct message *msg = taken(x, x->v->ranks[i], x->v->ranks[i], run, k);
            assert_int_equal(msg->bytes, bytes);
            for (size_t e = 0; e < bytes / 8; e++) {
                double v;
                memcpy(&v, msg->data + 8 * e, 8);
                sum[e] += v;
            }
        }
        unpack(&out, &b, (uint8_t *)sum);
        free(sum);
    }
}

static void copy_cells(const struct move_run *x)
{
    for (uint32_t k = 0; k < x->v->n_cells; k++) {
        struct hsp_box b = running_box(x->m, x->r, &x->v->cells[k].box, x->micro);
        struct view from = source(x), to = view_of(x->m, x->r, x->i->out[0], x->micro, true);
        uint8_t *buf = malloc(cell_bytes(&b, from.dtype) + 1);
        assert_non_null(buf);
        pack(&from, &b, buf);
        unpack(&to, &b, buf);
        free(buf);
    }
}

/* ---- instructions ---- */

static struct hsp_array array_of(const struct view *v)
{
    struct hsp_array a = {.data = v->data, .dtype = (enum hsp_dtype)v->dtype, .rank = v->box.rank};
    for (uint8_t d = 0; d < a.rank; d++) {
        a.ext[d] = v->box.hi[d] - v->box.lo[d];
    }
    return a;
}

static uint32_t param_of(const struct rank *r, uint32_t tensor)
{
    for (uint32_t i = 0; i < r->p->bind.n_state; i++) {
        if (r->p->bind.state[i].tensor == tensor) {
            return r->p->bind.state[i].tensor_id;
        }
    }
    fail_msg("tensor %u is no state", tensor);
    return 0;
}

static void keep_grad(struct rank *r, const struct hsp_instr *i, const struct hsp_array *grad,
                      const struct view *v)
{
    uint32_t p = param_of(r, i->in[0]);
    size_t bytes = (size_t)hsp_naive_count(grad) * 8;
    assert_true(p < MAX_PARAMS);
    free(r->grad[p]);
    r->grad[p] = malloc(bytes + 1);
    assert_non_null(r->grad[p]);
    memcpy(r->grad[p], grad->data, bytes);
    r->grad_box[p] = v->box;
}

static void run_op(struct hsp_machine *m, struct rank *r, const struct hsp_instr *i, uint32_t micro)
{
    struct hsp_array in[HSP_MAX_IN], out[HSP_MAX_OUT];
    struct hsp_call c = {.op = (enum hsp_op)i->op,
                         .at = &i->at,
                         .n_in = i->n_in,
                         .n_out = i->n_out,
                         .in = in,
                         .out = out,
                         .update = m->scalars};
    struct view v = {0};
    for (uint8_t k = 0; k < i->n_in; k++) {
        v = view_of(m, r, i->in[k], micro, false);
        in[k] = array_of(&v);
    }
    if (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM) {
        assert_int_equal(r->votes, 1);
        keep_grad(r, i, &in[i->n_in - 1], &v);
    }
    for (uint8_t k = 0; k < i->n_out; k++) {
        v = view_of(m, r, i->out[k], micro, true);
        out[k] = array_of(&v);
    }
    for (int k = 0; k < 2; k++) {
        c.origin[k] = i->origin_sym[k] == UINT32_MAX ? 0 : r->p->bind.symbol[i->origin_sym[k]];
    }
    hsp_naive_op(&c);
}

static void run_simple(struct hsp_machine *m, struct rank *r, const struct hsp_instr *i,
                       uint32_t micro)
{
    struct view v = {0};
    struct hsp_array out = {0}, in = {0};
    if (i->n_out > 0) {
        v = view_of(m, r, i->out[0], micro, true);
        out = array_of(&v);
    }
    if (i->n_in > 0) {
        v = view_of(m, r, i->in[0], micro, false);
        in = array_of(&v);
    }
    if (i->kind == HSP_I_LOAD) {
        uint32_t first = micro_first(m, r, micro);
        for (int64_t k = 0; k < hsp_naive_count(&out); k++) {
            hsp_naive_put(&out, k,
                          m->input((uint8_t)i->arg, m->eval, first + (uint32_t)(k / out.ext[1]),
                                   k % out.ext[1]));
        }
    } else if (i->kind == HSP_I_STAT) {
        r->stat[i->arg] += hsp_naive_get(&in, 0);
    }
    for (int64_t k = 0; k < (i->n_out > 0 ? hsp_naive_count(&out) : 0); k++) {
        if (i->kind == HSP_I_ZERO || i->kind == HSP_I_ONE) {
            hsp_naive_put(&out, k, i->kind == HSP_I_ONE ? 1 : 0);
        } else if (i->kind == HSP_I_ACC) {
            hsp_naive_put(&out, k, hsp_naive_get(&out, k) + hsp_naive_get(&in, k));
        }
    }
}

/* Goes on with a Reshard; true when it is complete. */
static bool run_reshard(struct hsp_machine *m, struct rank *r, const struct hsp_instr *i,
                        struct running *at, uint32_t micro)
{
    const struct hsp_reshard_bind *b = &r->p->bind.reshard[i->arg];
    if (at->move == 0 && !at->arrived && b->zero_first) {
        struct view v = view_of(m, r, i->out[0], micro, true);
        memset(v.data, 0, cell_bytes(&v.box, v.dtype));
    }
    if (at->move >= b->n_moves) {
        return true;
    }
    struct move_run x = {.m = m, .r = r, .i = i, .v = &b->moves[at->move], .micro = micro};
    if (x.v->kind == HSP_MOVE_COPY) {
        copy_cells(&x);
    } else if (!at->arrived) {
        arrive(&x);
        at->arrived = true;
        return false;
    } else if (!ready(&x)) {
        return false;
    } else {
        take(&x);
    }
    at->move++;
    at->arrived = false;
    return at->move >= b->n_moves;
}

/* Goes on with the running instruction; true when it is complete. */
static bool run_instr(struct hsp_machine *m, struct rank *r, const struct hsp_instr *i,
                      struct running *at, uint32_t micro)
{
    bool fresh = at->move == 0 && !at->arrived;
    for (uint8_t k = 0; fresh && k < i->n_in; k++) {
        check_read(r, i->in[k], micro);
    }
    if (fresh && i->kind == HSP_I_ACC) {
        check_read(r, i->out[0], micro);
    }
    for (uint8_t k = 0; fresh && k < i->n_out && !only_sends(i); k++) {
        mark_write(r, i->out[k], micro);
    }
    switch ((enum hsp_instr_kind)i->kind) {
    case HSP_I_OP: run_op(m, r, i, micro); return true;
    case HSP_I_RESHARD: return run_reshard(m, r, i, at, micro);
    case HSP_I_VOTE:
        if (!at->arrived) {
            at->arrived = true;
            r->votes++;
        }
        for (uint32_t k = 0; k < m->n; k++) {
            if (m->r[k].votes < r->votes) {
                return false;
            }
        }
        return true;
    case HSP_I_LOAD:
    case HSP_I_ZERO:
    case HSP_I_ONE:
    case HSP_I_ACC:
    case HSP_I_STAT: run_simple(m, r, i, micro); return true;
    case HSP_I_SEAL: return true;
    }
    return true;
}

/* One small step of a queue; false: it cannot go on now. */
static bool advance(struct hsp_machine *m, struct rank *r, int queue)
{
    const struct hsp_sched *s = sched_of(m, r);
    struct running *at = &r->run[queue];
    if (r->done[queue] >= s->n[queue]) {
        return false;
    }
    const struct hsp_sched_entry *e = &s->e[queue][r->done[queue]];
    const struct hsp_piece *q = &r->p->tpl.pieces[e->piece];
    if (!at->active) {
        if (e->wait > r->done[1 - queue]) {
            return false;
        }
        *at = (struct running){.active = true};
        check_race(m, r, queue);
    }
    bool arrived = at->arrived;
    uint32_t move = at->move;
    if (!run_instr(m, r, &r->p->tpl.instrs[q->first + at->instr], at, e->micro)) {
        return at->arrived != arrived || at->move != move;
    }
    at->instr++;
    at->move = 0;
    at->arrived = false;
    if (at->instr == q->n) {
        at->active = false;
        r->done[queue]++;
    }
    return true;
}

static void reset(struct hsp_machine *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        struct rank *r = &m->r[i];
        memset(r->done, 0, sizeof r->done);
        memset(r->run, 0, sizeof r->run);
        memset(r->stat, 0, sizeof r->stat);
        r->votes = 0;
        size_t blocks = (size_t)r->p->bind.memory_bytes / BLOCK;
        for (size_t k = 0; k < blocks; k++) {
            r->tag[k] = 0;
        }
        for (size_t k = 0; k < (size_t)r->p->bind.memory_bytes / 8; k++) {
            ((double *)(void *)r->mem)[k] = NAN; /* what is read before it is written shows */
        }
    }
    for (uint32_t i = 0; i < m->n_lanes; i++) {
        for (uint32_t k = 0; k < m->lane[i].n; k++) {
            free(m->lane[i].msg[k].data);
        }
        free(m->lane[i].msg);
    }
    m->n_lanes = 0;
    memset(m->count, 0, (size_t)m->n_channels * m->n * sizeof *m->count);
}

void hsp_machine_run(struct hsp_machine *m, bool eval, uint64_t step,
                     const struct hsp_update_scalars *scalars)
{
    m->eval = eval;
    m->step = step;
    m->scalars = scalars;
    reset(m);
    for (bool moved = true; moved;) {
        moved = false;
        uint64_t start = hsp_test_rand("machine", m->seed + m->draw++);
        for (uint32_t i = 0; i < 2 * m->n; i++) {
            uint32_t k = (uint32_t)((start + i) % (2 * (uint64_t)m->n));
            uint64_t burst = 1 + (start >> (i % 32)) % 5; /* uneven speeds */
            while (burst-- > 0 && advance(m, &m->r[k / 2], (int)(k % 2))) {
                moved = true;
            }
        }
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const struct hsp_sched *s = sched_of(m, &m->r[i]);
        assert_int_equal(m->r[i].done[0], s->n[0]);
        assert_int_equal(m->r[i].done[1], s->n[1]);
    }
}

double hsp_machine_stat(const struct hsp_machine *m, uint8_t stat)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        sum += m->r[i].stat[stat];
    }
    return sum;
}

/* ---- state ---- */

static uint8_t *zalloc(int64_t bytes)
{
    void *p = NULL;
    size_t n = (size_t)bytes + 64;
    assert_int_equal(posix_memalign(&p, 64, n), 0);
    memset(p, 0, n);
    return p;
}

struct hsp_machine *hsp_machine_new(const struct hsp_program *p, uint32_t n, uint64_t seed,
                                    hsp_machine_input input)
{
    struct hsp_machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (struct hsp_machine){.n = n, .seed = seed, .input = input};
    m->r = calloc(n, sizeof *m->r);
    assert_non_null(m->r);
    for (uint32_t i = 0; i < n; i++) {
        struct rank *r = &m->r[i];
        r->p = &p[i];
        r->mem = zalloc(p[i].bind.memory_bytes);
        r->state[0] = zalloc(p[i].bind.state_bytes);
        r->state[1] = zalloc(p[i].bind.state_bytes);
        r->tag = calloc((size_t)p[i].bind.memory_bytes / BLOCK + 1, sizeof *r->tag);
        r->grad = calloc(MAX_PARAMS, sizeof *r->grad);
        r->grad_box = calloc(MAX_PARAMS, sizeof *r->grad_box);
        assert_non_null(r->tag);
        assert_non_null(r->grad);
        assert_non_null(r->grad_box);
        for (uint32_t k = 0; k < p[i].bind.n_reshards; k++) {
            const struct hsp_reshard_bind *b = &p[i].bind.reshard[k];
            for (uint32_t j = 0; j < b->n_moves; j++) {
                uint32_t c = b->moves[j].channel + 1;
                m->n_channels = c > m->n_channels ? c : m->n_channels;
            }
        }
    }
    m->count = calloc((size_t)m->n_channels * n + 1, sizeof *m->count);
    assert_non_null(m->count);
    return m;
}

void hsp_machine_free(struct hsp_machine *m)
{
    reset(m);
    for (uint32_t i = 0; i < m->n; i++) {
        struct rank *r = &m->r[i];
        for (uint32_t k = 0; k < MAX_PARAMS; k++) {
            free(r->grad[k]);
        }
        free(r->grad);
        free(r->grad_box);
        free(r->mem);
        free(r->state[0]);
        free(r->state[1]);
        free(r->tag);
    }
    free(m->r);
    free(m->lane);
    free(m->count);
    free(m);
}

/* Row-major number in the whole tensor of element @i of @box. */
static int64_t whole_index(const struct hsp_array *whole, const struct hsp_box *box, int64_t i)
{
    int64_t at = 0, scale = 1;
    for (uint8_t d = box->rank; d-- > 0;) {
        int64_t ext = box->hi[d] - box->lo[d];
        at += (box->lo[d] + i % ext) * scale;
        i /= ext;
        scale *= whole->ext[d];
    }
    return at;
}

/* The state tensor of a rank, data NULL when it holds none. */
static struct view state_view(const struct rank *r, uint32_t param, uint8_t kind, uint64_t version)
{
    for (uint32_t i = 0; i < r->p->bind.n_state; i++) {
        const struct hsp_state_bind *s = &r->p->bind.state[i];
        const struct hsp_tensor_bind *t = &r->p->bind.tensor[s->tensor];
        if (s->tensor_id == param && r->p->tpl.tensors[s->tensor].state_kind == kind) {
            return (struct view){.data = r->state[version % 2] + t->offset,
                                 .box = t->box,
                                 .dtype = r->p->tpl.tensors[s->tensor].dtype};
        }
    }
    return (struct view){0};
}

void hsp_machine_set_state(struct hsp_machine *m, uint32_t param, uint8_t kind,
                           const struct hsp_array *whole)
{
    for (uint32_t i = 0; i < m->n; i++) {
        struct view v = state_view(&m->r[i], param, kind, 0);
        if (v.data != NULL) {
            struct hsp_array a = array_of(&v);
            for (int64_t k = 0; k < hsp_naive_count(&a); k++) {
                hsp_naive_put(&a, k, hsp_naive_get(whole, whole_index(whole, &v.box, k)));
            }
        }
    }
}

/* Folds |a - whole| into *worst and marks the elements as seen. */
static void fold(const struct hsp_array *a, const struct hsp_box *box,
                 const struct hsp_array *whole, bool *seen, double *worst)
{
    for (int64_t k = 0; k < hsp_naive_count(a); k++) {
        int64_t at = whole_index(whole, box, k);
        double e = fabs(hsp_naive_get(a, k) - hsp_naive_get(whole, at));
        *worst = e > *worst || isnan(e) ? e : *worst;
        seen[at] = true;
    }
}

static double all_seen(const struct hsp_array *whole, bool *seen, double worst)
{
    for (int64_t k = 0; k < hsp_naive_count(whole); k++) {
        worst = seen[k] ? worst : -1;
    }
    free(seen);
    return worst;
}

double hsp_machine_state_error(const struct hsp_machine *m, uint32_t param, uint8_t kind,
                               uint64_t version, const struct hsp_array *whole)
{
    bool *seen = calloc((size_t)hsp_naive_count(whole) + 1, sizeof *seen);
    double worst = 0;
    assert_non_null(seen);
    for (uint32_t i = 0; i < m->n; i++) {
        struct view v = state_view(&m->r[i], param, kind, version);
        if (v.data != NULL) {
            struct hsp_array a = array_of(&v);
            fold(&a, &v.box, whole, seen, &worst);
        }
    }
    return all_seen(whole, seen, worst);
}

double hsp_machine_grad_error(const struct hsp_machine *m, uint32_t param,
                              const struct hsp_array *whole)
{
    bool *seen = calloc((size_t)hsp_naive_count(whole) + 1, sizeof *seen);
    double worst = 0;
    assert_non_null(seen);
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->r[i].grad[param] != NULL) {
            struct view v = {.data = (uint8_t *)m->r[i].grad[param],
                             .box = m->r[i].grad_box[param],
                             .dtype = HSP_F64};
            struct hsp_array a = array_of(&v);
            fold(&a, &v.box, whole, seen, &worst);
        }
    }
    return all_seen(whole, seen, worst);
}

bool hsp_machine_replicas_equal(const struct hsp_machine *m, uint32_t param, uint8_t kind,
                                uint64_t version)
{
    for (uint32_t i = 0; i < m->n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            struct view a = state_view(&m->r[i], param, kind, version);
            struct view b = state_view(&m->r[j], param, kind, version);
            struct hsp_box both;
            if (a.data == NULL || b.data == NULL || !hsp_box_cut(&a.box, &b.box, &both)) {
                continue;
            }
            size_t bytes = cell_bytes(&both, a.dtype);
            uint8_t *x = malloc(2 * bytes + 1);
            assert_non_null(x);
            pack(&a, &both, x);
            pack(&b, &both, x + bytes);
            bool same = memcmp(x, x + bytes, bytes) == 0;
            free(x);
            if (!same) {
                return false;
            }
        }
    }
    return true;
}
