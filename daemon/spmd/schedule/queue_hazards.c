#include "daemon/spmd/schedule/queue_hazards.h"

#include <stdlib.h>
#include <string.h>

enum { READ, WRITE, N_ACCESS };
enum { AREA_GAP = 64 };

/* Intervals [lo, hi) that one slot of a tensor is made of. */
struct range {
    uint32_t lo, hi;
};

/* A tensor that a piece touches. */
struct touch {
    uint32_t tensor; /* or n_tensors: statistics, n_tensors + 1: vote */
    bool does[N_ACCESS];
};

struct hsp_waits {
    const struct hsp_program *p;
    uint32_t n;                             /* intervals */
    uint32_t *last[HSP_N_QUEUES][N_ACCESS]; /* [n]: entry, from 1; 0: none; owned, one block */
    uint32_t *first_slot;                   /* [tensor]: of slot 0 in range; owned */
    struct range *range;                    /* owned */
    uint32_t *first_touch;                  /* [piece], and the end; owned */
    struct touch *touch;                    /* owned; from @part on, room for one instruction */
    uint32_t part;
    uint32_t *seen; /* [tensor], for parts; owned */
};

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static uint32_t index_of(const int64_t *edge, uint32_t n, int64_t v)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (edge[mid] < v) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Where it begins. The areas are thought one behind the other: the device's memory, statistics and
 * vote, the host's memory, the state. */
static int64_t begin_of(const struct hsp_program *p, uint32_t tensor)
{
    const struct hsp_binding *b = &p->bind;
    int64_t host = b->memory_bytes + AREA_GAP, state = host + b->host_bytes + AREA_GAP;
    uint8_t cls = p->tpl.tensors[tensor].cls;
    return b->tensor[tensor].offset + (cls == HSP_CLASS_STATE  ? state
                                       : cls == HSP_CLASS_HOST ? host
                                                               : 0);
}

/* ---- intervals ---- */

/* Boundaries of slots, ascending and unique. */
static uint32_t list_edges(const struct hsp_program *p, int64_t *edge)
{
    size_t n = 0;
    uint32_t u = 0;
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        const struct hsp_tensor_bind *b = &p->bind.tensor[i];
        for (uint32_t k = 0; k <= b->n_slots; k++) {
            edge[n++] = begin_of(p, i) + (int64_t)k * b->slot_bytes;
        }
    }
    for (int64_t k = 0; k < 3; k++) {
        edge[n++] = p->bind.memory_bytes + k;
    }
    qsort(edge, n, sizeof *edge, by_value);
    for (size_t i = 0; i < n; i++) {
        if (u == 0 || edge[u - 1] != edge[i]) {
            edge[u++] = edge[i];
        }
    }
    return u;
}

static bool make_ranges(struct hsp_waits *w, size_t n_slots)
{
    const struct hsp_program *p = w->p;
    uint32_t n_tensors = p->tpl.n_tensors, at = 0;
    int64_t *edge = calloc(n_slots + n_tensors + 3, sizeof *edge);
    w->range = calloc(n_slots + 2, sizeof *w->range);
    w->first_slot = calloc((size_t)n_tensors + 2, sizeof *w->first_slot);
    if (edge == NULL || w->range == NULL || w->first_slot == NULL) {
        free(edge);
        return false;
    }
    w->n = list_edges(p, edge);
    for (uint32_t i = 0; i < n_tensors + 2; i++) {
        bool real = i < n_tensors;
        int64_t lo = real ? begin_of(p, i) : p->bind.memory_bytes + i - n_tensors;
        int64_t bytes = real ? p->bind.tensor[i].slot_bytes : 1;
        uint32_t slots = real ? p->bind.tensor[i].n_slots : 1;
        w->first_slot[i] = at;
        for (uint32_t k = 0; k < slots; k++) {
            w->range[at].lo = index_of(edge, w->n, lo + (int64_t)k * bytes);
            w->range[at++].hi = index_of(edge, w->n, lo + ((int64_t)k + 1) * bytes);
        }
    }
    free(edge);
    return true;
}

/* ---- the memory that pieces touch ---- */

/* @seen[tensor]: 1 + its touch in the running piece, valid when that is of this piece. */
static void add_touch(struct hsp_waits *w, uint32_t *n, uint32_t from, uint32_t *seen,
                      uint32_t tensor, int kind)
{
    uint32_t at = seen[tensor];
    if (at <= from || at > *n || w->touch[at - 1].tensor != tensor) {
        w->touch[*n] = (struct touch){.tensor = tensor};
        seen[tensor] = at = ++*n;
    }
    w->touch[at - 1].does[kind] = true;
}

static void touch_instr(struct hsp_waits *w, const struct hsp_instr *i, uint32_t *n, uint32_t from,
                        uint32_t *seen)
{
    uint32_t stat = w->p->tpl.n_tensors, vote = stat + 1;
    bool update = i->kind == HSP_I_OP && (i->op == HSP_OP_ADAMW || i->op == HSP_OP_SGDM);
    for (uint8_t k = 0; k < i->n_in; k++) {
        add_touch(w, n, from, seen, i->in[k], READ);
    }
    for (uint8_t k = 0; k < i->n_out; k++) {
        bool sends = i->kind == HSP_I_RESHARD && i->n_in > 0 && i->in[0] == i->out[k];
        if (!sends) { /* such an output is only named, see specialize.c */
            add_touch(w, n, from, seen, i->out[k], WRITE);
        }
    }
    if (i->kind == HSP_I_STAT || i->kind == HSP_I_VOTE) {
        add_touch(w, n, from, seen, stat, WRITE);
    }
    if (i->kind == HSP_I_VOTE) {
        add_touch(w, n, from, seen, vote, WRITE);
    } else if (update || i->kind == HSP_I_SEAL) {
        add_touch(w, n, from, seen, vote, READ);
    }
}

