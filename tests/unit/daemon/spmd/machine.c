#include "tests/unit/daemon/spmd/machine_impl.h"

#include <math.h>

#include "proto/layout/box.h"
#include "proto/program/micro_size.h"
#include "proto/program/sheet.h"
#include "tests/lib/testlib.h"

static const struct hsp_sched *sched_of(const struct hsp_machine *m, const struct machine_rank *r)
{
    return m->eval ? &r->p->bind.eval : &r->p->bind.train;
}

static uint32_t micro_seqs(const struct hsp_machine *m, const struct machine_rank *r,
                           uint32_t micro)
{
    const struct hsp_pipeline_bind *s = &r->p->bind.pipeline;
    return m->eval ? hsp_micro_size(s->eval_n_seq, s->eval_n_micro, micro)
                   : hsp_micro_size(s->n_seq, s->n_micro, micro);
}

static uint32_t micro_first(const struct hsp_machine *m, const struct machine_rank *r,
                            uint32_t micro)
{
    uint32_t at = m->eval ? r->p->bind.pipeline.eval_first : r->p->bind.pipeline.first_seq;
    for (uint32_t i = 0; i < micro; i++) {
        at += micro_seqs(m, r, i);
    }
    return at;
}

static struct machine_view view_of(const struct hsp_machine *m, const struct machine_rank *r,
                                   uint32_t tensor, uint32_t micro)
{
    const struct hsp_tensor_bind *b = &r->p->bind.tensor[tensor];
    struct machine_view v = {.box = b->box,
                             .dtype = machine_dtype(r->p->tpl.tensors[tensor].dtype)};
    if (r->p->tpl.tensors[tensor].cls == HSP_CLASS_STATE) {
        v.data = r->state + WIDE * b->offset;
    } else {
        uint8_t *area = r->p->tpl.tensors[tensor].cls == HSP_CLASS_HOST ? r->host : r->mem;
        v.data = area + WIDE * (b->offset + (int64_t)(micro % b->n_slots) * b->slot_bytes);
    }
    if (b->batch_dim0) {
        v.box.hi[0] = micro_seqs(m, r, micro);
    }
    return v;
}

/* ---- tags ---- */

static uint64_t tag_of(const struct machine_rank *r, uint32_t tensor, uint32_t micro)
{
    bool step = r->p->tpl.tensors[tensor].cls == HSP_CLASS_STEP;
    return ((uint64_t)tensor + 1) << 32 | (step ? 0 : micro);
}

/* Where it lies: the host's memory is behind the device's, the state behind both. */
static void bytes_span(const struct machine_rank *r, uint32_t tensor, uint32_t micro, int64_t *lo,
                       int64_t *hi)
{
    const struct hsp_binding *all = &r->p->bind;
    const struct hsp_tensor_bind *b = &all->tensor[tensor];
    uint8_t cls = r->p->tpl.tensors[tensor].cls;
    int64_t area = cls == HSP_CLASS_HOST    ? all->memory_bytes
                   : cls == HSP_CLASS_STATE ? all->memory_bytes + all->host_bytes
                                            : 0;
    *lo = (area + b->offset + (int64_t)(micro % b->n_slots) * b->slot_bytes) / BLOCK;
    *hi = *lo + (b->slot_bytes + BLOCK - 1) / BLOCK;
}

/* The same for tensors with tags: state always holds the values of its name. */
static void tag_span(const struct machine_rank *r, uint32_t tensor, uint32_t micro, int64_t *lo,
                     int64_t *hi)
{
    bytes_span(r, tensor, micro, lo, hi);
    if (r->p->tpl.tensors[tensor].cls == HSP_CLASS_STATE) {
        *hi = *lo;
    }
}

static void check_read(const struct machine_rank *r, uint32_t tensor, uint32_t micro)
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

static void mark_write(const struct machine_rank *r, uint32_t tensor, uint32_t micro)
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
static bool clash(const struct machine_rank *r, const struct hsp_instr *a, uint32_t ma,
                  const struct hsp_instr *b, uint32_t mb)
{
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        for (int k = 0; k < b->n_in + b->n_out; k++) {
            bool wa = i >= a->n_in && !only_sends(a), wb = k >= b->n_in && !only_sends(b);
            int64_t l1, h1, l2, h2;
            bytes_span(r, i < a->n_in ? a->in[i] : a->out[i - a->n_in], ma, &l1, &h1);
            bytes_span(r, k < b->n_in ? b->in[k] : b->out[k - b->n_in], mb, &l2, &h2);
            if ((wa || wb) && l1 < h1 && l2 < h2 && l1 < h2 && l2 < h1) {
                return true;
            }
        }
    }
    return false;
}

static void check_race(const struct hsp_machine *m, const struct machine_rank *r, int queue)
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

