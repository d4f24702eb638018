#include "daemon/spmd/schedule/memory_plan.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/spmd/schedule/early_sums.h"
#include "proto/base/size.h"
#include "proto/layout/box.h"

#define MAX_BYTES  (INT64_C(1) << 62)
#define PAGE_BYTES 4096

/* A tensor of one segment with the instructions between which it is in use. */
struct life {
    uint32_t tensor, first, last;
};

struct layout {
    struct hsp_program *p;
    struct life *life; /* SCRATCH tensors of the running segment; owned */
    uint32_t n;
    uint32_t *slot; /* [tensor]: 1 + its life, 0: none; owned */
    bool *eval;     /* [tensor]: touched by Eval; owned */
    bool *apart;    /* [tensor]: SCRATCH of Post that is written before it begins; owned */
};

static enum hsp_status grow_to(int64_t *top, const struct hsp_tensor_bind *t, struct hsp_err *err)
{
    int64_t bytes, end;
    if (!hsp_mul_i64(t->slot_bytes, t->n_slots, &bytes) || !hsp_add_i64(*top, bytes, &end) ||
        end > MAX_BYTES) {
        return hsp_err_set(err, HSP_ELIMIT, 0, "tensors of more than 2^62 bytes");
    }
    *top = end;
    return HSP_OK;
}

/* State in the order of the binding's table, which does not depend on the program's first reads:
 * all plans of a pool find it in the same place. */
static enum hsp_status stack_state(struct hsp_program *p, int64_t *top, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    for (uint32_t i = 0; rc == HSP_OK && i < p->bind.n_state; i++) {
        struct hsp_tensor_bind *t = &p->bind.tensor[p->bind.state[i].tensor];
        t->offset = *top;
        rc = grow_to(top, t, err);
    }
    return rc;
}

/* All tensors of one class behind *top. @pick: of those whose mark is @marked; NULL: all. */
static enum hsp_status stack_class(struct hsp_program *p, uint8_t cls, const bool *pick,
                                   bool marked, int64_t *top, struct hsp_err *err)
{
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        if (p->tpl.tensors[i].cls == cls && (pick == NULL || pick[i] == marked)) {
            p->bind.tensor[i].offset = *top;
            enum hsp_status rc = grow_to(top, &p->bind.tensor[i], err);
            if (rc != HSP_OK) {
                return rc;
            }
        }
    }
    return HSP_OK;
}

/* Calls @f for each operand of each instruction of the segment, in order. */
static void each_operand(const struct hsp_program *p, const struct hsp_segment *s, void *ctx,
                         void (*f)(void *ctx, uint32_t tensor, uint32_t instr))
{
    for (uint32_t k = 0; k < s->n_pieces; k++) {
        const struct hsp_piece *q = &p->tpl.pieces[s->first_piece + k];
        for (uint32_t i = q->first; i < q->first + q->n; i++) {
            const struct hsp_instr *in = &p->tpl.instrs[i];
            for (uint8_t o = 0; o < in->n_in + in->n_out; o++) {
                f(ctx, o < in->n_in ? in->in[o] : in->out[o - in->n_in], i);
            }
        }
    }
}

/* Bytes in use up to instruction @last. */
struct gap {
    int64_t lo, hi;
    uint32_t last;
};

/* First fit: the lowest offset from @base on where nothing lies that is in use at the same time.
 * Lives stand in the order in which they begin. */
static enum hsp_status first_fit(struct hsp_program *p, const struct life *l, uint32_t n,
                                 int64_t base, int64_t *top, struct hsp_err *err)
{
    struct gap *busy = calloc((size_t)n + 1, sizeof *busy); /* ascending, disjoint */
    enum hsp_status rc = HSP_OK;
    if (busy == NULL) {
        return hsp_err_nomem(err, "the memory layout of %u tensors", n);
    }
    for (uint32_t i = 0, k = 0; rc == HSP_OK && i < n; i++) {
        struct hsp_tensor_bind *t = &p->bind.tensor[l[i].tensor];
        uint32_t live = 0, at = 0;
        for (uint32_t j = 0; j < k; j++) {
            if (busy[j].last >= l[i].first) {
                busy[live++] = busy[j];
            }
        }
        int64_t lo = base, end;
        for (; at < live && busy[at].lo - lo < t->slot_bytes; at++) {
            lo = busy[at].hi > lo ? busy[at].hi : lo;
        }
        k = live;
        if (t->slot_bytes > 0) {
            memmove(&busy[at + 1], &busy[at], (k - at) * sizeof *busy);
            busy[at] = (struct gap){lo, lo + t->slot_bytes, l[i].last};
            k++;
        }
        t->offset = end = lo;
        rc = grow_to(&end, t, err);
        *top = end > *top ? end : *top;
    }
    free(busy);
    return rc;
}

