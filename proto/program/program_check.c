#include "proto/program/program_check.h"

#include <inttypes.h> /* PRId64 */
#include <string.h>

#include "proto/base/size.h"
#include "proto/layout/box.h"

/* ---- template ---- */

static enum hsp_status check_tensors(const struct hsp_template *t, struct hsp_err *err)
{
    for (uint32_t k = 0; k < t->n_tensors; k++) {
        const struct hsp_ptensor *p = &t->tensors[k];
        if (p->dtype >= HSP_N_DTYPES || p->cls > HSP_CLASS_HOST || p->rank > HSP_MAX_RANK ||
            p->state_kind >= HSP_N_STATE_KINDS) {
            return hsp_err_set(err, HSP_EPARSE, 0, "tensor %u %s: unknown type or class", k,
                               p->name);
        }
        for (uint8_t d = 0; d < p->rank; d++) {
            if (p->sym[d] >= t->n_symbols) {
                return hsp_err_set(err, HSP_EPARSE, 0, "tensor %u %s: symbol %u of %u", k, p->name,
                                   p->sym[d], t->n_symbols);
            }
            if (d > 0 && p->sym[d] == HSP_SYM_BATCH) {
                return hsp_err_set(err, HSP_EPARSE, 0, "tensor %u %s: batch in dim %u", k, p->name,
                                   d);
            }
        }
        if (p->cls == HSP_CLASS_STATE && p->rank > 0 && p->sym[0] == HSP_SYM_BATCH) {
            return hsp_err_set(err, HSP_EPARSE, 0, "state tensor %u %s: batch extent", k, p->name);
        }
    }
    return HSP_OK;
}

static bool operand_counts(const struct hsp_template *t, const struct hsp_instr *i)
{
    switch ((enum hsp_instr_kind)i->kind) {
    case HSP_I_OP:
        return i->op < HSP_N_OPS && i->n_in == hsp_op_n_in((enum hsp_op)i->op) &&
               i->n_out == hsp_op_n_out((enum hsp_op)i->op);
    case HSP_I_LOAD:
        return i->n_in == 0 && i->n_out == 1 && i->arg <= HSP_LOAD_STARTS &&
               t->tensors[i->out[0]].dtype == HSP_I32 && t->tensors[i->out[0]].rank == 2;
    case HSP_I_ZERO:
    case HSP_I_ONE: return i->n_in == 0 && i->n_out == 1;
    case HSP_I_ACC: return i->n_in == 1 && i->n_out == 1;
    case HSP_I_RESHARD: return i->arg < t->n_reshards && i->n_out == 1 && i->n_in <= HSP_MAX_IN;
    case HSP_I_STAT: return i->n_in == 1 && i->n_out == 0 && i->arg < HSP_N_STATS;
    case HSP_I_VOTE: return i->n_in == 0 && i->n_out == 0 && i->queue == HSP_QUEUE_COMM;
    case HSP_I_SEAL: return i->n_in == 0 && i->n_out == 0;
    case HSP_I_COPY: return i->n_in == 1 && i->n_out == 1;
    }
    return false;
}

/* Host memory is where copies to and from the device's begin or end, and nothing else. */
static bool classes_agree(const struct hsp_template *t, const struct hsp_instr *i)
{
    uint32_t hosts = 0;
    for (uint8_t o = 0; o < i->n_in + i->n_out; o++) {
        uint32_t x = o < i->n_in ? i->in[o] : i->out[o - i->n_in];
        hosts += t->tensors[x].cls == HSP_CLASS_HOST ? 1 : 0;
    }
    if (i->kind != HSP_I_COPY) {
        return hosts == 0;
    }
    const struct hsp_ptensor *a = &t->tensors[i->in[0]], *b = &t->tensors[i->out[0]];
    bool same = hosts == 1 && a->cls != HSP_CLASS_STATE && b->cls != HSP_CLASS_STATE &&
                a->dtype == b->dtype && a->rank == b->rank;
    for (uint8_t d = 0; same && d < a->rank; d++) {
        same = a->sym[d] == b->sym[d];
    }
    return same;
}

