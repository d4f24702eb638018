#include "worker/exec/fuse_launch.h"

#include <stdlib.h>
#include <string.h>

#include "worker/exec/tensor_uses.h"

struct grouping {
    const struct hsp_program *p;
    const struct hsp_route *r;
    const struct hsp_uses *u;
    uint32_t end; /* the piece ends before this instruction */
};

static const struct hsp_instr *at(const struct grouping *x, uint32_t k)
{
    return &x->p->tpl.instrs[k];
}

/* Returns the next instruction after @k whose work no op does already; the end of the piece if
 * there is none. */
static uint32_t next(const struct grouping *x, uint32_t k)
{
    do {
        k++;
    } while (k < x->end && x->r[k].done);
    return k;
}

static bool is_op(const struct grouping *x, uint32_t k, enum hsp_op op)
{
    return k < x->end && at(x, k)->kind == HSP_I_OP && at(x, k)->op == op;
}

/* ---- many ---- */

/* The place of a tensor's slots in one of three areas of memory. */
struct place {
    int64_t from, to;
    uint8_t area;
};

static struct place place_of(const struct grouping *x, uint32_t tensor)
{
    uint8_t cls = x->p->tpl.tensors[tensor].cls;
    const struct hsp_tensor_bind *b = &x->p->bind.tensor[tensor];
    return (struct place){.from = b->offset,
                          .to = b->offset + b->slot_bytes * (int64_t)b->n_slots,
                          .area = cls == HSP_CLASS_STATE  ? 1
                                  : cls == HSP_CLASS_HOST ? 2
                                                          : 0};
}

/* Returns true if two places share bytes. */
static bool meet(struct place a, struct place b)
{
    return a.area == b.area && a.from < b.to && b.from < a.to;
}

/* Returns the tensor to which instruction @k writes output @j; HSP_NO_TENSOR if the output is a
 * statistic. */
static uint32_t output(const struct grouping *x, uint32_t k, uint8_t j)
{
    const struct hsp_route *r = &x->r[k];
    /* a statistic's place is used by nothing else */
    return (r->stats >> j & 1) != 0  ? HSP_NO_TENSOR
           : (r->sums >> j & 1) != 0 ? r->out[j]
                                     : at(x, k)->out[j];
}

/* Returns true if instruction @a writes memory that instruction @b reads or writes. */
static bool disturbs(const struct grouping *x, uint32_t a, uint32_t b)
{
    bool found = false;
    for (uint8_t j = 0; j < at(x, a)->n_out; j++) {
        if (output(x, a, j) == HSP_NO_TENSOR) {
            continue;
        }
        struct place w = place_of(x, output(x, a, j));
        for (uint8_t i = 0; i < at(x, b)->n_in; i++) {
            found = found || meet(w, place_of(x, at(x, b)->in[i]));
        }
        for (uint8_t i = 0; i < at(x, b)->n_out; i++) {
            uint32_t o = output(x, b, i);
            found = found || (o != HSP_NO_TENSOR && meet(w, place_of(x, o)));
        }
    }
    return found;
}

/* Returns true if instruction @k may join the launch that begins with @first: both have the same op
 * and float attributes, and neither writes memory that another call touches. */
static bool goes_with(const struct grouping *x, uint32_t first, uint32_t k)
{
    const struct hsp_instr *a = at(x, first), *b = at(x, k);
    bool fits = is_op(x, k, (enum hsp_op)a->op) && memcmp(a->at.f, b->at.f, sizeof a->at.f) == 0;
    for (uint32_t n = first; fits && n < k; n = next(x, n)) {
        fits = !disturbs(x, n, k) && !disturbs(x, k, n);
    }
    return fits;
}

static struct hsp_fused_launch many_from(const struct grouping *x, uint32_t k)
{
    struct hsp_fused_launch g = {.calls = 1};
    uint32_t n = next(x, k);
    while (g.calls < HSP_MANY_CALLS && n < x->end && goes_with(x, k, n)) {
        g.calls++;
        n = next(x, n);
    }
    g.n = g.calls > 1 ? n - k : 0;
    return g;
}

/* ---- chains ---- */

