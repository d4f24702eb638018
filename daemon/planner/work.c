/* Passes over the graph once for work and cuts, and once for the lives of tensors. */
#include "daemon/planner/work.h"

#include <math.h>
#include <string.h>

/* Of each tensor: which dims a tensor group cuts, and whether its members hold addends. */
struct flow {
    uint8_t cut_dims;
    bool partial;
};

struct builder {
    const struct hsp_graph *g;
    struct hsp_work *w;
    struct flow *flow;   /* by tensor */
    double *bytes;       /* by tensor, one sequence */
    uint32_t *last_use;  /* by tensor: node, HSP_NONE */
    bool *is_param_grad; /* by tensor */
    bool *deferred;      /* by tensor: counted as such */
    struct hsp_err *err;
};

static void amount_add(struct hsp_amount *a, bool cut, double v)
{
    *(cut ? &a->cut : &a->whole) += v;
}

/* Dims that "..." stands for: those of the operand that has it. */
static uint8_t ellipsis_rank(const struct hsp_graph *g, const struct hsp_node *n)
{
    uint32_t operand = n->op == HSP_OP_BROADCAST ? n->in[1] : n->in[0];
    return g->tensors[operand].rank;
}

/* Bit mask of the axes a tensor group cuts at this node. An axis that must stay whole is gathered
 * before the op, so it is not cut here. */
static uint32_t cut_axes(const struct builder *b, const struct hsp_node *n,
                         const struct hsp_axes *ax)
{
    uint32_t mask = 0;
    for (uint8_t i = 0; i < ax->n_in; i++) {
        uint8_t dims = b->flow[n->in[i]].cut_dims;
        for (uint8_t d = 0; d < ax->in[i].rank; d++) {
            int8_t a = ax->in[i].dim[d].axis;
            if (dims >> d & 1 && ax->axis[a].cls != HSP_AXIS_WHOLE) {
                mask |= 1u << a;
            }
        }
    }
    return mask;
}

/* True when the partial operands pass through: they are exactly one linear set. */
static bool partial_passes(const struct builder *b, const struct hsp_node *n,
                           const struct hsp_axes *ax)
{
    uint32_t partial = 0;
    for (uint8_t i = 0; i < n->n_in; i++) {
        partial |= b->flow[n->in[i]].partial ? 1u << i : 0;
    }
    return partial != 0 && (partial == ax->linear[0] || partial == ax->linear[1]);
}

/* Partial operands that may not pass are added up over the group, once for all their uses. */
static void reduce_operands(struct builder *b, const struct hsp_node *n, struct hsp_layer_work *lw)
{
    for (uint8_t i = 0; i < n->n_in; i++) {
        if (b->flow[n->in[i]].partial) {
            b->flow[n->in[i]].partial = false;
            lw->n_reduce += 1;
            lw->reduce_bytes += b->bytes[n->in[i]];
        }
    }
}

static void carry_cuts(struct builder *b, const struct hsp_node *n, const struct hsp_axes *ax,
                       uint32_t cut, bool passes)
{
    bool partial = passes;
    for (uint8_t a = 0; a < ax->n_axes; a++) {
        bool summed = ax->axis[a].cls == HSP_AXIS_CONTRACTED || ax->axis[a].cls == HSP_AXIS_LOOKUP;
        partial = partial || (summed && cut >> a & 1);
    }
    for (uint8_t o = 0; o < n->n_out; o++) {
        if (n->out[o] == HSP_NONE) {
            continue;
        }
        struct flow *f = &b->flow[n->out[o]];
        f->partial = partial;
        for (uint8_t d = 0; d < ax->out[o].rank; d++) {
            f->cut_dims |= (uint8_t)((cut >> ax->out[o].dim[d].axis & 1) << d);
        }
    }
}

/* Only parameters wait for its results. */
static bool can_wait(const struct builder *b, const struct hsp_node *n)
{
    bool waits = n->backward;
    for (uint8_t o = 0; o < n->n_out; o++) {
        waits = waits && (n->out[o] == HSP_NONE || b->is_param_grad[n->out[o]]);
    }
    return waits;
}

/* The operands of gradients of weights, each tensor once: a zero-bubble schedule keeps it for
 * them. */
