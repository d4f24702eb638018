#include "daemon/spmd/schedule/early_sums.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/schedule/queue_hazards.h"

/* A bucket: sums of gradients that travel as one collective. The sums are instructions [first, end)
 * of the piece of sums. Their operands are final before instruction @instr in entry @at of the
 * tail; at 0 and instr 0: before the tail. */
struct sums {
    uint32_t first, end;
    uint32_t at, instr;
};

struct early {
    struct hsp_program *p;
    uint32_t piece, n_moves;      /* of the sums; Reshards at its beginning */
    struct hsp_sched_entry *tail; /* compute entries behind all other communication; owned */
    uint32_t n_tail, first_tail;  /* first: its number in the compute queue */
    struct sums *sums;            /* owned */
    uint32_t n_sums;
    uint32_t *at, *instr; /* [tensor]: where the tail writes it last; owned */
    struct hsp_waits *waits;
    uint32_t cap[HSP_N_QUEUES];
    struct hsp_arena *arena;
    struct hsp_err *err;
};

uint32_t hsp_sum_piece(const struct hsp_template *t, uint32_t *ret_n)
{
    uint32_t piece = UINT32_MAX;
    *ret_n = 0;
    for (uint32_t s = 0; s < t->n_segments; s++) {
        const struct hsp_segment *g = &t->segments[s];
        if (g->kind == HSP_SEG_SERVE) {
            return UINT32_MAX;
        }
        piece = g->kind == HSP_SEG_POST && g->n_pieces > 0 ? g->first_piece : piece;
    }
    if (piece == UINT32_MAX || t->pieces[piece].queue != HSP_QUEUE_COMM) {
        return UINT32_MAX;
    }
    const struct hsp_piece *q = &t->pieces[piece];
    while (*ret_n < q->n && t->instrs[q->first + *ret_n].kind == HSP_I_RESHARD) {
        ++*ret_n;
    }
    return *ret_n > 0 ? piece : UINT32_MAX;
}

static enum hsp_status no_memory(const struct early *x)
{
    return hsp_err_nomem(x->err, "the schedule");
}

/* ---- the tail ---- */

/* Returns the index in the communication queue of the entry that runs the piece of sums. */
static uint32_t sum_entry(const struct early *x)
{
    const struct hsp_sched *s = &x->p->bind.train;
    uint32_t k = 0;
    while (k < s->n[HSP_QUEUE_COMM] && s->e[HSP_QUEUE_COMM][k].piece != x->piece) {
        k++;
    }
    return k;
}

/* Finds the tail, the compute entries that may run while the sums run. The tail begins after the
 * entries for which the last communication before the sums waits, and ends before the first entry
 * that waits for the sums. */
static bool find_tail(struct early *x)
{
    const struct hsp_sched *s = &x->p->bind.train;
    const struct hsp_sched_entry *e = s->e[HSP_QUEUE_COMPUTE], *comm = s->e[HSP_QUEUE_COMM];
    uint32_t sums = sum_entry(x), end = 0;
    for (uint32_t k = 0; k < sums; k++) {
        x->first_tail = comm[k].wait > x->first_tail ? comm[k].wait : x->first_tail;
    }
    for (uint32_t k = 0; k < s->n[HSP_QUEUE_COMPUTE] && e[k].wait <= sums; k++) {
        end = k + 1;
    }
    x->n_tail = end > x->first_tail ? end - x->first_tail : 0;
    x->tail = malloc((x->n_tail + 1) * sizeof *x->tail);
    if (x->tail != NULL && x->n_tail > 0) {
        memcpy(x->tail, e + x->first_tail, x->n_tail * sizeof *x->tail);
    }
    return x->tail != NULL;
}