static bool dtypes_agree(const struct hsp_template *t, const struct hsp_instr *i)
{
    if (i->kind == HSP_I_OP) {
        uint8_t dtype[HSP_MAX_IN + HSP_MAX_OUT], wrong = 0;
        enum hsp_dtype real = HSP_F32;
        for (uint8_t k = 0; k < i->n_in + i->n_out; k++) {
            dtype[k] = t->tensors[k < i->n_in ? i->in[k] : i->out[k - i->n_in]].dtype;
        }
        return hsp_op_real((enum hsp_op)i->op, dtype, &real, &wrong);
    }
    if (i->kind != HSP_I_RESHARD && i->kind != HSP_I_ACC) {
        return true;
    }
    for (uint8_t k = 0; k < i->n_in; k++) {
        if (t->tensors[i->in[k]].dtype != t->tensors[i->out[0]].dtype ||
            t->tensors[i->in[k]].rank != t->tensors[i->out[0]].rank) {
            return false;
        }
    }
    return true;
}

static enum hsp_status check_instrs(const struct hsp_template *t, struct hsp_err *err)
{
    for (uint32_t k = 0; k < t->n_instrs; k++) {
        const struct hsp_instr *i = &t->instrs[k];
        if (i->kind > HSP_I_COPY || i->queue >= HSP_N_QUEUES || i->n_in > HSP_MAX_IN ||
            i->n_out > HSP_MAX_OUT) {
            return hsp_err_set(err, HSP_EPARSE, 0, "instruction %u: unknown kind or queue", k);
        }
        for (uint8_t o = 0; o < i->n_in + i->n_out; o++) {
            uint32_t x = o < i->n_in ? i->in[o] : i->out[o - i->n_in];
            if (x >= t->n_tensors) {
                return hsp_err_set(err, HSP_EPARSE, 0, "instruction %u: tensor %u of %u", k, x,
                                   t->n_tensors);
            }
        }
        if (!operand_counts(t, i) || !dtypes_agree(t, i) || !classes_agree(t, i)) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "instruction %u (kind %u): operands do not fit the instruction", k,
                               i->kind);
        }
        if (i->unit_sym >= t->n_symbols) {
            return hsp_err_set(err, HSP_EPARSE, 0, "instruction %u: unit symbol %u of %u", k,
                               i->unit_sym, t->n_symbols);
        }
        for (int o = 0; o < 2; o++) {
            if (i->origin_sym[o] != UINT32_MAX && i->origin_sym[o] >= t->n_symbols) {
                return hsp_err_set(err, HSP_EPARSE, 0, "instruction %u: origin symbol %u of %u", k,
                                   i->origin_sym[o], t->n_symbols);
            }
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_template_check(const struct hsp_template *t, struct hsp_err *err)
{
    if (t->n_symbols == 0 || t->n_symbols > HSP_MAX_SYMBOLS || t->n_tensors > HSP_MAX_TENSORS ||
        t->n_instrs > HSP_MAX_INSTRS || t->n_pieces > HSP_MAX_INSTRS ||
        t->n_segments > HSP_MAX_SEGMENTS || t->n_reshards > HSP_MAX_INSTRS) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "template: too many parts, or no symbols");
    }
    enum hsp_status st = check_tensors(t, err);
    if (st == HSP_OK) {
        st = check_instrs(t, err);
    }
    if (st != HSP_OK) {
        return st;
    }
    for (uint32_t k = 0; k < t->n_pieces; k++) {
        const struct hsp_piece *p = &t->pieces[k];
        if (p->queue >= HSP_N_QUEUES || p->n > t->n_instrs || p->first > t->n_instrs - p->n) {
            return hsp_err_set(err, HSP_EPARSE, 0, "piece %u: instructions out of range", k);
        }
        for (uint32_t j = 0; j < p->n; j++) {
            if (t->instrs[p->first + j].queue != p->queue) {
                return hsp_err_set(err, HSP_EPARSE, 0, "piece %u: instruction of another queue", k);
            }
        }
    }
    for (uint32_t k = 0; k < t->n_segments; k++) {
        const struct hsp_segment *s = &t->segments[k];
        if (s->kind > HSP_SEG_SERVE || s->n_pieces > t->n_pieces ||
            s->first_piece > t->n_pieces - s->n_pieces) {
            return hsp_err_set(err, HSP_EPARSE, 0, "segment %u: pieces out of range", k);
        }
    }
    return HSP_OK;
}