static void add_deferred(struct builder *b)
{
    const struct hsp_graph *g = b->g;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct hsp_node *n = &g->nodes[i];
        for (uint8_t k = 0; k < n->n_in && can_wait(b, n); k++) {
            uint32_t t = n->in[k], made = g->tensors[t].producer;
            if (made == HSP_NONE || b->deferred[t]) {
                continue;
            }
            struct hsp_layer_work *lw = &b->w->layer[n->layer];
            b->deferred[t] = true;
            amount_add(g->nodes[made].backward ? &lw->deferred : &lw->reread,
                       b->flow[t].cut_dims != 0, b->bytes[t]);
        }
    }
}

/* The memory beside the operands of a device that computes on bf16 in fp32. */
static void add_wide(struct builder *b, const struct hsp_node *n)
{
    struct hsp_layer_work *lw = &b->w->layer[n->layer];
    struct hsp_amount seq = {0}, param = {0};
    for (uint8_t i = 0; i < n->n_in + n->n_out && !hsp_op_moves((enum hsp_op)n->op); i++) {
        uint32_t t = i < n->n_in ? n->in[i] : n->out[i - n->n_in];
        if (t != HSP_NONE && b->g->tensors[t].dtype == HSP_BF16) {
            bool is_param = b->g->tensors[t].kind == HSP_TENSOR_PARAM;
            amount_add(is_param ? &param : &seq, b->flow[t].cut_dims != 0,
                       b->bytes[t] / sizeof(uint16_t) * sizeof(float));
        }
    }
    hsp_amount_max(&lw->wide, &seq);
    hsp_amount_max(&lw->wide_param, &param);
}

/* Of the whole product, in a micro-batch of one sequence, or of as many short ones as fill a row of
 * tiles: plans put these together. */
static enum hsp_gemm_class class_of(const struct hsp_node *n, const struct hsp_axes *ax,
                                    int64_t in[][HSP_MAX_RANK], const int64_t *axis)
{
    int64_t rows = 1, some[HSP_MAX_AXES];
    for (uint8_t d = 0; d + 1 < ax->in[0].rank; d++) {
        rows *= in[0][d];
    }
    memcpy(some, axis, sizeof some);
    if (rows > 0 && rows < HSP_GEMM_TILE) { /* axis b is the first of the first operand */
        some[ax->in[0].dim[0].axis] *= (HSP_GEMM_TILE + rows - 1) / rows;
    }
    return hsp_op_gemm_class((enum hsp_op)n->op, ax, some);
}

static enum hsp_status add_node(struct builder *b, const struct hsp_node *n)
{
    struct hsp_layer_work *lw = &b->w->layer[n->layer];
    struct hsp_axes ax;
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK] = {{0}}, axis[HSP_MAX_AXES];
    enum hsp_status st =
        hsp_op_axes((enum hsp_op)n->op, &n->at, ellipsis_rank(b->g, n), &ax, b->err);
    for (uint8_t i = 0; i < n->n_in; i++) {
        hsp_tensor_extents(b->g, n->in[i], 1, in[i]);
    }
    if (st == HSP_OK) {
        st = hsp_op_extents((enum hsp_op)n->op, &n->at, &ax, in, axis, b->err);
    }
    if (st != HSP_OK) {
        return st;
    }
    bool passes = partial_passes(b, n, &ax);
    if (!passes) {
        reduce_operands(b, n, lw);
    }
    uint32_t cut = cut_axes(b, n, &ax);
    carry_cuts(b, n, &ax, cut, passes);
    if (n->op == HSP_OP_ATTENTION || n->op == HSP_OP_PACKED_ATTENTION) {
        amount_add(&lw->queries, cut != 0, b->bytes[n->in[0]]);
        amount_add(&lw->keys, cut != 0, b->bytes[n->in[1]] + b->bytes[n->in[2]]);
    }
    if (hsp_op_is_product((enum hsp_op)n->op)) {
        amount_add(&lw->flops[class_of(n, &ax, in, axis)], cut != 0,
                   hsp_op_flops((enum hsp_op)n->op, &n->at, axis, &ax));
    } else {
        enum hsp_dtype real = hsp_node_real(b->g, n);
        double bytes = hsp_op_bytes((enum hsp_op)n->op, &ax, axis, real);
        bool low =
            real == HSP_BF16 && !hsp_op_moves((enum hsp_op)n->op); /* which computes nothing */
        amount_add(&lw->bytes, cut != 0, bytes);
        amount_add(&lw->low, cut != 0, low ? bytes : 0);
    }
    lw->n_instr += 1;
    add_wide(b, n);
    lw->n_products += hsp_op_is_product((enum hsp_op)n->op) ? 1 : 0;
    return HSP_OK;
}

