#include "worker/exec/output_route.h"

#include <stdlib.h>
#include <string.h>

#include "worker/exec/tensor_uses.h"

/* Facts about a tensor that may be a sum of gradients. */
struct sum {
    uint32_t zero;  /* the instruction that zeroes the tensor */
    uint32_t piece; /* the piece of all additions; HSP_NO_PIECE: no addition so far */
    uint32_t first; /* first addition in the piece */
    uint8_t n_zero;
    /* some instruction also reads or writes the tensor where its value must be complete */
    bool other;
};

struct routing {
    const struct hsp_template *t;
    struct hsp_route *r;
    struct hsp_uses *u;
    struct sum *sum;
    uint8_t *kind; /* kind of the segment of each piece */
};

/* ---- where sums begin ---- */

/* Stores the facts about the outputs of instruction @k of piece @p. */
static void see_output(struct routing *x, uint32_t p, uint32_t k)
{
    const struct hsp_instr *i = &x->t->instrs[k];
    bool once = x->kind[p] == HSP_SEG_PRE || x->kind[p] == HSP_SEG_POST ||
                x->kind[p] == HSP_SEG_SERVE || x->kind[p] == HSP_SEG_EVAL;
    bool compute = x->t->pieces[p].queue == HSP_QUEUE_COMPUTE;
    for (uint8_t j = 0; j < i->n_out; j++) {
        struct sum *s = &x->sum[i->out[j]];
        if (i->kind == HSP_I_ZERO && x->kind[p] == HSP_SEG_PRE && compute && s->n_zero == 0) {
            s->zero = k;
            s->n_zero = 1;
        } else if (i->kind == HSP_I_ACC && !once && compute &&
                   (s->piece == p || s->piece == HSP_NO_PIECE)) {
            s->first = s->piece == p ? s->first : k;
            s->piece = p;
        } else {
            s->other = true;
        }
    }
}

/* Finds the first addition to each sum that need not be zeroed: one piece has all additions, and no
 * instruction reads the sum before the end of the step. */
static void find_beginnings(struct routing *x)
{
    const struct hsp_template *t = x->t;
    for (uint32_t k = 0; k < t->n_tensors; k++) {
        x->sum[k].piece = HSP_NO_PIECE;
    }
    for (uint32_t p = 0; p < t->n_pieces; p++) {
        for (uint32_t k = t->pieces[p].first; k < t->pieces[p].first + t->pieces[p].n; k++) {
            const struct hsp_instr *i = &t->instrs[k];
            for (uint8_t j = 0; j < i->n_in && x->kind[p] != HSP_SEG_POST; j++) {
                x->sum[i->in[j]].other = true;
            }
            see_output(x, p, k);
        }
    }
    for (uint32_t k = 0; k < t->n_tensors; k++) {
        const struct sum *s = &x->sum[k];
        if (!s->other && s->n_zero == 1 && s->piece != HSP_NO_PIECE &&
            t->tensors[k].cls == HSP_CLASS_STEP) {
            x->r[s->zero].begun_by = s->piece;
            x->r[s->first].begins = 1;
        }
    }
}

/* ---- outputs that go to their place ---- */

static bool touches(const struct hsp_instr *i, uint32_t tensor)
{
    bool found = false;
    for (uint8_t j = 0; j < i->n_in; j++) {
        found = found || i->in[j] == tensor;
    }
    for (uint8_t j = 0; j < i->n_out; j++) {
        found = found || i->out[j] == tensor;
    }
    return found;
}

/* Returns true if two tensors have the same type and extents. */
static bool same_form(const struct hsp_ptensor *a, const struct hsp_ptensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->sym, b->sym, a->rank * sizeof(a->sym[0])) == 0;
}

/* Routes output @j of op @k to the sum to which accumulation @to adds it, if no instruction between
 * the two touches the sum. */
static void route_sum(struct routing *x, uint32_t k, uint8_t j, uint32_t to)
{
    const struct hsp_template *t = x->t;
    uint32_t sum = t->instrs[to].out[0];
    bool fits = same_form(&t->tensors[t->instrs[k].out[j]], &t->tensors[sum]);
    for (uint32_t n = k; n < to; n++) {
        fits = fits && !touches(&t->instrs[n], sum);
        for (uint8_t o = 0; o < HSP_MAX_OUT; o++) { /* another output goes to this sum already */
            fits = fits && ((x->r[n].sums >> o & 1) == 0 || x->r[n].out[o] != sum);
        }
    }
    if (fits) {
        x->r[k].out[j] = sum;
        x->r[k].sums |= (uint8_t)(1U << j);
        x->r[k].begins |= (uint8_t)((x->r[to].begins & 1U) << j);
        x->r[to].begins = 0;
        x->r[to].done = true;
    }
}

/* Routes output @j of op @k to the place of statistic @to, in a piece that begins at @first. */
static void route_stat(struct routing *x, uint32_t first, uint32_t k, uint8_t j, uint32_t to)
{
    uint32_t before = 0;
    for (uint32_t n = first; n < to; n++) {
        before += x->t->instrs[n].kind == HSP_I_STAT;
    }
    x->r[k].out[j] = before;
    x->r[k].stats |= (uint8_t)(1U << j);
    x->r[to].done = true;
}

static void route_op(struct routing *x, uint32_t first, uint32_t end, uint32_t k, uint64_t adds)
{
    const struct hsp_instr *i = &x->t->instrs[k];
    for (uint8_t j = 0; j < i->n_out; j++) {
        const struct hsp_ptensor *p = &x->t->tensors[i->out[j]];
        uint32_t to = x->u[i->out[j]].reader;
        if (!hsp_is_passed_on(x->t, x->u, i->out[j]) || to <= k || to >= end) {
            continue;
        }
        if (x->t->instrs[to].kind == HSP_I_ACC && (adds >> i->op & 1) != 0) {
            route_sum(x, k, j, to);
        } else if (x->t->instrs[to].kind == HSP_I_STAT && p->rank == 0 && p->dtype == HSP_F64) {
            route_stat(x, first, k, j, to);
        }
    }
}

static void find_kinds(struct routing *x)
{
    for (uint32_t s = 0; s < x->t->n_segments; s++) {
        const struct hsp_segment *g = &x->t->segments[s];
        memset(x->kind + g->first_piece, g->kind, g->n_pieces);
    }
}

struct hsp_route *hsp_routes_new(const struct hsp_template *t, uint64_t adds)
{
    struct routing x = {.t = t,
                        .r = calloc((size_t)t->n_instrs + 1, sizeof *x.r),
                        .u = hsp_uses_new(t),
                        .sum = calloc((size_t)t->n_tensors + 1, sizeof *x.sum),
                        .kind = calloc((size_t)t->n_pieces + 1, 1)};
    bool ok = x.r != NULL && x.u != NULL && x.sum != NULL && x.kind != NULL;
    for (uint32_t k = 0; ok && k < t->n_instrs; k++) {
        memset(x.r[k].out, 0xff, sizeof x.r[k].out);
        x.r[k].begun_by = HSP_NO_PIECE;
    }
    if (ok) {
        find_kinds(&x);
        find_beginnings(&x);
    }
    for (uint32_t p = 0; ok && p < t->n_pieces; p++) {
        uint32_t first = t->pieces[p].first, end = first + t->pieces[p].n;
        for (uint32_t k = first; k < end; k++) {
            if (t->instrs[k].kind == HSP_I_OP) {
                route_op(&x, first, end, k, adds);
            }
        }
    }
    free(x.u);
    free(x.sum);
    free(x.kind);
    if (!ok) {
        free(x.r);
        return NULL;
    }
    return x.r;
}
