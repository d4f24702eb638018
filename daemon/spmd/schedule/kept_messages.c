#include "daemon/spmd/schedule/kept_messages.h"

#include <stdlib.h>

#include "daemon/spmd/schedule/memory_plan.h"
#include "daemon/spmd/schedule/pipeline_order.h"

/* A message that is sent. */
struct sent {
    int64_t bytes;
    uint32_t taken; /* messages of its receiver that its sender had received */
};

/* The messages of a step between a rank and one of another stage. */
struct peer {
    uint32_t rank;
    uint32_t n, cap;
    struct sent *sent;      /* owned */
    uint32_t out, in, gone; /* in a pass: sent, received, known to be taken */
};

struct member {
    struct hsp_program *p;
    uint32_t pipeline, stage;
    uint32_t n, cap;
    struct peer *peer;   /* owned */
    int64_t alive, most; /* sent between stages and not taken: now, at most */
    int64_t largest;     /* sent between stages in one move, at most */
};

struct count {
    const struct hsp_plan *plan;
    struct member *m;
    bool eval;  /* the schedule of a validation */
    bool notes; /* the first pass */
    struct hsp_err *err;
};

static struct peer *find_peer(const struct member *m, uint32_t rank)
{
    for (uint32_t k = 0; k < m->n; k++) {
        if (m->peer[k].rank == rank) {
            return &m->peer[k];
        }
    }
    return NULL;
}

/* NULL: no memory. */
static struct peer *peer_of(struct member *m, uint32_t rank)
{
    struct peer *x = find_peer(m, rank);
    if (x == NULL && m->n == m->cap) {
        uint32_t cap = m->cap == 0 ? 4 : 2 * m->cap;
        struct peer *more = realloc(m->peer, cap * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        m->peer = more;
        m->cap = cap;
    }
    if (x == NULL) {
        x = &m->peer[m->n++];
        *x = (struct peer){.rank = rank};
    }
    return x;
}

/* ---- the first pass: all messages; the second one: how many are kept ---- */

static bool note_sent(struct peer *x, int64_t bytes)
{
    if (x->n == x->cap) {
        uint32_t cap = x->cap == 0 ? 16 : 2 * x->cap;
        struct sent *more = realloc(x->sent, cap * sizeof *more);
        if (more == NULL) {
            return false;
        }
        x->sent = more;
        x->cap = cap;
    }
    x->sent[x->n++] = (struct sent){.bytes = bytes, .taken = x->in};
    return true;
}

static void forget(struct member *m, struct peer *x, uint32_t taken)
{
    for (; x->gone < taken && x->gone < x->out; x->gone++) {
        m->alive -= x->sent[x->gone].bytes;
    }
}

static void count_sent(const struct count *c, struct member *m, struct peer *x, int64_t bytes)
{
    uint32_t room = c->eval ? HSP_KEPT_MOVES : hsp_order_room(&c->plan->pipelines[m->pipeline]);
    if (x->out - x->gone >= room) {
        forget(m, x, x->out - room + 1);
    }
    m->alive += bytes;
    m->most = m->alive > m->most ? m->alive : m->most;
}

static void count_received(const struct count *c, struct member *m, struct peer *x)
{
    const struct peer *back = find_peer(&c->m[x->rank], m->p->bind.rank);
    if (back != NULL && x->in < back->n) {
        forget(m, x, back->sent[x->in].taken);
    }
}

static enum hsp_status put(struct count *c, struct member *m, uint32_t rank, bool out,
                           int64_t bytes)
{
    struct peer *x = bytes > 0 ? peer_of(m, rank) : NULL;
    if (bytes == 0) {
        return HSP_OK;
    }
    if (x == NULL || (c->notes && out && !note_sent(x, bytes))) {
        return hsp_err_nomem(c->err, "the messages of rank %u", m->p->bind.rank);
    }
    if (!c->notes && out) {
        count_sent(c, m, x, bytes);
    } else if (!c->notes) {
        count_received(c, m, x);
    }
    x->out += out;
    x->in += !out;
    return HSP_OK;
}

/* ---- the messages of a rank ---- */

/* All cells of @v between the ends of cell @k, one way; 0: they were counted with an earlier cell.
 */
static int64_t message_bytes(const struct hsp_program *p, uint32_t instr, const struct hsp_move *v,
                             uint32_t k)
{
    int64_t bytes = 0;
    for (uint32_t j = 0; j < v->n_cells; j++) {
        if (v->cells[j].root == v->cells[k].root && v->cells[j].peer == v->cells[k].peer) {
            if (j < k) {
                return 0;
            }
            bytes += hsp_memory_of_cell(p, instr, v, j);
        }
    }
    return bytes;
}

static bool between_stages(const struct member *a, const struct member *b)
{
    return a->pipeline == b->pipeline && a->stage != b->stage;
}

/* Messages that are sent leave before any of the move is received. */
static enum hsp_status put_move(struct count *c, struct member *m, uint32_t instr,
                                const struct hsp_move *v)
{
    uint32_t cells = v->kind == HSP_MOVE_P2P                             ? v->n_cells
                     : v->kind == HSP_MOVE_REDUCE_SEND && v->n_cells > 0 ? 1
                                                                         : 0;
    int64_t all = 0;
    enum hsp_status rc = HSP_OK;
    for (int in = 0; in < 2; in++) {
        for (uint32_t k = 0; k < cells && rc == HSP_OK; k++) {
            uint32_t ends[2] = {v->ranks[v->cells[k].root], v->ranks[v->cells[k].peer]};
            uint32_t other = ends[1 - in];
            if (ends[in] == m->p->bind.rank && between_stages(m, &c->m[other])) {
                int64_t bytes = message_bytes(m->p, instr, v, k);
                all += in == 0 ? bytes : 0;
                rc = put(c, m, other, in == 0, bytes);
            }
        }
    }
    m->largest = all > m->largest ? all : m->largest;
    return rc;
}

static enum hsp_status put_step(struct count *c, struct member *m)
{
    const struct hsp_program *p = m->p;
    const struct hsp_sched *s = c->eval ? &p->bind.eval : hsp_binding_train(&p->bind);
    enum hsp_status rc = HSP_OK;
    m->alive = 0;
    for (uint32_t k = 0; k < m->n; k++) {
        m->peer[k].n = c->notes ? 0 : m->peer[k].n;
        m->peer[k].out = m->peer[k].in = m->peer[k].gone = 0;
    }
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMM] && rc == HSP_OK; k++) {
        uint32_t i, end = hsp_entry_end(&p->tpl, &s->e[HSP_QUEUE_COMM][k], &i);
        for (; i < end && rc == HSP_OK; i++) {
            const struct hsp_instr *n = &p->tpl.instrs[i];
            const struct hsp_reshard_bind *r =
                n->kind == HSP_I_RESHARD ? &p->bind.reshard[n->arg] : NULL;
            for (uint32_t v = 0; r != NULL && v < r->n_moves && rc == HSP_OK; v++) {
                rc = put_move(c, m, i, &r->moves[v]);
            }
        }
    }
    return rc;
}