static void add_params(struct builder *b)
{
    const struct hsp_graph *g = b->g;
    struct hsp_work *w = b->w;
    for (uint32_t p = 0; p < g->n_params; p++) {
        const struct hsp_param *par = &g->params[p];
        int64_t ext[HSP_MAX_RANK];
        double n = 1;
        hsp_tensor_extents(g, par->tensor, 1, ext);
        for (uint8_t d = 0; d < g->tensors[par->tensor].rank; d++) {
            n *= (double)ext[d];
        }
        w->param[p] = (struct hsp_param_work){
            .bytes = n * w->elem, .cut = par->tp_dim >= 0, .first = UINT32_MAX};
        if (par->tp_dim >= 0) {
            b->flow[par->tensor].cut_dims = (uint8_t)(1u << par->tp_dim);
            int64_t units = ext[par->tp_dim] / (par->tp_grain > 0 ? par->tp_grain : 1);
            w->tp_units = w->tp_units == 0 || units < w->tp_units ? units : w->tp_units;
        }
        for (uint32_t i = 0; i < par->n_grads; i++) {
            b->is_param_grad[par->grad[i]] = true;
        }
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        for (uint8_t k = 0; k < g->nodes[i].n_in; k++) {
            const struct hsp_tensor *t = &g->tensors[g->nodes[i].in[k]];
            if (t->kind == HSP_TENSOR_PARAM) {
                struct hsp_param_work *pw = &w->param[t->param];
                uint32_t l = g->nodes[i].layer;
                pw->first = l < pw->first ? l : pw->first;
                pw->last = l > pw->last ? l : pw->last;
            }
        }
    }
    for (uint32_t p = 0; p < g->n_params; p++) { /* tied: in both units */
        const struct hsp_param_work *pw = &w->param[p];
        for (uint32_t k = 0; pw->first != UINT32_MAX && k < (pw->first < pw->last ? 2 : 1); k++) {
            amount_add(&w->layer[k == 0 ? pw->first : pw->last].param, pw->cut, pw->bytes);
        }
    }
}

/* Accumulation of parameter gradients: read both, write one. */
static void add_accumulation(struct builder *b)
{
    const struct hsp_graph *g = b->g;
    for (uint32_t p = 0; p < g->n_params; p++) {
        const struct hsp_param_work *pw = &b->w->param[p];
        for (uint32_t i = 0; i < g->params[p].n_grads; i++) {
            uint32_t node = g->tensors[g->params[p].grad[i]].producer;
            if (node == HSP_NONE) {
                continue;
            }
            struct hsp_layer_work *lw = &b->w->layer[g->nodes[node].layer];
            struct hsp_amount grad = {0};
            amount_add(&grad, pw->cut, pw->bytes);
            amount_add(&lw->acc_bytes, pw->cut, 3 * pw->bytes);
            hsp_amount_max(&lw->grad_bytes, &grad);
            lw->n_instr += 1;
        }
    }
}

static bool is_scratch(const struct builder *b, uint32_t tensor)
{
    const struct hsp_tensor *t = &b->g->tensors[tensor];
    return (t->kind == HSP_TENSOR_ACT || t->kind == HSP_TENSOR_GRAD) && !t->saved &&
           !b->is_param_grad[tensor];
}

/* Counts saved tensors, tensors that cross to the next unit, and the peak of the rest. Scratch
 * lives within one segment: a tensor that forward leaves unsaved never meets backward. */
static void add_memory(struct builder *b)
{
    const struct hsp_graph *g = b->g;
    struct hsp_amount live = {0};
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct hsp_node *n = &g->nodes[i];
        struct hsp_layer_work *lw = &b->w->layer[n->layer];
        for (uint8_t o = 0; o < n->n_out; o++) {
            uint32_t t = n->out[o];
            if (t == HSP_NONE || b->is_param_grad[t]) {
                continue;
            }
            bool cut = b->flow[t].cut_dims != 0;
            amount_add(g->tensors[t].saved ? &lw->saved : &live, cut, b->bytes[t]);
            uint32_t until = b->last_use[t] == HSP_NONE || n->backward
                                 ? n->layer
                                 : g->nodes[b->last_use[t]].layer;
            for (uint32_t l = n->layer; !n->backward && l < until; l++) {
                b->w->layer[l].leaving += b->bytes[t];
            }
        }
        hsp_amount_max(&lw->scratch, &live);
        for (uint8_t k = 0; k < n->n_in; k++) {
            bool again = false; /* add(x, x) */
            for (uint8_t q = 0; q < k; q++) {
                again = again || n->in[q] == n->in[k];
            }
            if (!again && b->last_use[n->in[k]] == i && is_scratch(b, n->in[k])) {
                amount_add(&live, b->flow[n->in[k]].cut_dims != 0, -b->bytes[n->in[k]]);
            }
        }
        for (uint8_t o = 0; o < n->n_out; o++) {
            uint32_t t = n->out[o];
            if (t != HSP_NONE && b->last_use[t] == HSP_NONE && is_scratch(b, t)) {
                amount_add(&live, b->flow[t].cut_dims != 0, -b->bytes[t]);
            }
        }
    }
}