static bool make_touches(struct hsp_waits *w)
{
    const struct hsp_template *t = &w->p->tpl;
    size_t most = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_instrs; i++) {
        most += (size_t)t->instrs[i].n_in + t->instrs[i].n_out + 2;
    }
    uint32_t *seen = calloc((size_t)t->n_tensors + 2, sizeof *seen);
    w->touch = calloc(most + HSP_MAX_IN + HSP_MAX_OUT + 3, sizeof *w->touch);
    w->first_touch = calloc((size_t)t->n_pieces + 1, sizeof *w->first_touch);
    if (seen == NULL || w->touch == NULL || w->first_touch == NULL) {
        free(seen);
        return false;
    }
    for (uint32_t k = 0; k < t->n_pieces; k++) {
        const struct hsp_piece *q = &t->pieces[k];
        w->first_touch[k] = n;
        for (uint32_t i = q->first; i < q->first + q->n; i++) {
            touch_instr(w, &t->instrs[i], &n, w->first_touch[k], seen);
        }
    }
    w->first_touch[t->n_pieces] = w->part = n;
    w->seen = seen;
    return true;
}

/* ---- life ---- */

enum hsp_status hsp_waits_new(const struct hsp_program *p, struct hsp_waits **ret,
                              struct hsp_err *err)
{
    struct hsp_waits *w = calloc(1, sizeof *w);
    size_t n_slots = 0;
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        n_slots += p->bind.tensor[i].n_slots;
    }
    if (w != NULL) {
        w->p = p;
    }
    if (w == NULL || !make_ranges(w, n_slots) || !make_touches(w)) {
        (void)hsp_waits_free(w);
        return hsp_err_nomem(err, "the schedule");
    }
    uint32_t *last = calloc((size_t)w->n * HSP_N_QUEUES * N_ACCESS + 1, sizeof *last);
    if (last == NULL) {
        (void)hsp_waits_free(w);
        return hsp_err_nomem(err, "the schedule");
    }
    for (int q = 0; q < HSP_N_QUEUES; q++) {
        for (int k = 0; k < N_ACCESS; k++) {
            w->last[q][k] = last + (size_t)(q * N_ACCESS + k) * w->n;
        }
    }
    *ret = w;
    return HSP_OK;
}

struct hsp_waits *hsp_waits_free(struct hsp_waits *w)
{
    if (w != NULL) {
        free(w->last[0][0]);
        free(w->first_slot);
        free(w->range);
        free(w->first_touch);
        free(w->touch);
        free(w->seen);
        free(w);
    }
    return NULL;
}

void hsp_waits_reset(struct hsp_waits *w)
{
    memset(w->last[0][0], 0, (size_t)w->n * HSP_N_QUEUES * N_ACCESS * sizeof *w->last[0][0]);
}

/* ---- entries ---- */

static uint32_t largest(const uint32_t *v, struct range r, uint32_t least)
{
    for (uint32_t i = r.lo; i < r.hi; i++) {
        least = v[i] > least ? v[i] : least;
    }
    return least;
}

static struct range range_of(const struct hsp_waits *w, uint32_t tensor, uint32_t micro)
{
    bool real = tensor < w->p->tpl.n_tensors;
    uint32_t slot = real ? micro % w->p->bind.tensor[tensor].n_slots : 0;
    return w->range[w->first_slot[tensor] + slot];
}

/* Entry @number of @queue touches the memory @t: the wait is @wait or more. */
static uint32_t note_touch(struct hsp_waits *w, int queue, const struct touch *t, uint32_t micro,
                           uint32_t number, uint32_t wait)
{
    int other = queue == HSP_QUEUE_COMPUTE ? HSP_QUEUE_COMM : HSP_QUEUE_COMPUTE;
    struct range r = range_of(w, t->tensor, micro);
    wait = largest(w->last[other][WRITE], r, wait);
    if (t->does[WRITE]) {
        wait = largest(w->last[other][READ], r, wait);
    }
    for (int kind = 0; kind < N_ACCESS; kind++) {
        for (uint32_t i = r.lo; t->does[kind] && i < r.hi; i++) {
            w->last[queue][kind][i] = number;
        }
    }
    return wait;
}

uint32_t hsp_waits_next(struct hsp_waits *w, uint32_t piece, uint32_t micro, uint32_t number)
{
    int queue = w->p->tpl.pieces[piece].queue;
    uint32_t wait = 0, end = w->first_touch[piece + 1];
    for (uint32_t k = w->first_touch[piece]; k < end; k++) {
        wait = note_touch(w, queue, &w->touch[k], micro, number, wait);
    }
    return wait;
}

uint32_t hsp_waits_part(struct hsp_waits *w, const struct hsp_sched_entry *e, uint32_t number)
{
    const struct hsp_template *t = &w->p->tpl;
    uint32_t first, end = hsp_entry_end(t, e, &first), wait = 0;
    if (e->n == 0) {
        return hsp_waits_next(w, e->piece, e->micro, number);
    }
    for (uint32_t k = first; k < end; k++) {
        uint32_t n = w->part, from = n;
        touch_instr(w, &t->instrs[k], &n, from, w->seen);
        for (uint32_t i = from; i < n; i++) {
            wait = note_touch(w, t->pieces[e->piece].queue, &w->touch[i], e->micro, number, wait);
        }
    }
    return wait;
}