/* Returns true if all outputs of @k are added to sums. */
static bool to_sums(const struct grouping *x, uint32_t k)
{
    return x->r[k].sums == (1U << at(x, k)->n_out) - 1;
}

/* Returns the chain that begins with @k, the input gradient of a norm; its n is 0 if there is no
 * chain. */
static struct hsp_fused_launch norm_chain(const struct grouping *x, uint32_t k)
{
    bool layer = is_op(x, k, HSP_OP_LAYERNORM_DX);
    enum hsp_op weights = layer ? HSP_OP_LAYERNORM_DW : HSP_OP_RMSNORM_DW;
    const struct hsp_instr *dx = at(x, k);
    struct hsp_fused_launch g = {.calls = 1, .chain = true};
    uint32_t sum = dx->out[0], n = next(x, k);
    if (is_op(x, n, HSP_OP_ADD) && hsp_is_passed_on(&x->p->tpl, x->u, sum) &&
        (at(x, n)->in[0] == sum) != (at(x, n)->in[1] == sum)) {
        sum = at(x, n)->out[0];
        g.calls++;
        n = next(x, n);
    }
    const struct hsp_instr *dw = at(x, n < x->end ? n : k);
    bool same = is_op(x, n, weights) && dw->in[0] == dx->in[0] && dw->in[1] == dx->in[1] &&
                dw->in[2] == dx->in[3] && (!layer || dw->in[3] == dx->in[4]);
    if (same && to_sums(x, n)) {
        g.calls++;
        n = next(x, n);
        if (is_op(x, n, HSP_OP_BIAS_DB) && at(x, n)->in[0] == sum && to_sums(x, n)) {
            g.calls++;
            n = next(x, n);
        }
    }
    g.n = g.calls > 1 ? n - k : 0;
    return g;
}

/* Returns the chain that begins with @k, a gelu_dx; its n is 0 if there is none. */
static struct hsp_fused_launch activation_chain(const struct grouping *x, uint32_t k)
{
    uint32_t n = next(x, k);
    if (is_op(x, n, HSP_OP_BIAS_DB) && at(x, n)->in[0] == at(x, k)->out[0] && to_sums(x, n)) {
        return (struct hsp_fused_launch){.calls = 2, .chain = true, .n = next(x, n) - k};
    }
    return (struct hsp_fused_launch){.n = 0};
}

static struct hsp_fused_launch group_from(const struct grouping *x, uint32_t k, uint64_t many,
                                          bool chains)
{
    const struct hsp_instr *i = at(x, k);
    if (i->kind == HSP_I_OP && (many >> i->op & 1) != 0) {
        return many_from(x, k);
    }
    if (chains && (is_op(x, k, HSP_OP_LAYERNORM_DX) || is_op(x, k, HSP_OP_RMSNORM_DX))) {
        return norm_chain(x, k);
    }
    if (chains && is_op(x, k, HSP_OP_GELU_DX)) {
        return activation_chain(x, k);
    }
    return (struct hsp_fused_launch){.n = 0};
}

struct hsp_fused_launch *hsp_fused_launches_new(const struct hsp_program *p,
                                                const struct hsp_route *r, uint64_t many,
                                                bool chains)
{
    struct hsp_fused_launch *ret = calloc((size_t)p->tpl.n_instrs + 1, sizeof *ret);
    struct hsp_uses *u = hsp_uses_new(&p->tpl);
    if (ret == NULL || u == NULL) {
        free(ret);
        free(u);
        return NULL;
    }
    struct grouping x = {.p = p, .r = r, .u = u};
    for (uint32_t s = 0; s < p->tpl.n_pieces; s++) {
        uint32_t k = p->tpl.pieces[s].first;
        if (p->tpl.pieces[s].queue != HSP_QUEUE_COMPUTE) {
            /* only the thread of the compute queue may use the memory of calls (engine_impl.h) */
            continue;
        }
        for (x.end = k + p->tpl.pieces[s].n; k<x.end; k += ret[k].n> 0 ? ret[k].n : 1) {
            ret[k] = group_from(&x, k, many, chains);
        }
    }
    free(u);
    return ret;
}