static void note_writes(struct early *x)
{
    const struct hsp_template *t = &x->p->tpl;
    for (uint32_t k = 0; k < x->n_tail; k++) {
        uint32_t first, end = hsp_entry_end(t, &x->tail[k], &first);
        for (uint32_t i = first; i < end; i++) {
            for (uint8_t o = 0; o < t->instrs[i].n_out; o++) {
                x->at[t->instrs[i].out[o]] = k;
                x->instr[t->instrs[i].out[o]] = 1 + i;
            }
        }
    }
}

/* ---- sums ---- */

static uint32_t bucket_of(const struct hsp_program *p, uint32_t instr)
{
    return p->bind.buckets ? p->bind.reshard[p->tpl.instrs[instr].arg].bucket : 0;
}

/* Lists the buckets of the piece, the last one first. Each bucket is final no earlier than the
 * bucket listed before it. */
static bool list_sums(struct early *x)
{
    const struct hsp_template *t = &x->p->tpl;
    const struct hsp_piece *q = &t->pieces[x->piece];
    struct sums last = {0};
    x->sums = calloc((size_t)x->n_moves + 1, sizeof *x->sums);
    if (x->sums == NULL) {
        return false;
    }
    for (uint32_t end = q->first + x->n_moves; end > q->first;) {
        uint32_t first = end - 1, bucket = bucket_of(x->p, first);
        while (bucket != 0 && first > q->first && bucket_of(x->p, first - 1) == bucket) {
            first--;
        }
        last.first = first;
        last.end = end;
        for (uint32_t i = first; i < end; i++) {
            for (uint8_t o = 0; o < t->instrs[i].n_in; o++) {
                uint32_t in = t->instrs[i].in[o];
                bool later =
                    x->at[in] > last.at || (x->at[in] == last.at && x->instr[in] > last.instr);
                last.at = later ? x->at[in] : last.at;
                last.instr = later ? x->instr[in] : last.instr;
            }
        }
        x->sums[x->n_sums++] = last;
        end = first;
    }
    return true;
}

/* ---- entries ---- */

static enum hsp_status add_entry(struct early *x, struct hsp_sched_entry e)
{
    int queue = x->p->tpl.pieces[e.piece].queue;
    struct hsp_sched *s = &x->p->bind.early;
    uint32_t number = s->n[queue] + 1;
    if (number > HSP_MAX_SCHED) {
        return hsp_err_set(x->err, HSP_ELIMIT, 0, "schedule of more than %d entries",
                           HSP_MAX_SCHED);
    }
    if (number > x->cap[queue]) {
        uint32_t cap = x->cap[queue] == 0 ? 64 : 2 * x->cap[queue];
        struct hsp_sched_entry *more = hsp_arena_array(x->arena, cap, sizeof *more);
        if (more == NULL) {
            return no_memory(x);
        }
        if (number > 1) {
            memcpy(more, s->e[queue], (number - 1) * sizeof *more);
        }
        x->cap[queue] = cap;
        s->e[queue] = more;
    }
    e.wait = hsp_waits_part(x->waits, &e, number);
    s->e[queue][number - 1] = e;
    s->n[queue] = number;
    return HSP_OK;
}

/* Adds the instructions [first, end) of entry @of; if these are all its instructions, adds the
 * entry as a whole. */
static enum hsp_status add_part(struct early *x, const struct hsp_sched_entry *of, uint32_t first,
                                uint32_t end)
{
    const struct hsp_piece *q = &x->p->tpl.pieces[of->piece];
    struct hsp_sched_entry e = {.piece = of->piece, .micro = of->micro};
    if (first == end) {
        return HSP_OK;
    }
    if (end - first < q->n) {
        e.first = first - q->first;
        e.n = end - first;
    }
    return add_entry(x, e);
}

/* Adds entry @k of the tail, and after each of its parts the sums that are then final. *at is the
 * next bucket to add. */
