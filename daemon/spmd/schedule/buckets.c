#include "daemon/spmd/schedule/buckets.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/schedule/memory_plan.h"

/* A collective of the plan, numbered by 1 + its channel. */
struct collective {
    uint32_t before;      /* the one right before it on the first rank that has it; 0: none */
    uint32_t said, agree; /* ranks that have it, and those of them with that neighbour */
    bool alone;           /* some rank cannot have it in a bucket */
    uint32_t head;        /* the first of its bucket */
    uint32_t n;           /* of a head: collectives of the bucket */
    uint64_t bytes;       /* of a head: of all of them */
};

struct joining {
    struct hsp_program *p;
    uint32_t n;
    uint64_t least;
    struct collective *c; /* owned */
    uint32_t *made; /* [tensor] of the rank at hand: 1 + the Reshard that wrote it last; owned */
};

static const struct hsp_reshard_bind *reshard_of(const struct hsp_program *p, uint32_t instr)
{
    const struct hsp_instr *i = &p->tpl.instrs[instr];
    return i->kind == HSP_I_RESHARD ? &p->bind.reshard[i->arg] : NULL;
}

/* Its only move, if that may be one of a bucket. */
static const struct hsp_move *move_of(const struct hsp_program *p, uint32_t instr)
{
    const struct hsp_reshard_bind *r = reshard_of(p, instr);
    bool one = r != NULL && r->n_moves == 1 && !r->zero_first && hsp_move_joins(&r->moves[0]);
    return one ? &r->moves[0] : NULL;
}

static uint8_t dtype_of(const struct hsp_program *p, uint32_t instr)
{
    return p->tpl.tensors[p->tpl.instrs[instr].out[0]].dtype;
}

static bool same_kind(const struct hsp_move *a, const struct hsp_move *b)
{
    return a->kind == b->kind && a->reduce == b->reduce && a->n_ranks == b->n_ranks &&
           memcmp(a->ranks, b->ranks, a->n_ranks * sizeof *a->ranks) == 0;
}

/* ---- neighbours ---- */

/* True when Reshard @k of @p reads a tensor that one from @first on writes. Memory of other tensors
 * need not be looked at: a tensor that is read later is in use, so nobody else lies there. */
static bool reads_made(const struct joining *x, const struct hsp_program *p, uint32_t k,
                       uint32_t first)
{
    const struct hsp_instr *i = &p->tpl.instrs[k];
    bool reads = move_of(p, k)->src == HSP_MOVE_FROM_OUT && x->made[i->out[0]] > first;
    for (uint8_t o = 0; o < i->n_in && !reads; o++) {
        reads = x->made[i->in[o]] > first;
    }
    return reads;
}

static uint32_t count_channels(const struct joining *x)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < x->n; r++) {
        const struct hsp_binding *b = &x->p[r].bind;
        for (uint32_t k = 0; k < b->n_reshards; k++) {
            for (uint32_t m = 0; m < b->reshard[k].n_moves; m++) {
                uint32_t channel = b->reshard[k].moves[m].channel;
                most = channel + 1 > most ? channel + 1 : most;
            }
        }
    }
    return most;
}

static uint32_t most_tensors(const struct joining *x)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < x->n; r++) {
        uint32_t n = x->p[r].tpl.n_tensors;
        most = n > most ? n : most;
    }
    return most;
}

/* Notes the properties of a rank's collective @m, whose neighbour is @before. */
static void note(struct joining *x, const struct hsp_move *m, const struct hsp_move *before)
{
    struct collective *c = &x->c[1 + m->channel];
    uint32_t neighbour = before != NULL ? 1 + before->channel : 0;
    c->before = c->said == 0 ? neighbour : c->before;
    c->said++;
    c->agree += c->before == neighbour;
}

/* A Reshard that has no bucket on one rank has none on the others. */
static void note_alone(struct joining *x, const struct hsp_reshard_bind *r)
{
    for (uint32_t i = 0; i < r->n_moves; i++) {
        x->c[1 + r->moves[i].channel].alone = true;
    }
}