/* ---- binding ---- */

static bool box_sane(const struct hsp_box *b, bool to_end)
{
    for (uint8_t d = 0; d < b->rank; d++) {
        bool end = to_end && d == 0 && b->hi[d] == HSP_TO_END;
        if (b->lo[d] < 0 || b->lo[d] > b->hi[d] || (b->hi[d] > HSP_MAX_EXTENT && !end)) {
            return false;
        }
    }
    return true;
}

static enum hsp_status check_tensor_bind(const struct hsp_template *t, const struct hsp_binding *b,
                                         uint32_t k, struct hsp_err *err)
{
    const struct hsp_ptensor *p = &t->tensors[k];
    const struct hsp_tensor_bind *x = &b->tensor[k];
    bool batch = p->rank > 0 && p->sym[0] == HSP_SYM_BATCH;
    if (x->box.rank != p->rank || !box_sane(&x->box, false) || x->batch_dim0 != batch ||
        (batch && x->box.lo[0] != 0)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "tensor %u %s: malformed box", k, p->name);
    }
    int64_t bytes = (int64_t)hsp_dtype_size((enum hsp_dtype)p->dtype);
    for (uint8_t d = 0; d < p->rank; d++) {
        int64_t ext = x->box.hi[d] - x->box.lo[d];
        if (ext != b->symbol[p->sym[d]]) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "tensor %u %s: box has %" PRId64 " in dim %u, symbol %s is %" PRId64,
                               k, p->name, ext, d, t->symbols[p->sym[d]].name,
                               b->symbol[p->sym[d]]);
        }
        if (!hsp_mul_i64(bytes, ext, &bytes)) {
            return hsp_err_set(err, HSP_ELIMIT, 0, "tensor %u %s: too large", k, p->name);
        }
    }
    int64_t all, end,
        room = p->cls == HSP_CLASS_STATE  ? b->state_bytes
               : p->cls == HSP_CLASS_HOST ? b->host_bytes
                                          : b->memory_bytes;
    if (x->offset < 0 || x->offset % 64 != 0 || x->slot_bytes % 64 != 0 || x->slot_bytes < bytes ||
        x->n_slots == 0 || x->n_slots > HSP_MAX_SLOTS ||
        (p->cls == HSP_CLASS_STATE && x->n_slots != 1) ||
        !hsp_mul_i64(x->slot_bytes, x->n_slots, &all) || !hsp_add_i64(x->offset, all, &end) ||
        end > room) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "tensor %u %s: %u slots of %" PRId64 " bytes at %" PRId64 " for %" PRId64
                           " bytes do not fit %" PRId64,
                           k, p->name, x->n_slots, x->slot_bytes, x->offset, bytes, room);
    }
    return HSP_OK;
}

/* Cell in the coordinates of a tensor: inside its box, to-end meaning the batch bound. */
static bool cell_inside(const struct hsp_box *cell, const struct hsp_tensor_bind *x)
{
    if (cell->rank != x->box.rank) {
        return false;
    }
    for (uint8_t d = 0; d < cell->rank; d++) {
        bool end = x->batch_dim0 && d == 0 && cell->hi[d] == HSP_TO_END;
        if (cell->lo[d] < x->box.lo[d] || (!end && cell->hi[d] > x->box.hi[d])) {
            return false;
        }
        /* a running micro-batch may be smaller than the bound: batch cells are all or nothing */
        if (x->batch_dim0 && d == 0 && !end && cell->lo[d] != cell->hi[d]) {
            return false;
        }
    }
    return true;
}

struct move_ctx {
    const struct hsp_template *t;
    const struct hsp_binding *b;
    const struct hsp_instr *i;
    const struct hsp_move *m;
};

