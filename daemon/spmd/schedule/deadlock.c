#include "daemon/spmd/schedule/deadlock.h"

#include <stdlib.h>

#include "proto/base/check.h"

/* Where one rank stands. */
struct runner {
    const struct hsp_program *p;
    const struct hsp_sched *s;
    uint32_t done[HSP_N_QUEUES]; /* entries complete */
    uint32_t instr, move;        /* inside the running entry of the communication queue */
    bool arrived;                /* at that move */
    uint32_t votes;
};

/* How often each rank of a move's group came to it. */
struct channel {
    const struct hsp_move *m; /* as the first rank that came sees it */
    uint32_t *count;          /* per member; owned */
};

struct sim {
    struct runner *r;
    uint32_t n;
    struct channel *c;
    uint32_t n_channels;
    struct hsp_err *err;
};

static uint32_t channels_of(const struct hsp_program *p, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < p[i].bind.n_reshards; k++) {
            const struct hsp_reshard_bind *b = &p[i].bind.reshard[k];
            for (uint32_t m = 0; m < b->n_moves; m++) {
                most = b->moves[m].channel + 1 > most ? b->moves[m].channel + 1 : most;
            }
        }
    }
    return most;
}

static uint32_t member_of(const struct hsp_move *m, uint32_t rank)
{
    for (uint32_t i = 0; i < m->n_ranks; i++) {
        if (m->ranks[i] == rank) {
            return i;
        }
    }
    return UINT32_MAX;
}

static enum hsp_status arrive(struct sim *s, struct runner *r, const struct hsp_move *m)
{
    struct channel *c = &s->c[m->channel];
    uint32_t me = member_of(m, r->p->bind.rank);
    if (c->m == NULL) {
        c->count = calloc(m->n_ranks, sizeof *c->count);
        if (c->count == NULL) {
            return hsp_err_nomem(s->err, "simulation of schedules");
        }
        c->m = m;
    }
    if (me == UINT32_MAX || c->m->n_ranks != m->n_ranks || c->m->kind != m->kind) {
        return hsp_err_set(s->err, HSP_EINVAL, 0, "ranks disagree about channel %u", m->channel);
    }
    c->count[me]++;
    r->arrived = true;
    return HSP_OK;
}

/* Whether the move at which @r has arrived is complete for it. */
static bool complete(const struct sim *s, const struct runner *r, const struct hsp_move *m)
{
    const uint32_t *count = s->c[m->channel].count;
    uint32_t me = member_of(m, r->p->bind.rank);
    if (m->kind == HSP_MOVE_P2P) {
        for (uint32_t i = 0; i < m->n_cells; i++) {
            if (m->cells[i].peer == me && count[m->cells[i].root] < count[me]) {
                return false;
            }
        }
        return true;
    }
    /* a sum that is sent on is sent to somebody who may come later */
    bool sent_on = m->kind == HSP_MOVE_REDUCE_SEND && m->n_cells > 0;
    for (uint32_t i = 0; i < m->n_ranks; i++) {
        if (count[i] < count[me] && !(sent_on && m->cells[0].peer == i)) {
            return false;
        }
    }
    return true;
}

static bool vote_passes(const struct sim *s, const struct runner *r)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->r[i].votes < r->votes) {
            return false;
        }
    }
    return true;
}

/* Runs the instruction as far as it goes; *ret_done: to its end. */
static enum hsp_status run_instr(struct sim *s, struct runner *r, const struct hsp_instr *i,
                                 bool *ret_done, bool *moved)
{
    *ret_done = true;
    if (i->kind == HSP_I_VOTE) {
        r->votes += r->arrived ? 0 : 1;
        *moved = *moved || !r->arrived;
        r->arrived = true;
        *ret_done = vote_passes(s, r);
        return HSP_OK;
    }
    if (i->kind != HSP_I_RESHARD) {
        return HSP_OK;
    }
    const struct hsp_reshard_bind *b = &r->p->bind.reshard[i->arg];
    for (; r->move < b->n_moves; r->move++, r->arrived = false) {
        const struct hsp_move *m = &b->moves[r->move];
        if (m->kind == HSP_MOVE_COPY) {
            continue;
        }
        if (!r->arrived) {
            enum hsp_status rc = arrive(s, r, m);
            if (rc != HSP_OK) {
                return rc;
            }
            *moved = true;
        }
        if (!complete(s, r, m)) {
            *ret_done = false;
            return HSP_OK;
        }
        *moved = true;
    }
    return HSP_OK;
}

static bool may_start(const struct runner *r, int queue)
{
    int other = queue == HSP_QUEUE_COMPUTE ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE;
    return r->done[queue] < r->s->n[queue] && r->s->e[queue][r->done[queue]].wait <= r->done[other];
}

