#include "daemon/spmd/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/size.h"

/* ---- last accesses, by bytes ---- */

enum { READ, WRITE, N_ACCESS };

/* For each elementary interval between two boundaries of tensors: the number (from 1) of the last
 * entry of each queue that read or wrote there. Numbers only grow, so a node keeps the largest of
 * its subtree and one that holds for all of it. */
struct node {
    uint32_t best[HSP_N_QUEUES][N_ACCESS], all[HSP_N_QUEUES][N_ACCESS];
};

struct tracker {
    int64_t *edge; /* ascending, unique; owned */
    uint32_t n_edges;
    uint32_t leaves;   /* power of two >= n_edges */
    struct node *node; /* [2 * leaves]; owned */
};

struct span {
    int64_t lo, hi;
};

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static uint32_t edge_index(const struct tracker *t, int64_t v)
{
    uint32_t lo = 0, hi = t->n_edges;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (t->edge[mid] < v) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Largest access (@queue, @kind) in leaves [a, b). */
static uint32_t last_access(const struct tracker *t, uint32_t k, uint32_t lo, uint32_t hi,
                            uint32_t a, uint32_t b, int queue, int kind)
{
    const struct node *x = &t->node[k];
    if (b <= lo || hi <= a) {
        return 0;
    }
    if (a <= lo && hi <= b) {
        return x->best[queue][kind];
    }
    uint32_t mid = (lo + hi) / 2;
    uint32_t sub = larger(last_access(t, 2 * k, lo, mid, a, b, queue, kind),
                          last_access(t, 2 * k + 1, mid, hi, a, b, queue, kind));
    return larger(sub, x->all[queue][kind]);
}

static void set_access(struct tracker *t, uint32_t k, uint32_t lo, uint32_t hi, uint32_t a,
                       uint32_t b, int queue, int kind, uint32_t entry)
{
    struct node *x = &t->node[k];
    if (b <= lo || hi <= a) {
        return;
    }
    x->best[queue][kind] = entry;
    if (a <= lo && hi <= b) {
        x->all[queue][kind] = entry;
        return;
    }
    uint32_t mid = (lo + hi) / 2;
    set_access(t, 2 * k, lo, mid, a, b, queue, kind, entry);
    set_access(t, 2 * k + 1, mid, hi, a, b, queue, kind, entry);
}

/* Beyond the memory: one unit each for the step's statistics and the outcome of the vote. */
static struct span stat_span(const struct hsp_program *p)
{
    return (struct span){p->bind.memory_bytes, p->bind.memory_bytes + 1};
}

static struct span vote_span(const struct hsp_program *p)
{
    return (struct span){p->bind.memory_bytes + 1, p->bind.memory_bytes + 2};
}

static struct span tensor_span(const struct hsp_program *p, uint32_t tensor, uint32_t micro)
{
    const struct hsp_tensor_bind *t = &p->bind.tensor[tensor];
    if (p->tpl.tensors[tensor].cls == HSP_CLASS_STATE) {
        return (struct span){0, 0}; /* reads version t, writes t + 1: other bytes */
    }
    int64_t at = t->offset + (int64_t)(micro % t->n_slots) * t->slot_bytes;
    return (struct span){at, at + t->slot_bytes};
}

static enum hsp_status tracker_init(struct tracker *t, const struct hsp_program *p,
                                    struct hsp_err *err)
{
    size_t n = 0, u = 0;
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        n += (size_t)p->bind.tensor[i].n_slots + 1;
    }
    *t = (struct tracker){.leaves = 1};
    t->edge = calloc(n + 4, sizeof *t->edge);
    if (t->edge == NULL) {
        return hsp_err_set(err, HSP_ENOMEM, 0, "schedule");
    }
    n = 0;
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        const struct hsp_tensor_bind *b = &p->bind.tensor[i];
        for (uint32_t k = 0; k <= b->n_slots && p->tpl.tensors[i].cls != HSP_CLASS_STATE; k++) {
            t->edge[n++] = b->offset + (int64_t)k * b->slot_bytes;
        }
    }
    for (int64_t k = 0; k < 3; k++) {
        t->edge[n++] = p->bind.memory_bytes + k;
    }
    qsort(t->edge, n, sizeof *t->edge, by_value);
    for (size_t i = 0; i < n; i++) {
        if (u == 0 || t->edge[u - 1] != t->edge[i]) {
            t->edge[u++] = t->edge[i];
        }
    }
    t->n_edges = (uint32_t)u;
    while (t->leaves < t->n_edges) {
        t->leaves *= 2;
    }
    t->node = calloc(2 * (size_t)t->leaves, sizeof *t->node);
    return t->node != NULL ? HSP_OK : hsp_err_set(err, HSP_ENOMEM, 0, "schedule");
}

static void tracker_fini(struct tracker *t)
{
    free(t->edge);
    free(t->node);
}

/* ---- building ---- */

struct builder {
    struct hsp_program *p;
    struct tracker *t;
    struct hsp_sched *s;
    uint32_t cap[HSP_N_QUEUES];
    struct hsp_arena *arena;
    struct hsp_err *err;
};

/* One access of the running entry: what it must wait for in the other queue. */
static uint32_t conflict(const struct builder *b, struct span s, int queue, int kind)
{
    int other = queue == HSP_QUEUE_COMPUTE ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE;
    if (s.lo >= s.hi) {
        return 0;
    }
    uint32_t x = edge_index(b->t, s.lo), y = edge_index(b->t, s.hi);
    uint32_t w = last_access(b->t, 1, 0, b->t->leaves, x, y, other, WRITE);
    return kind == READ ? w : larger(w, last_access(b->t, 1, 0, b->t->leaves, x, y, other, READ));
}