static bool source_holds(const struct move_ctx *c, const struct hsp_box *cell)
{
    if (c->m->src == HSP_MOVE_FROM_OUT) {
        return c->m->kind != HSP_MOVE_COPY && cell_inside(cell, &c->b->tensor[c->i->out[0]]);
    }
    if (c->m->src == HSP_MOVE_SUM) {
        for (uint8_t k = 0; k < c->i->n_in; k++) {
            if (cell_inside(cell, &c->b->tensor[c->i->in[k]])) {
                return true;
            }
        }
        return false;
    }
    return c->m->src < c->i->n_in && cell_inside(cell, &c->b->tensor[c->i->in[c->m->src]]);
}

static bool cell_ok(const struct move_ctx *c, const struct hsp_cell *cell)
{
    const struct hsp_move *m = c->m;
    uint32_t me = c->b->rank;
    bool sends = false, gets = false;
    switch ((enum hsp_move_kind)m->kind) {
    case HSP_MOVE_COPY: sends = gets = true; break;
    case HSP_MOVE_P2P:
        if (cell->root >= m->n_ranks || cell->peer >= m->n_ranks || cell->root == cell->peer) {
            return false;
        }
        sends = m->ranks[cell->root] == me;
        gets = m->ranks[cell->peer] == me;
        if (!sends && !gets) {
            return false;
        }
        break;
    case HSP_MOVE_ALL_REDUCE: sends = gets = true; break;
    case HSP_MOVE_REDUCE_SCATTER:
        if (cell->root >= m->n_ranks) {
            return false;
        }
        sends = true;
        gets = m->ranks[cell->root] == me;
        break;
    case HSP_MOVE_ALL_GATHER:
        if (cell->root >= m->n_ranks) {
            return false;
        }
        sends = m->ranks[cell->root] == me;
        gets = true;
        break;
    case HSP_MOVE_REDUCE_SEND:
        if (cell->root >= m->n_ranks || cell->peer >= m->n_ranks || cell->root == cell->peer ||
            cell->root != m->cells[0].root || cell->peer != m->cells[0].peer) {
            return false;
        }
        gets = m->ranks[cell->peer] == me;
        sends = !gets;
        break;
    }
    return box_sane(&cell->box, true) && (!sends || source_holds(c, &cell->box)) &&
           (!gets || cell_inside(&cell->box, &c->b->tensor[c->i->out[0]]));
}

static enum hsp_status check_move(const struct move_ctx *c, struct hsp_err *err)
{
    const struct hsp_move *m = c->m;
    bool member = m->kind == HSP_MOVE_COPY;
    for (uint32_t k = 0; k < m->n_ranks; k++) {
        if (m->ranks[k] >= c->b->n_ranks || (k > 0 && m->ranks[k] <= m->ranks[k - 1])) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "reshard %u: ranks of a move not ascending or out of range",
                               c->i->arg);
        }
        member |= m->ranks[k] == c->b->rank;
    }
    /* one thread talks to the peers; the largest channel is the vote's */
    if (m->kind != HSP_MOVE_COPY && (c->i->queue != HSP_QUEUE_COMM || m->channel == UINT32_MAX)) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "reshard %u: communication outside the comm queue, or on channel %u",
                           c->i->arg, m->channel);
    }
    if (m->kind > HSP_MOVE_REDUCE_SEND || m->reduce > HSP_REDUCE_MAX || !member) {
        return hsp_err_set(err, HSP_EPARSE, 0, "reshard %u: a move rank %u has no part in",
                           c->i->arg, c->b->rank);
    }
    for (uint32_t k = 0; k < m->n_cells; k++) {
        if (!cell_ok(c, &m->cells[k])) {
            return hsp_err_set(err, HSP_EPARSE, 0,
                               "reshard %u of %s: cell %u of a move of kind %u is not held here",
                               c->i->arg, c->t->tensors[c->i->out[0]].name, k, m->kind);
        }
    }
    return HSP_OK;
}