static int64_t cell_elements(const struct hsp_cell *c, int64_t batch)
{
    struct hsp_box b = c->box;
    if (b.rank > 0 && b.hi[0] == HSP_TO_END) {
        b.hi[0] = batch;
    }
    return hsp_box_count(&b);
}

/* Bytes of a move on this rank: packed to leave, packed as they came, and the transport's copies of
 * messages. */
struct packed {
    int64_t out, in, kept;
};

/* A buffer grows to whole pages and one more (worker/exec/staging.c). */
static int64_t pages(int64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES;
}

/* Bytes of its cells: of all, of those whose root this rank is. Messages begin at multiples of 64.
 */
static int64_t count_cells(const struct hsp_binding *b, const struct hsp_move *m, int64_t elem,
                           int64_t *ret_root)
{
    int64_t all = 0;
    *ret_root = 0;
    for (uint32_t j = 0; j < m->n_cells; j++) {
        int64_t bytes = cell_elements(&m->cells[j], b->symbol[HSP_SYM_BATCH]) * elem;
        bytes = m->kind == HSP_MOVE_P2P ? (bytes + 63) / 64 * 64 : bytes;
        bool mine = m->kind != HSP_MOVE_ALL_REDUCE && m->ranks[m->cells[j].root] == b->rank;
        all += bytes;
        *ret_root += mine ? bytes : 0;
    }
    return all;
}

static struct packed pack_move(const struct hsp_binding *b, const struct hsp_move *m, int64_t elem)
{
    int64_t root, all = count_cells(b, m, elem, &root);
    bool told;
    switch ((enum hsp_move_kind)m->kind) {
    case HSP_MOVE_COPY: break;
    case HSP_MOVE_P2P: return (struct packed){root, all - root, all};
    case HSP_MOVE_ALL_REDUCE: return (struct packed){.out = all};
    case HSP_MOVE_REDUCE_SCATTER: return (struct packed){.out = all, .in = root};
    case HSP_MOVE_ALL_GATHER: return (struct packed){.in = all};
    case HSP_MOVE_REDUCE_SEND:
        told = m->n_cells > 0 && m->ranks[m->cells[0].peer] == b->rank;
        return (struct packed){told ? 0 : all, told ? all : root, told ? all : root};
    }
    return (struct packed){0};
}

static int64_t element(const struct hsp_program *p, uint32_t instr)
{
    return (int64_t)hsp_dtype_size(
        (enum hsp_dtype)p->tpl.tensors[p->tpl.instrs[instr].out[0]].dtype);
}

int64_t hsp_memory_of_cell(const struct hsp_program *p, uint32_t instr, const struct hsp_move *m,
                           uint32_t cell)
{
    return cell_elements(&m->cells[cell], p->bind.symbol[HSP_SYM_BATCH]) * element(p, instr);
}

int64_t hsp_memory_of_move(const struct hsp_program *p, uint32_t instr, const struct hsp_move *m)
{
    int64_t root;
    return count_cells(&p->bind, m, element(p, instr), &root);
}

int64_t hsp_memory_comm(const struct hsp_program *p)
{
    struct packed most = {0}, all = {0}; /* all: of the bucket so far */
    uint32_t bucket = 0;
    bool any = false;
    for (uint32_t i = 0; i < p->tpl.n_instrs; i++) {
        const struct hsp_instr *in = &p->tpl.instrs[i];
        if (in->kind != HSP_I_RESHARD) {
            continue;
        }
        const struct hsp_reshard_bind *r = &p->bind.reshard[in->arg];
        for (uint32_t k = 0; k < r->n_moves; k++) {
            if (r->moves[k].kind == HSP_MOVE_COPY) {
                continue;
            }
            struct packed x = pack_move(&p->bind, &r->moves[k], element(p, i));
            bool joined = r->bucket != 0 && r->bucket == bucket;
            all.out = x.out + (joined ? all.out : 0);
            all.in = x.in + (joined ? all.in : 0);
            bucket = r->bucket;
            any = true;
            most.out = all.out > most.out ? all.out : most.out;
            most.in = all.in > most.in ? all.in : most.in;
            most.kept = x.kept > most.kept ? x.kept : most.kept;
        }
    }
    return any ? pages(most.out) + pages(most.in) + most.kept : 0;
}

static void mark_eval(void *ctx, uint32_t tensor, uint32_t instr)
{
    struct layout *x = ctx;
    (void)instr;
    x->eval[tensor] = true;
}

static void note_life(void *ctx, uint32_t tensor, uint32_t instr)
{
    struct layout *x = ctx;
    if (x->p->tpl.tensors[tensor].cls != HSP_CLASS_SCRATCH || x->apart[tensor]) {
        return;
    }
    if (x->slot[tensor] == 0) {
        x->life[x->n] = (struct life){.tensor = tensor, .first = instr, .last = instr};
        x->slot[tensor] = ++x->n;
    }
    x->life[x->slot[tensor] - 1].last = instr;
}