/* Runs a rank until nothing of it can go on. */
static enum hsp_status run_rank(struct sim *s, struct runner *r, bool *moved)
{
    for (bool again = true; again;) {
        again = false;
        while (may_start(r, HSP_QUEUE_COMPUTE)) {
            r->done[HSP_QUEUE_COMPUTE]++;
            *moved = again = true;
        }
        if (!may_start(r, HSP_QUEUE_COMM)) {
            continue;
        }
        const struct hsp_sched_entry *e = &r->s->e[HSP_QUEUE_COMM][r->done[HSP_QUEUE_COMM]];
        uint32_t first, end = hsp_entry_end(&r->p->tpl, e, &first);
        bool done = true;
        while (done && first + r->instr < end) {
            enum hsp_status rc = run_instr(s, r, &r->p->tpl.instrs[first + r->instr], &done, moved);
            if (rc != HSP_OK) {
                return rc;
            }
            if (done) {
                r->instr++;
                r->move = 0;
                r->arrived = false;
            }
        }
        if (done) {
            r->instr = 0;
            r->done[HSP_QUEUE_COMM]++;
            *moved = again = true;
        }
    }
    return HSP_OK;
}

static enum hsp_status stuck(const struct sim *s, const struct runner *r)
{
    uint32_t rank = r->p->bind.rank;
    if (!may_start(r, HSP_QUEUE_COMM)) {
        return hsp_err_set(s->err, HSP_EINVAL, 0,
                           "schedule never ends: rank %u, compute entry %u, communication entry %u",
                           rank, r->done[HSP_QUEUE_COMPUTE], r->done[HSP_QUEUE_COMM]);
    }
    const struct hsp_sched_entry *e = &r->s->e[HSP_QUEUE_COMM][r->done[HSP_QUEUE_COMM]];
    uint32_t first;
    (void)hsp_entry_end(&r->p->tpl, e, &first);
    const struct hsp_instr *i = &r->p->tpl.instrs[first + r->instr];
    const char *name = i->kind == HSP_I_RESHARD ? r->p->tpl.tensors[i->out[0]].name : "the vote";
    return hsp_err_set(s->err, HSP_EINVAL, 0,
                       "schedule never ends: rank %u waits in %s of micro-batch %u", rank, name,
                       e->micro);
}

static enum hsp_status finished(const struct sim *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct runner *r = &s->r[i];
        if (r->done[0] < r->s->n[0] || r->done[1] < r->s->n[1]) {
            return stuck(s, r);
        }
    }
    for (uint32_t k = 0; k < s->n_channels; k++) {
        const struct channel *c = &s->c[k];
        for (uint32_t i = 1; c->m != NULL && i < c->m->n_ranks; i++) {
            if (c->count[i] != c->count[0]) {
                return hsp_err_set(s->err, HSP_EINVAL, 0,
                                   "channel %u is used %u times by rank %u, %u times by rank %u", k,
                                   c->count[0], c->m->ranks[0], c->count[i], c->m->ranks[i]);
            }
        }
    }
    return HSP_OK;
}

static const struct hsp_sched *sched_of(const struct hsp_binding *b, enum hsp_sched_of which)
{
    switch (which) {
    case HSP_OF_TRAIN: return &b->train;
    case HSP_OF_EVAL: return &b->eval;
    case HSP_OF_EARLY: break;
    }
    return b->early.n[HSP_QUEUE_COMPUTE] > 0 ? &b->early : &b->train;
}

enum hsp_status hsp_deadlock_check(const struct hsp_program *programs, uint32_t n,
                                   enum hsp_sched_of which, struct hsp_err *err)
{
    struct sim s = {.n = n, .n_channels = channels_of(programs, n), .err = err};
    enum hsp_status rc = HSP_OK;
    s.r = calloc((size_t)n + 1, sizeof *s.r);
    s.c = calloc((size_t)s.n_channels + 1, sizeof *s.c);
    if (s.r == NULL || s.c == NULL) {
        rc = hsp_err_nomem(err, "simulation of schedules");
    }
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        s.r[i].p = &programs[i];
        s.r[i].s = sched_of(&programs[i].bind, which);
    }
    for (bool moved = true; rc == HSP_OK && moved;) {
        moved = false;
        for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
            rc = run_rank(&s, &s.r[i], &moved);
        }
    }
    if (rc == HSP_OK) {
        rc = finished(&s);
    }
    for (uint32_t k = 0; s.c != NULL && k < s.n_channels; k++) {
        free(s.c[k].count);
    }
    free(s.r);
    free(s.c);
    return rc;
}