/* Whether Reshards @x and @y may be of one bucket: a collective each, over the same ranks. */
static bool one_bucket(const struct hsp_template *t, const struct hsp_binding *b,
                       const struct hsp_instr *x, const struct hsp_instr *y)
{
    const struct hsp_reshard_bind *p = &b->reshard[x->arg], *q = &b->reshard[y->arg];
    if (p->n_moves != 1 || q->n_moves != 1 || p->zero_first || q->zero_first) {
        return false;
    }
    const struct hsp_move *m = &p->moves[0], *n = &q->moves[0];
    return hsp_move_joins(m) && m->kind == n->kind && m->reduce == n->reduce &&
           m->n_ranks == n->n_ranks &&
           memcmp(m->ranks, n->ranks, m->n_ranks * sizeof *m->ranks) == 0 &&
           t->tensors[x->out[0]].dtype == t->tensors[y->out[0]].dtype;
}

/* A bucket is a run of Reshards of one piece; so its number never comes back. */
static enum hsp_status check_buckets(const struct hsp_template *t, const struct hsp_binding *b,
                                     struct hsp_err *err)
{
    uint32_t last = 0;
    for (uint32_t k = 0; k < t->n_pieces; k++) {
        const struct hsp_piece *p = &t->pieces[k];
        const struct hsp_instr *before = NULL; /* of the running bucket */
        for (uint32_t i = p->first; i < p->first + p->n; i++) {
            const struct hsp_instr *in = &t->instrs[i];
            uint32_t bucket = in->kind == HSP_I_RESHARD ? b->reshard[in->arg].bucket : 0;
            bool goes_on = before != NULL && bucket == last;
            if (bucket != 0 &&
                ((!goes_on && bucket <= last) || !one_bucket(t, b, goes_on ? before : in, in))) {
                return hsp_err_set(err, HSP_EPARSE, 0, "reshard %u is not of bucket %u", in->arg,
                                   bucket);
            }
            before = bucket != 0 ? in : NULL;
            last = bucket != 0 ? bucket : last;
        }
    }
    return HSP_OK;
}

static enum hsp_status check_reshards(const struct hsp_template *t, const struct hsp_binding *b,
                                      struct hsp_err *err)
{
    if (b->n_reshards != t->n_reshards) {
        return hsp_err_set(err, HSP_EPARSE, 0, "binding has %u reshards, template %u",
                           b->n_reshards, t->n_reshards);
    }
    for (uint32_t k = 0; k < t->n_instrs; k++) {
        const struct hsp_instr *i = &t->instrs[k];
        if (i->kind != HSP_I_RESHARD) {
            continue;
        }
        const struct hsp_reshard_bind *r = &b->reshard[i->arg];
        for (uint32_t j = 0; j < r->n_moves; j++) {
            struct move_ctx c = {.t = t, .b = b, .i = i, .m = &r->moves[j]};
            enum hsp_status st = check_move(&c, err);
            if (st != HSP_OK) {
                return st;
            }
        }
    }
    return b->buckets ? check_buckets(t, b, err) : HSP_OK;
}

/* The queues never wait for each other in a circle: both come to their end. */
static bool sched_ends(const struct hsp_sched *s)
{
    uint32_t done[HSP_N_QUEUES] = {0}, before;
    do {
        before = done[0] + done[1];
        for (int q = 0; q < HSP_N_QUEUES; q++) {
            while (done[q] < s->n[q] && s->e[q][done[q]].wait <= done[1 - q]) {
                done[q]++;
            }
        }
    } while (done[0] + done[1] > before);
    return done[0] == s->n[0] && done[1] == s->n[1];
}

/* Reshards, and the vote: nothing that counts the instructions of its piece. */
static bool all_move(const struct hsp_template *t, uint32_t first, uint32_t end)
{
    bool all = true;
    for (uint32_t k = first; all && k < end; k++) {
        all = t->instrs[k].kind == HSP_I_RESHARD || t->instrs[k].kind == HSP_I_VOTE;
    }
    return all;
}

/* Whether the Reshards before and at instruction @k are of one bucket. */
static bool cuts_bucket(const struct hsp_template *t, const struct hsp_binding *b, uint32_t k)
{
    if (k == 0 || k >= t->n_instrs || t->instrs[k - 1].kind != HSP_I_RESHARD ||
        t->instrs[k].kind != HSP_I_RESHARD) {
        return false;
    }
    uint32_t bucket = b->reshard[t->instrs[k].arg].bucket;
    return bucket != 0 && b->reshard[t->instrs[k - 1].arg].bucket == bucket;
}