/* SCRATCH of a segment from @base on. */
static enum hsp_status lay_scratch(struct layout *x, const struct hsp_segment *s, int64_t base,
                                   int64_t *top, struct hsp_err *err)
{
    x->n = 0;
    each_operand(x->p, s, x, note_life);
    enum hsp_status rc = first_fit(x->p, x->life, x->n, base, top, err);
    for (uint32_t k = 0; k < x->n; k++) {
        x->slot[x->life[k].tensor] = 0;
    }
    return rc;
}

/* Pieces of SERVE stand between those of other segments: its SCRATCH is below that of all others.
 */
static enum hsp_status lay_serve(struct layout *x, int64_t *top, struct hsp_err *err)
{
    enum hsp_status rc = HSP_OK;
    int64_t base = *top;
    for (uint32_t i = 0; rc == HSP_OK && i < x->p->tpl.n_segments; i++) {
        const struct hsp_segment *s = &x->p->tpl.segments[i];
        rc = s->kind == HSP_SEG_SERVE ? lay_scratch(x, s, base, top, err) : HSP_OK;
    }
    return rc;
}

/* Keeps sums of gradients that are made during backward apart from backward's own memory. */
static enum hsp_status lay_sums(struct layout *x, int64_t *top, struct hsp_err *err)
{
    uint32_t n, piece = hsp_sum_piece(&x->p->tpl, &n);
    enum hsp_status rc = HSP_OK;
    for (uint32_t k = 0; piece != UINT32_MAX && k < n; k++) {
        uint32_t out = x->p->tpl.instrs[x->p->tpl.pieces[piece].first + k].out[0];
        if (rc == HSP_OK && x->p->tpl.tensors[out].cls == HSP_CLASS_SCRATCH && !x->apart[out]) {
            x->apart[out] = true;
            x->p->bind.tensor[out].offset = *top;
            rc = grow_to(top, &x->p->bind.tensor[out], err);
        }
    }
    return rc;
}

/* STATE; HOST; then STEP, MICRO and SCRATCH. @early: sums of gradients may begin in backward. */
static enum hsp_status assign(struct layout *x, bool early, int64_t *state, int64_t *host,
                              int64_t *top, struct hsp_err *err)
{
    struct hsp_program *p = x->p;
    int64_t step = 0;
    enum hsp_status rc = stack_state(p, state, err);
    if (rc == HSP_OK) {
        rc = stack_class(p, HSP_CLASS_HOST, NULL, false, host, err);
    }
    if (rc == HSP_OK) {
        rc = stack_class(p, HSP_CLASS_STEP, NULL, false, &step, err);
    }
    for (uint32_t i = 0; i < p->tpl.n_segments; i++) {
        if (p->tpl.segments[i].kind == HSP_SEG_EVAL) {
            each_operand(p, &p->tpl.segments[i], x, mark_eval);
        }
    }
    rc = rc == HSP_OK && early ? lay_sums(x, &step, err) : rc;
    rc = rc == HSP_OK ? lay_serve(x, &step, err) : rc;
    int64_t train = step, eval = step;
    if (rc == HSP_OK) {
        rc = stack_class(p, HSP_CLASS_MICRO, x->eval, false, &train, err);
    }
    if (rc == HSP_OK) {
        rc = stack_class(p, HSP_CLASS_MICRO, x->eval, true, &eval, err);
    }
    *top = train > eval ? train : eval;
    for (uint32_t i = 0; rc == HSP_OK && i < p->tpl.n_segments; i++) {
        const struct hsp_segment *s = &p->tpl.segments[i];
        int64_t base = s->kind == HSP_SEG_POST ? step : s->kind == HSP_SEG_EVAL ? eval : train;
        rc = s->kind != HSP_SEG_SERVE ? lay_scratch(x, s, base, top, err) : HSP_OK;
    }
    return rc;
}

enum hsp_status hsp_memory_assign(struct hsp_program *p, bool early, struct hsp_err *err)
{
    int64_t state = 0, host = 0, top = 0;
    size_t n = (size_t)p->tpl.n_tensors + 1;
    struct layout x = {.p = p};
    enum hsp_status rc;
    x.life = calloc(n, sizeof *x.life);
    x.slot = calloc(n, sizeof *x.slot);
    x.eval = calloc(n, sizeof *x.eval);
    x.apart = calloc(n, sizeof *x.apart);
    if (x.life == NULL || x.slot == NULL || x.eval == NULL || x.apart == NULL) {
        rc = hsp_err_nomem(err, "the memory layout of %u tensors", p->tpl.n_tensors);
    } else {
        rc = assign(&x, early, &state, &host, &top, err);
    }
    free(x.life);
    free(x.slot);
    free(x.eval);
    free(x.apart);
    p->bind.state_bytes = state;
    p->bind.memory_bytes = top;
    p->bind.host_bytes = host;
    p->bind.comm_bytes = hsp_memory_comm(p);
    return rc;
}