static struct hsp_box running_box(const struct hsp_machine *m, const struct machine_rank *r,
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
    struct machine_rank *r;
    const struct hsp_instr *i;
    const struct hsp_move *v;
    uint32_t micro;
};

static struct machine_view source(const struct move_run *x)
{
    bool out = x->v->src == HSP_MOVE_FROM_OUT;
    return view_of(x->m, x->r, out ? x->i->out[0] : x->i->in[x->v->src], x->micro);
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
                     (x->v->kind == HSP_MOVE_REDUCE_SEND ? c->peer != me : c->root == me);
        uint32_t to = x->v->kind == HSP_MOVE_P2P ? x->v->ranks[c->peer] : rank;
        if (gives) {
            struct machine_view v = source(x);
            size_t bytes = machine_cell_bytes(&b, v.dtype);
            uint8_t *buf = malloc(bytes + 1);
            assert_non_null(buf);
            machine_pack(&v, &b, buf);
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
        /* a sum that is sent on is sent to somebody who may come later */
        bool sent_on = x->v->kind == HSP_MOVE_REDUCE_SEND && x->v->n_cells > 0;
        for (uint32_t i = 0; i < x->v->n_ranks; i++) {
            bool later = sent_on && x->v->cells[0].peer == i;
            if (count[x->v->ranks[i]] < count[rank] && !later) {
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

/* Adds up or copies the data that this rank gets. */
static void take(struct move_run *x)
{
    uint32_t rank = x->r->p->bind.rank, me = member(x->v, rank);
    uint32_t run = x->m->count[(size_t)x->v->channel * x->m->n + rank];
    struct machine_view out = view_of(x->m, x->r, x->i->out[0], x->micro);
    for (uint32_t k = 0; k < x->v->n_cells; k++) {
        const struct hsp_cell *c = &x->v->cells[k];
        struct hsp_box b = running_box(x->m, x->r, &c->box, x->micro);
        size_t bytes = machine_cell_bytes(&b, out.dtype);
        bool p2p = x->v->kind == HSP_MOVE_P2P;
        bool handed = p2p || x->v->kind == HSP_MOVE_REDUCE_SEND;
        bool gets = handed ? c->peer == me : x->v->kind != HSP_MOVE_REDUCE_SCATTER || c->root == me;
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
            machine_unpack(&out, &b, msg->data);
            continue;
        }
        assert_int_equal(out.dtype, HSP_F64);
        double *sum = calloc(bytes / 8 + 1, 8);
        assert_non_null(sum);
        for (uint32_t i = 0; i < x->v->n_ranks; i++) {
            if (handed && i == me) {
                continue; /* it adds nothing itself */
            }
            const struct message *msg = taken(x, x->v->ranks[i], x->v->ranks[i], run, k);
            assert_int_equal(msg->bytes, bytes);
            for (size_t e = 0; e < bytes / 8; e++) {
                double v;
                memcpy(&v, msg->data + 8 * e, 8);
                bool max = x->v->reduce == HSP_REDUCE_MAX, first = i == (handed && me == 0 ? 1 : 0);
                sum[e] = !max ? sum[e] + v : first || v > sum[e] ? v : sum[e];
            }
        }
        machine_unpack(&out, &b, (uint8_t *)sum);
        free(sum);
    }
}

static void copy_cells(const struct move_run *x)
{
    for (uint32_t k = 0; k < x->v->n_cells; k++) {
        struct hsp_box b = running_box(x->m, x->r, &x->v->cells[k].box, x->micro);
        struct machine_view from = source(x), to = view_of(x->m, x->r, x->i->out[0], x->micro);
        uint8_t *buf = malloc(machine_cell_bytes(&b, from.dtype) + 1);
        assert_non_null(buf);
        machine_pack(&from, &b, buf);
        machine_unpack(&to, &b, buf);
        free(buf);
    }
}

/* ---- instructions ---- */

static uint32_t state_of(const struct machine_rank *r, uint32_t tensor)
{
    for (uint32_t i = 0; i < r->p->bind.n_state; i++) {
        if (r->p->bind.state[i].tensor == tensor) {
            return i;
        }
    }
    fail_msg("tensor %u is no state", tensor);
    return 0;
}

static void keep_grad(struct machine_rank *r, const struct hsp_instr *i,
                      const struct hsp_array *grad, const struct machine_view *v)
{
    uint32_t p = state_of(r, i->in[0]);
    size_t bytes = (size_t)hsp_naive_count(grad) * 8;
    free(r->grad[p]);
    r->grad[p] = malloc(bytes + 1);
    assert_non_null(r->grad[p]);
    memcpy(r->grad[p], grad->data, bytes);
    r->grad_box[p] = v->box;
}

static void run_op(struct hsp_machine *m, struct machine_rank *r, const struct hsp_instr *i,
                   uint32_t micro)
{
    struct hsp_array in[HSP_MAX_IN], out[HSP_MAX_OUT];
    struct hsp_attrs at = hsp_instr_attrs(i, r->p->bind.symbol);
    struct hsp_call c = {.op = (enum hsp_op)i->op,
                         .at = &at,
                         .n_in = i->n_in,
                         .n_out = i->n_out,
                         .in = in,
                         .out = out,
                         .update = m->scalars};
    struct machine_view v = {0};
    for (uint8_t k = 0; k < i->n_in; k++) {
        v = view_of(m, r, i->in[k], micro);
        in[k] = machine_array(&v);
    }
    if (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM) {
        assert_int_equal(r->votes, 1);
        keep_grad(r, i, &in[i->n_in - 1], &v);
    }
    for (uint8_t k = 0; k < i->n_out; k++) {
        v = view_of(m, r, i->out[k], micro);
        out[k] = machine_array(&v);
    }
    for (int k = 0; k < 2; k++) {
        c.origin[k] = i->origin_sym[k] == UINT32_MAX ? 0 : r->p->bind.symbol[i->origin_sym[k]];
    }
    hsp_naive_op(&c);
}

/* Only tensors in the host's memory are copied, to or from the device, whole. */
static void run_copy(struct hsp_machine *m, struct machine_rank *r, const struct hsp_instr *i,
                     uint32_t micro)
{
    struct machine_view from = view_of(m, r, i->in[0], micro);
    struct machine_view to = view_of(m, r, i->out[0], micro);
    bool out = r->p->tpl.tensors[i->in[0]].cls == HSP_CLASS_HOST;
    assert_true(out != (r->p->tpl.tensors[i->out[0]].cls == HSP_CLASS_HOST));
    assert_true(hsp_box_equal(&from.box, &to.box));
    assert_int_equal(from.dtype, to.dtype);
    memcpy(to.data, from.data, machine_cell_bytes(&to.box, to.dtype));
}

static void run_simple(struct hsp_machine *m, struct machine_rank *r, const struct hsp_instr *i,
                       uint32_t micro)
{
    struct machine_view v = {0};
    struct hsp_array out = {0}, in = {0};
    if (i->n_out > 0) {
        v = view_of(m, r, i->out[0], micro);
        out = machine_array(&v);
    }
    if (i->n_in > 0) {
        v = view_of(m, r, i->in[0], micro);
        in = machine_array(&v);
    }
    if (i->kind == HSP_I_LOAD) {
        uint32_t first = micro_first(m, r, micro) + (uint32_t)v.box.lo[0];
        assert_true(v.box.hi[0] <= micro_seqs(m, r, micro));
        for (int64_t k = 0; k < hsp_naive_count(&out); k++) {
            hsp_naive_put(&out, k,
                          m->input((uint8_t)i->arg, m->eval, first + (uint32_t)(k / out.ext[1]),
                                   v.box.lo[1] + k % out.ext[1]));
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
static bool run_reshard(struct hsp_machine *m, struct machine_rank *r, const struct hsp_instr *i,
                        struct running *at, uint32_t micro)
{
    const struct hsp_reshard_bind *b = &r->p->bind.reshard[i->arg];
    if (at->move == 0 && !at->arrived && b->zero_first) {
        struct machine_view v = view_of(m, r, i->out[0], micro);
        memset(v.data, 0, machine_cell_bytes(&v.box, v.dtype));
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
static bool run_instr(struct hsp_machine *m, struct machine_rank *r, const struct hsp_instr *i,
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
    case HSP_I_COPY: run_copy(m, r, i, micro); return true;
    case HSP_I_SEAL: return true;
    }
    return true;
}

/* One small step of a queue; false: it cannot go on now. */
static bool advance(struct hsp_machine *m, struct machine_rank *r, int queue)
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

void machine_reset(struct hsp_machine *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        struct machine_rank *r = &m->r[i];
        memset(r->done, 0, sizeof r->done);
        memset(r->run, 0, sizeof r->run);
        memset(r->stat, 0, sizeof r->stat);
        r->votes = 0;
        size_t blocks = (size_t)(r->p->bind.memory_bytes + r->p->bind.host_bytes) / BLOCK;
        for (size_t k = 0; k < blocks; k++) {
            r->tag[k] = 0;
        }
        for (size_t k = 0; k < (size_t)r->p->bind.memory_bytes / 8 * WIDE; k++) {
            ((double *)(void *)r->mem)[k] = NAN; /* a read before the write shows */
        }
        for (size_t k = 0; k < (size_t)r->p->bind.host_bytes / 8 * WIDE; k++) {
            ((double *)(void *)r->host)[k] = NAN;
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

void hsp_machine_run(struct hsp_machine *m, bool eval, const struct hsp_update_scalars *scalars)
{
    m->eval = eval;
    m->scalars = scalars;
    machine_reset(m);
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