/* Whether entry @k of queue @q is a whole piece, or a part that may stand there. */
static bool part_ok(const struct hsp_template *t, const struct hsp_binding *b,
                    const struct hsp_sched *s, int q, uint32_t k)
{
    const struct hsp_sched_entry *e = &s->e[q][k], *before = k > 0 ? e - 1 : NULL;
    uint32_t all = t->pieces[e->piece].n, first;
    bool open = q == HSP_QUEUE_COMPUTE && before != NULL && before->n > 0 &&
                before->first + before->n < t->pieces[before->piece].n;
    bool last = k + 1 == s->n[q];
    if (e->n == 0) {
        return e->first == 0 && !open;
    }
    if (e->first >= all || e->n > all - e->first) {
        return false;
    }
    if (q == HSP_QUEUE_COMM) {
        uint32_t end = hsp_entry_end(t, e, &first);
        return all_move(t, first, end) && !cuts_bucket(t, b, first) && !cuts_bucket(t, b, end);
    }
    bool goes_on = open && before->piece == e->piece && before->micro == e->micro &&
                   before->first + before->n == e->first;
    return (open ? goes_on : e->first == 0) && (!last || e->first + e->n == all);
}

static bool parts_ok(const struct hsp_template *t, const struct hsp_binding *b,
                     const struct hsp_sched *s)
{
    bool ok = true;
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        for (uint32_t k = 0; ok && k < s->n[q]; k++) {
            ok = part_ok(t, b, s, q, k);
        }
    }
    return ok;
}

static enum hsp_status check_sched(const struct hsp_template *t, const struct hsp_binding *b,
                                   const struct hsp_sched *s, uint32_t n_micro, struct hsp_err *err)
{
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        uint32_t other = s->n[q == HSP_QUEUE_COMPUTE ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE];
        for (uint32_t k = 0; k < s->n[q]; k++) {
            const struct hsp_sched_entry *e = &s->e[q][k];
            if (e->piece >= t->n_pieces || t->pieces[e->piece].queue != q || e->wait > other ||
                (e->micro > 0 && e->micro >= n_micro)) {
                return hsp_err_set(err, HSP_EPARSE, 0, "schedule: entry %u of queue %d", k, q);
            }
        }
    }
    if (!parts_ok(t, b, s)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "schedule: parts that are no piece");
    }
    return sched_ends(s) ? HSP_OK
                         : hsp_err_set(err, HSP_EPARSE, 0, "schedule: queues wait in a circle");
}

/* Extents of an op's operands against the catalogue: a backend relies on them. */
static enum hsp_status check_op(const struct hsp_template *t, const struct hsp_binding *b,
                                const struct hsp_instr *i, struct hsp_err *err)
{
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES] = {0};
    uint8_t rank = 0;
    for (uint8_t k = 0; k < i->n_in; k++) {
        const struct hsp_ptensor *p = &t->tensors[i->in[k]];
        rank = p->rank > rank ? p->rank : rank;
        for (uint8_t d = 0; d < p->rank; d++) {
            in[k][d] = b->symbol[p->sym[d]];
        }
    }
    struct hsp_axes ax;
    struct hsp_attrs at = hsp_instr_attrs(i, b->symbol);
    enum hsp_status st = hsp_op_axes((enum hsp_op)i->op, &at, rank, &ax, err);
    for (uint8_t k = 0; k < i->n_in && st == HSP_OK; k++) {
        if (ax.in[k].rank != t->tensors[i->in[k]].rank) {
            st = hsp_err_set(err, HSP_EPARSE, 0, "input %u has the wrong rank", k);
        }
    }
    if (st == HSP_OK) {
        st = hsp_op_extents((enum hsp_op)i->op, &at, &ax, in, axis, err);
    }
    for (uint8_t k = 0; k < i->n_out && st == HSP_OK; k++) {
        const struct hsp_ptensor *p = &t->tensors[i->out[k]];
        if (ax.out[k].rank != p->rank) {
            return hsp_err_set(err, HSP_EPARSE, 0, "output %u has the wrong rank", k);
        }
        for (uint8_t d = 0; d < p->rank; d++) {
            /* the vocabulary part of an embedding's gradient is the output's own */
            bool own = i->op == HSP_OP_EMBED_DW && d == 0;
            if (!own &&
                b->symbol[p->sym[d]] != axis[ax.out[k].dim[d].axis] * ax.out[k].dim[d].unit) {
                return hsp_err_set(
                    err, HSP_EPARSE, 0, "output %u has %" PRId64 " in dim %u, not %" PRId64, k,
                    b->symbol[p->sym[d]], d, axis[ax.out[k].dim[d].axis] * ax.out[k].dim[d].unit);
            }
        }
    }
    return st;
}