/* The Reshards of one rank. */
static void note_rank(struct joining *x, const struct hsp_program *p)
{
    memset(x->made, 0, p->tpl.n_tensors * sizeof *x->made);
    for (uint32_t q = 0; q < p->tpl.n_pieces; q++) {
        const struct hsp_piece *piece = &p->tpl.pieces[q];
        uint32_t first = piece->first; /* of the run at hand */
        for (uint32_t k = piece->first; k < piece->first + piece->n; k++) {
            const struct hsp_reshard_bind *r = reshard_of(p, k);
            const struct hsp_move *m = move_of(p, k),
                                  *before = k > first ? move_of(p, k - 1) : NULL;
            bool joins = m != NULL && before != NULL && same_kind(m, before) &&
                         dtype_of(p, k) == dtype_of(p, k - 1) && !reads_made(x, p, k, first);
            first = joins ? first : k;
            if (m != NULL) {
                note(x, m, joins ? before : NULL);
                x->made[p->tpl.instrs[k].out[0]] = 1 + k;
            } else if (r != NULL) {
                note_alone(x, r);
            }
        }
    }
}

/* ---- sizes ---- */

/* Puts Reshard @k in the bucket of its neighbour, unless that is full. Each collective is looked at
 * once, by the smallest of its ranks; its neighbour was before. */
static void place(struct joining *x, const struct hsp_program *p, uint32_t k)
{
    const struct hsp_move *m = move_of(p, k);
    uint32_t me = 1 + m->channel;
    struct collective *c = &x->c[me];
    if (c->head != 0) {
        return;
    }
    const struct collective *before = &x->c[c->before];
    bool joins = c->before != 0 && c->agree == m->n_ranks && !c->alone && !before->alone &&
                 x->c[before->head].bytes < x->least;
    c->head = joins ? before->head : me;
    x->c[c->head].n++;
    x->c[c->head].bytes += (uint64_t)hsp_memory_of_move(p, k, m);
}

static void place_rank(struct joining *x, const struct hsp_program *p)
{
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        if (move_of(p, k) != NULL) {
            place(x, p, k);
        }
    }
}

/* ---- numbers ---- */

static void number(const struct joining *x, struct hsp_program *p)
{
    uint32_t last = 0, head = 0;
    for (uint32_t k = 0; k < p->tpl.n_instrs; k++) {
        const struct hsp_move *m = move_of(p, k);
        uint32_t of = m != NULL ? x->c[1 + m->channel].head : 0;
        if (of == 0 || x->c[of].n < 2) {
            head = 0;
            continue;
        }
        last += of != head;
        head = of;
        p->bind.reshard[p->tpl.instrs[k].arg].bucket = last;
    }
    p->bind.buckets = last > 0;
    p->bind.comm_bytes = hsp_memory_comm(p);
}

enum hsp_status hsp_buckets_make(struct hsp_program *programs, uint32_t n, uint64_t least,
                                 struct hsp_err *err)
{
    struct joining x = {.p = programs, .n = n, .least = least};
    if (least == 0) {
        return HSP_OK;
    }
    enum hsp_status rc = HSP_OK;
    x.c = calloc((size_t)count_channels(&x) + 1, sizeof *x.c);
    x.made = calloc((size_t)most_tensors(&x) + 1, sizeof *x.made);
    if (x.c == NULL || x.made == NULL) {
        rc = hsp_err_nomem(err, "the buckets of a plan");
    }
    for (uint32_t r = 0; rc == HSP_OK && r < n; r++) {
        note_rank(&x, &programs[r]);
    }
    for (uint32_t r = 0; rc == HSP_OK && r < n; r++) {
        place_rank(&x, &programs[r]);
    }
    for (uint32_t r = 0; rc == HSP_OK && r < n; r++) {
        number(&x, &programs[r]);
    }
    free(x.c);
    free(x.made);
    return rc;
}