static enum hsp_status add_tail(struct early *x, uint32_t k, uint32_t *at)
{
    const struct hsp_sched_entry sums = {.piece = x->piece};
    uint32_t from, end = hsp_entry_end(&x->p->tpl, &x->tail[k], &from);
    enum hsp_status rc = HSP_OK;
    for (; rc == HSP_OK && *at < x->n_sums && x->sums[*at].at == k; ++*at) {
        const struct sums *s = &x->sums[*at];
        uint32_t to = s->instr > from ? s->instr : from;
        rc = add_part(x, &x->tail[k], from, to);
        rc = rc == HSP_OK ? add_part(x, &sums, s->first, s->end) : rc;
        from = to;
    }
    return rc == HSP_OK ? add_part(x, &x->tail[k], from, end) : rc;
}

/* Adds the entries of both queues up to the numbers @end, in an order that their waits allow. */
static enum hsp_status add_until(struct early *x, uint32_t done[HSP_N_QUEUES],
                                 const uint32_t end[HSP_N_QUEUES])
{
    const struct hsp_sched *s = &x->p->bind.train;
    enum hsp_status rc = HSP_OK;
    while (rc == HSP_OK && (done[0] < end[0] || done[1] < end[1])) {
        int q = HSP_QUEUE_COMM;
        if (done[q] >= end[q] || s->e[q][done[q]].wait > done[HSP_QUEUE_COMPUTE]) {
            q = HSP_QUEUE_COMPUTE;
        }
        if (done[q] >= end[q]) { /* hsp_program_check: the queues end */
            return hsp_err_set(x->err, HSP_EINVAL, 0, "schedule: queues wait in a circle");
        }
        rc = add_entry(x, s->e[q][done[q]++]);
    }
    return rc;
}

static enum hsp_status make(struct early *x)
{
    const struct hsp_sched *s = &x->p->bind.train;
    const struct hsp_piece *q = &x->p->tpl.pieces[x->piece];
    const struct hsp_sched_entry sums_of = {.piece = x->piece};
    uint32_t sums = sum_entry(x), done[HSP_N_QUEUES] = {0}, next = 0;
    uint32_t before[HSP_N_QUEUES] = {[HSP_QUEUE_COMPUTE] = x->first_tail, [HSP_QUEUE_COMM] = sums};
    enum hsp_status rc = add_until(x, done, before);
    for (uint32_t k = 0; rc == HSP_OK && k < x->n_tail; k++) {
        rc = add_tail(x, k, &next);
    }
    for (; rc == HSP_OK && next < x->n_sums; next++) {
        rc = add_part(x, &sums_of, x->sums[next].first, x->sums[next].end);
    }
    if (rc == HSP_OK) {
        rc = add_part(x, &sums_of, q->first + x->n_moves, q->first + q->n);
    }
    done[HSP_QUEUE_COMPUTE] += x->n_tail;
    done[HSP_QUEUE_COMM]++;
    return rc == HSP_OK ? add_until(x, done, s->n) : rc;
}

enum hsp_status hsp_early_make(struct hsp_program *p, struct hsp_arena *arena, struct hsp_err *err)
{
    struct early x = {.p = p, .arena = arena, .err = err};
    enum hsp_status rc = HSP_OK;
    x.piece = hsp_sum_piece(&p->tpl, &x.n_moves);
    p->bind.early = (struct hsp_sched){0};
    if (x.piece == UINT32_MAX) {
        return HSP_OK;
    }
    x.at = calloc((size_t)p->tpl.n_tensors + 1, sizeof *x.at);
    x.instr = calloc((size_t)p->tpl.n_tensors + 1, sizeof *x.instr);
    if (x.at == NULL || x.instr == NULL || !find_tail(&x)) {
        rc = no_memory(&x);
    }
    if (rc == HSP_OK) {
        note_writes(&x);
        rc = list_sums(&x) ? hsp_waits_new(p, &x.waits, err) : no_memory(&x);
        rc = rc == HSP_OK ? make(&x) : rc;
    }
    x.waits = hsp_waits_free(x.waits);
    free(x.at);
    free(x.instr);
    free(x.tail);
    free(x.sums);
    return rc;
}