static enum hsp_status check_shapes(const struct hsp_template *t, const struct hsp_binding *b,
                                    struct hsp_err *err)
{
    for (uint32_t k = 0; k < t->n_instrs; k++) {
        const struct hsp_instr *i = &t->instrs[k];
        if (i->kind == HSP_I_OP && check_op(t, b, i, err) != HSP_OK) {
            return hsp_err_wrap(err, "instruction %u, %s", k, hsp_op_name((enum hsp_op)i->op));
        }
        if (i->kind == HSP_I_STAT && t->tensors[i->in[0]].rank != 0) {
            return hsp_err_set(err, HSP_EPARSE, 0, "instruction %u: statistic of a non-scalar", k);
        }
        if (i->kind == HSP_I_COPY &&
            !hsp_box_equal(&b->tensor[i->in[0]].box, &b->tensor[i->out[0]].box)) {
            return hsp_err_set(err, HSP_EPARSE, 0, "instruction %u: a copy of another box", k);
        }
        for (uint8_t d = 0; i->kind == HSP_I_ACC && d < t->tensors[i->out[0]].rank; d++) {
            if (b->symbol[t->tensors[i->in[0]].sym[d]] != b->symbol[t->tensors[i->out[0]].sym[d]]) {
                return hsp_err_set(err, HSP_EPARSE, 0, "instruction %u: addends differ in dim %u",
                                   k, d);
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status check_hyper(const struct hsp_binding *b, struct hsp_err *err)
{
    const struct hsp_pipeline_bind *s = &b->pipeline;
    const struct hsp_data_bind *d = &b->data;
    const struct hsp_train_bind *h = &b->hyper;
    if (s->n_micro > s->n_seq || s->eval_n_micro > s->eval_n_seq ||
        (s->n_seq > 0 && s->n_micro == 0) || (s->eval_n_seq > 0 && s->eval_n_micro == 0) ||
        (uint64_t)s->first_seq + s->n_seq > d->global_batch ||
        (uint64_t)s->eval_first + s->eval_n_seq > d->eval_seqs) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "binding: the pipeline does not fit the global batch");
    }
    uint32_t bound = (s->n_micro ? (s->n_seq + s->n_micro - 1) / s->n_micro : 0);
    uint32_t ebound =
        (s->eval_n_micro ? (s->eval_n_seq + s->eval_n_micro - 1) / s->eval_n_micro : 0);
    if (b->symbol[HSP_SYM_BATCH] < (int64_t)bound || b->symbol[HSP_SYM_BATCH] < (int64_t)ebound) {
        return hsp_err_set(err, HSP_EPARSE, 0,
                           "binding: micro-batches of %u and %u sequences, bound %" PRId64, bound,
                           ebound, b->symbol[HSP_SYM_BATCH]);
    }
    bool documents = d->samples == HSP_SAMPLES_DOCUMENTS;
    if (d->global_batch == 0 || d->sequence == 0 || d->vocab == 0 ||
        d->samples > HSP_SAMPLES_DOCUMENTS ||
        (documents && (d->packing == HSP_PACKING_NONE || d->next_token_only ||
                       d->longest < d->sequence || d->longest > HSP_MAX_LONGEST)) ||
        d->format > HSP_DATA_MEGATRON || d->packing > HSP_PACKING_INDEX ||
        (d->packing == HSP_PACKING_INDEX && d->format != HSP_DATA_MEGATRON) ||
        !(d->validation_fraction >= 0.0 && d->validation_fraction < 1.0)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "binding: malformed data part");
    }
    if (h->schedule > HSP_LR_COSINE || h->optimizer > HSP_OPT_SGD || !(h->lr >= 0.0) ||
        !(h->min_lr >= 0.0) || !(h->clip_norm >= 0.0)) {
        return hsp_err_set(err, HSP_EPARSE, 0, "binding: malformed training part");
    }
    return HSP_OK;
}

static enum hsp_status check_state(const struct hsp_template *t, const struct hsp_binding *b,
                                   struct hsp_err *err)
{
    for (uint32_t k = 0; k < b->n_state; k++) {
        const struct hsp_state_bind *s = &b->state[k];
        if (s->tensor >= t->n_tensors || t->tensors[s->tensor].cls != HSP_CLASS_STATE ||
            s->init > HSP_INIT_NORMAL || s->full.rank != t->tensors[s->tensor].rank ||
            !box_sane(&s->full, false) || !hsp_box_inside(&b->tensor[s->tensor].box, &s->full)) {
            return hsp_err_set(err, HSP_EPARSE, 0, "binding: malformed state tensor %u", k);
        }
    }
    return HSP_OK;
}

enum hsp_status hsp_binding_check(const struct hsp_template *t, const struct hsp_binding *b,
                                  struct hsp_err *err)
{
    if (b->n_ranks == 0 || b->n_ranks > HSP_MAX_PROGRAM_RANKS || b->rank >= b->n_ranks) {
        return hsp_err_set(err, HSP_EPARSE, 0, "binding: rank %u of %u", b->rank, b->n_ranks);
    }
    if (b->memory_bytes < 0 || b->state_bytes < 0 || b->comm_bytes < 0 || b->host_bytes < 0) {
        return hsp_err_set(err, HSP_EPARSE, 0, "binding: negative size");
    }
    for (uint32_t k = 0; k < t->n_symbols; k++) {
        if (b->symbol[k] < 0 || b->symbol[k] > HSP_MAX_EXTENT) {
            return hsp_err_set(err, HSP_EPARSE, 0, "binding: symbol %u is %" PRId64, k,
                               b->symbol[k]);
        }
    }
    enum hsp_status st = HSP_OK;
    for (uint32_t k = 0; k < t->n_tensors && st == HSP_OK; k++) {
        st = check_tensor_bind(t, b, k, err);
    }
    st = st == HSP_OK ? check_reshards(t, b, err) : st;
    st = st == HSP_OK ? check_sched(t, b, &b->train, b->pipeline.n_micro, err) : st;
    st = st == HSP_OK ? check_sched(t, b, &b->eval, b->pipeline.eval_n_micro, err) : st;
    st = st == HSP_OK ? check_sched(t, b, &b->early, b->pipeline.n_micro, err) : st;
    st = st == HSP_OK ? check_hyper(b, err) : st;
    st = st == HSP_OK ? check_state(t, b, err) : st;
    return st == HSP_OK ? check_shapes(t, b, err) : st;
}

bool hsp_program_low(const struct hsp_program *p)
{
    for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
        if (p->tpl.tensors[t].dtype == HSP_BF16) {
            return true;
        }
    }
    return false;
}

int64_t hsp_program_wide(const struct hsp_program *p)
{
    int64_t most = 0;
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        const struct hsp_instr *i = &p->tpl.instrs[k];
        int64_t bytes = 0;
        if (i->kind != HSP_I_OP || hsp_op_moves((enum hsp_op)i->op)) {
            continue;
        }
        for (uint8_t j = 0; j < i->n_in + i->n_out; j++) {
            uint32_t t = j < i->n_in ? i->in[j] : i->out[j - i->n_in];
            if (p->tpl.tensors[t].dtype == HSP_BF16) {
                int64_t n = hsp_box_count(&p->bind.tensor[t].box);
                bytes += (n * (int64_t)sizeof(float) + 63) / 64 * 64;
            }
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

enum hsp_status hsp_program_check(const struct hsp_program *p, struct hsp_err *err)
{
    enum hsp_status st = hsp_template_check(&p->tpl, err);
    return st == HSP_OK ? hsp_binding_check(&p->tpl, &p->bind, err) : st;
}