static void mark(const struct builder *b, struct span s, int queue, int kind, uint32_t entry)
{
    if (s.lo < s.hi) {
        set_access(b->t, 1, 0, b->t->leaves, edge_index(b->t, s.lo), edge_index(b->t, s.hi), queue,
                   kind, entry);
    }
}

struct access {
    struct span at;
    int kind;
};

#define MAX_ACCESS (HSP_MAX_IN + HSP_MAX_OUT + 3)

static uint32_t accesses(const struct hsp_program *p, const struct hsp_instr *i, uint32_t micro,
                         struct access *ret)
{
    uint32_t n = 0;
    for (uint8_t k = 0; k < i->n_in; k++) {
        ret[n++] = (struct access){tensor_span(p, i->in[k], micro), READ};
    }
    for (uint8_t k = 0; k < i->n_out; k++) {
        bool sends = i->kind == HSP_I_RESHARD && i->n_in > 0 && i->in[0] == i->out[k];
        if (!sends) { /* such an output is only named, see specialize.c */
            ret[n++] = (struct access){tensor_span(p, i->out[k], micro), WRITE};
        }
    }
    bool update = i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM);
    if (i->kind == HSP_I_STAT) {
        ret[n++] = (struct access){stat_span(p), WRITE};
    } else if (i->kind == HSP_I_VOTE) {
        ret[n++] = (struct access){stat_span(p), WRITE};
        ret[n++] = (struct access){vote_span(p), WRITE};
    } else if (update || i->kind == HSP_I_SEAL) {
        ret[n++] = (struct access){vote_span(p), READ};
    }
    return n;
}

static enum hsp_status add_entry(struct builder *b, uint32_t piece, uint32_t micro)
{
    const struct hsp_piece *q = &b->p->tpl.pieces[piece];
    struct access a[MAX_ACCESS];
    uint32_t wait = 0, number = b->s->n[q->queue] + 1;
    if (number > HSP_MAX_SCHED) {
        return hsp_err_set(b->err, HSP_ELIMIT, 0, "schedule of more than %d entries",
                           HSP_MAX_SCHED);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = q->first; i < q->first + q->n; i++) {
            uint32_t n = accesses(b->p, &b->p->tpl.instrs[i], micro, a);
            for (uint32_t k = 0; k < n; k++) {
                if (pass == 0) {
                    wait = larger(wait, conflict(b, a[k].at, q->queue, a[k].kind));
                } else {
                    mark(b, a[k].at, q->queue, a[k].kind, number);
                }
            }
        }
    }
    struct hsp_sched_entry *e = b->s->e[q->queue];
    if (number > b->cap[q->queue]) {
        uint32_t cap = b->cap[q->queue] == 0 ? 64 : 2 * b->cap[q->queue];
        e = hsp_arena_array(b->arena, cap, sizeof *e);
        if (e == NULL) {
            return hsp_err_set(b->err, HSP_ENOMEM, 0, "schedule");
        }
        if (number > 1) {
            memcpy(e, b->s->e[q->queue], (number - 1) * sizeof *e);
        }
        b->cap[q->queue] = cap;
        b->s->e[q->queue] = e;
    }
    e[number - 1] = (struct hsp_sched_entry){.piece = piece, .micro = micro, .wait = wait};
    b->s->n[q->queue] = number;
    return HSP_OK;
}

static enum hsp_status add_segment(struct builder *b, const struct hsp_unit *u)
{
    for (uint32_t i = 0; i < b->p->tpl.n_segments; i++) {
        const struct hsp_segment *s = &b->p->tpl.segments[i];
        bool here = s->kind == u->kind && s->chunk == u->chunk;
        for (uint32_t k = 0; here && k < s->n_pieces; k++) {
            enum hsp_status rc = add_entry(b, s->first_piece + k, u->micro);
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    return HSP_OK;
}

static enum hsp_status add_units(struct builder *b, const struct hsp_unit *u, uint32_t n)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < n; i++) {
        rc = add_segment(b, &u[i]);
    }
    return rc;
}

static enum hsp_status make_train(struct builder *b, const struct hsp_order *o)
{
    enum hsp_status rc = add_segment(b, &(const struct hsp_unit){.kind = HSP_SEG_PRE});
    if (rc == HSP_OK) {
        rc = add_units(b, o->train, o->n_train);
    }
    return rc == HSP_OK ? add_segment(b, &(const struct hsp_unit){.kind = HSP_SEG_POST}) : rc;
}

static enum hsp_status make_eval(struct builder *b, const struct hsp_order *o)
{
    if (b->p->bind.data.validation_every == 0 || b->p->bind.data.eval_seqs == 0) {
        return HSP_OK;
    }
    enum hsp_status rc = add_segment(b, &(const struct hsp_unit){.kind = HSP_SEG_PRE});
    return rc == HSP_OK ? add_units(b, o->eval, o->n_eval) : rc;
}

enum hsp_status hsp_schedule_make(struct hsp_program *p, const struct hsp_order *o,
                                  struct hsp_arena *arena, struct hsp_err *err)
{
    struct tracker t;
    struct builder b = {.p = p, .t = &t, .s = &p->bind.train, .arena = arena, .err = err};
    enum hsp_status rc = tracker_init(&t, p, err);
    if (rc == HSP_OK) {
        rc = make_train(&b, o);
    }
    if (rc == HSP_OK) { /* eval is a schedule of its own: nothing before it to wait for */
        memset(t.node, 0, 2 * (size_t)t.leaves * sizeof *t.node);
        b.s = &p->bind.eval;
        memset(b.cap, 0, sizeof b.cap);
        rc = make_eval(&b, o);
    }
    tracker_fini(&t);
    return rc;
}