/* Bytes of the messages that instruction @instr sends, but for those between stages. */
static int64_t bytes_beside(const struct count *c, const struct member *m, uint32_t instr)
{
    const struct hsp_instr *n = &m->p->tpl.instrs[instr];
    int64_t bytes = 0;
    if (n->kind != HSP_I_RESHARD) {
        return 0;
    }
    const struct hsp_reshard_bind *r = &m->p->bind.reshard[n->arg];
    for (uint32_t i = 0; i < r->n_moves; i++) {
        const struct hsp_move *v = &r->moves[i];
        for (uint32_t k = 0; v->kind == HSP_MOVE_P2P && k < v->n_cells; k++) {
            uint32_t to = v->ranks[v->cells[k].peer];
            bool sent = v->ranks[v->cells[k].root] == m->p->bind.rank;
            sent = sent && !between_stages(m, &c->m[to]);
            bytes += sent ? hsp_memory_of_cell(m->p, instr, v, k) : 0;
        }
    }
    return bytes;
}

/* The most such bytes of one instruction of a micro-batch: to groups that cut sequences, and of
 * parameters that are gathered for each use. */
static int64_t most_beside(const struct count *c, const struct member *m)
{
    const struct hsp_template *t = &m->p->tpl;
    int64_t most = 0;
    for (uint32_t s = 0; s < t->n_segments; s++) {
        const struct hsp_segment *g = &t->segments[s];
        uint32_t end = g->first_piece + g->n_pieces;
        bool once = g->kind == HSP_SEG_PRE || g->kind == HSP_SEG_POST;
        for (uint32_t k = g->first_piece; !once && k < end; k++) {
            for (uint32_t i = 0; i < t->pieces[k].n; i++) {
                int64_t bytes = bytes_beside(c, m, t->pieces[k].first + i);
                most = bytes > most ? bytes : most;
            }
        }
    }
    return most;
}

/* The messages that are kept, but for the largest of one move. */
static int64_t kept_more(const struct count *c, const struct member *m)
{
    int64_t beside = most_beside(c, m), one = beside > m->largest ? beside : m->largest;
    int64_t all = m->most + HSP_KEPT_MOVES * beside;
    return all > one ? all - one : 0;
}

static void place_members(const struct count *c, struct hsp_program *programs)
{
    for (uint32_t r = 0; r < c->plan->n_ranks; r++) {
        c->m[r].p = &programs[r];
    }
    for (uint32_t s = 0; s < c->plan->n_pipelines; s++) {
        for (uint32_t g = 0; g < c->plan->pipelines[s].n_stages; g++) {
            const struct hsp_stage *x = &c->plan->pipelines[s].stages[g];
            for (uint32_t i = 0; i < x->n; i++) {
                c->m[x->ranks[i]].pipeline = s;
                c->m[x->ranks[i]].stage = g;
            }
        }
    }
}

enum hsp_status hsp_kept_messages(const struct hsp_plan *plan, struct hsp_program *programs,
                                  struct hsp_err *err)
{
    uint32_t n = plan->n_ranks;
    struct count c = {.plan = plan, .m = calloc((size_t)n + 1, sizeof *c.m), .err = err};
    if (c.m == NULL) {
        return hsp_err_nomem(err, "the messages of %u ranks", n);
    }
    enum hsp_status rc = HSP_OK;
    place_members(&c, programs);
    for (int pass = 0; pass < 4; pass++) {
        c.notes = pass % 2 == 0;
        c.eval = pass >= 2;
        for (uint32_t r = 0; r < n && rc == HSP_OK; r++) {
            rc = put_step(&c, &c.m[r]);
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        struct member *m = &c.m[r];
        programs[r].bind.comm_bytes += rc == HSP_OK ? kept_more(&c, m) : 0;
        for (uint32_t k = 0; k < m->n; k++) {
            free(m->peer[k].sent);
        }
        free(m->peer);
    }
    free(c.m);
    return rc;
}