/* The last use of forward tensors is looked for among forward nodes only: saved ones are counted
 * as saved, the others have no backward use. */
static void find_last_uses(struct builder *b)
{
    const struct hsp_graph *g = b->g;
    for (uint32_t t = 0; t < g->n_tensors; t++) {
        b->last_use[t] = HSP_NONE;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct hsp_node *n = &g->nodes[i];
        for (uint8_t k = 0; k < n->n_in; k++) {
            const struct hsp_tensor *t = &g->tensors[n->in[k]];
            bool fwd_tensor = t->producer != HSP_NONE && !g->nodes[t->producer].backward;
            if (!n->backward || !fwd_tensor) {
                b->last_use[n->in[k]] = i;
            }
        }
    }
}

static void tensor_bytes(struct builder *b)
{
    const struct hsp_graph *g = b->g;
    for (uint32_t t = 0; t < g->n_tensors; t++) {
        int64_t ext[HSP_MAX_RANK];
        double n = (double)hsp_dtype_size((enum hsp_dtype)g->tensors[t].dtype);
        hsp_tensor_extents(g, t, 1, ext);
        for (uint8_t d = 0; d < g->tensors[t].rank; d++) {
            n *= (double)ext[d];
        }
        b->bytes[t] = n;
        bool input = g->tensors[t].kind == HSP_TENSOR_INPUT && g->tensors[t].saved;
        b->w->input_bytes += input ? n : 0;
    }
}

enum hsp_rate hsp_work_rate(const struct hsp_graph *g)
{
    const struct hsp_model_spec *m = &g->spec;
    switch (m->compute) {
    case HSP_COMPUTE_TF32: return HSP_RATE_TF32;
    case HSP_COMPUTE_BF16: return HSP_RATE_BF16;
    case HSP_COMPUTE_FULL: break;
    }
    return m->dtype == HSP_F64 ? HSP_RATE_FP64 : HSP_RATE_FP32;
}

enum hsp_status hsp_work_make(const struct hsp_graph *g, struct hsp_arena *arena,
                              struct hsp_work *ret, struct hsp_err *err)
{
    struct hsp_work w = {.n_layers = g->n_layers,
                         .n_params = g->n_params,
                         .elem = (uint32_t)hsp_dtype_size(g->spec.dtype),
                         .use_elem = (uint32_t)hsp_dtype_size(hsp_model_real(&g->spec)),
                         .rate = hsp_work_rate(g)};
    struct builder b = {.g = g, .w = &w, .err = err};
    w.layer = hsp_arena_array(arena, w.n_layers, sizeof(*w.layer));
    w.param = hsp_arena_array(arena, w.n_params, sizeof(*w.param));
    b.flow = hsp_arena_array(arena, g->n_tensors, sizeof(*b.flow));
    b.bytes = hsp_arena_array(arena, g->n_tensors, sizeof(*b.bytes));
    b.last_use = hsp_arena_array(arena, g->n_tensors, sizeof(*b.last_use));
    b.is_param_grad = hsp_arena_array(arena, g->n_tensors, sizeof(*b.is_param_grad));
    b.deferred = hsp_arena_array(arena, g->n_tensors, sizeof(*b.deferred));
    if (w.layer == NULL || w.param == NULL || b.flow == NULL || b.bytes == NULL ||
        b.last_use == NULL || b.is_param_grad == NULL || b.deferred == NULL) {
        return hsp_err_nomem(err, "work of a graph of %u nodes", g->n_nodes);
    }
    tensor_bytes(&b);
    add_params(&b);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        enum hsp_status st = add_node(&b, &g->nodes[i]);
        if (st != HSP_OK) {
            return st;
        }
    }
    add_accumulation(&b);
    find_last_uses(&b);
    add_memory(&b);
    add_deferred(&b);
    *ret = w;
    return HSP_OK;
}
