/* Differentiates a graph by one table of rules for ops; the walk over it is the same for all. */
#include "daemon/graph/autodiff.h"

#include "daemon/graph/builder.h"
#include "proto/base/check.h"
#include "proto/base/size.h"

/* Operands of a backward node, in terms of its forward node. */
enum { DY = 64, OUT_ = 32 }; /* the gradient of output 0; output i; else input i */
#define OUT(i) (OUT_ + (i))
#define PASS   HSP_N_OPS /* the gradient is that of the output, no node */

struct rule {
    enum hsp_op of;
    int op;
    uint8_t in[HSP_MAX_IN];
    int8_t to[HSP_MAX_OUT]; /* output i is the gradient of this input */
};

/* dX before dW: the layer before waits for dX. */
static const struct rule rules[] = {
    {HSP_OP_LINEAR, HSP_OP_LINEAR_DX, {DY, 1}, {0}},
    {HSP_OP_LINEAR, HSP_OP_LINEAR_DW, {DY, 0}, {1}},
    {HSP_OP_BIAS_ADD, PASS, {DY}, {0}},
    {HSP_OP_BIAS_ADD, HSP_OP_BIAS_DB, {DY}, {1}},
    {HSP_OP_EMBED, HSP_OP_EMBED_DW, {0, DY}, {1}},
    {HSP_OP_ADD, PASS, {DY}, {0}},
    {HSP_OP_ADD, PASS, {DY}, {1}},
    {HSP_OP_LAYERNORM, HSP_OP_LAYERNORM_DX, {DY, 0, 1, OUT(1), OUT(2)}, {0}},
    {HSP_OP_LAYERNORM, HSP_OP_LAYERNORM_DW, {DY, 0, OUT(1), OUT(2)}, {1, 2}},
    {HSP_OP_RMSNORM, HSP_OP_RMSNORM_DX, {DY, 0, 1, OUT(1)}, {0}},
    {HSP_OP_RMSNORM, HSP_OP_RMSNORM_DW, {DY, 0, OUT(1)}, {1}},
    {HSP_OP_ROPE, HSP_OP_ROPE_DX, {0, DY}, {1}},
    {HSP_OP_DROPOUT, HSP_OP_DROPOUT, {0, DY}, {1}},
    {HSP_OP_SWIGLU, HSP_OP_SWIGLU_DX, {DY, 0, 1}, {0, 1}},
    {HSP_OP_GELU, HSP_OP_GELU_DX, {DY, 0}, {0}},
    {HSP_OP_ATTENTION, HSP_OP_ATTENTION_BWD, {DY, 0, 1, 2, OUT(0), OUT(1)}, {0, 1, 2}},
    {HSP_OP_PACKED_ATTENTION,
     HSP_OP_PACKED_ATTENTION_BWD,
     {DY, 0, 1, 2, OUT(0), OUT(1), 3},
     {0, 1, 2}},
    {HSP_OP_XENT, HSP_OP_XENT_DX, {DY, 0, 1, OUT(1)}, {0}},
    /* lse is a function of the same logits: no gradient goes through it a second time */
    {HSP_OP_XENT_PART, HSP_OP_XENT_PART_DX, {DY, 0, 1, 2}, {0}},
    {HSP_OP_SUM, HSP_OP_BROADCAST, {DY, 0}, {0}},
    {HSP_OP_BROADCAST, HSP_OP_SUM, {DY}, {0}},
    {HSP_OP_FLATTEN, HSP_OP_UNFLATTEN, {DY}, {0}},
    {HSP_OP_UNFLATTEN, HSP_OP_FLATTEN, {DY}, {0}},
    {HSP_OP_NARROW, HSP_OP_WIDEN, {DY}, {0}},
    {HSP_OP_WIDEN, HSP_OP_NARROW, {DY}, {0}},
};

struct walk {
    struct hsp_builder b;
    uint32_t *grad;  /* per forward tensor: its gradient so far, HSP_NONE */
    uint32_t *parts; /* per forward tensor: contributions so far, for names */
    bool *needed;    /* per forward tensor: does a parameter stand behind it */
};

static void mark_needed(struct walk *w, const struct hsp_graph *g)
{
    for (uint32_t t = 0; t < g->n_tensors; t++) {
        w->needed[t] = g->tensors[t].kind == HSP_TENSOR_PARAM;
        w->grad[t] = HSP_NONE;
    }
    for (uint32_t n = 0; n < g->n_forward; n++) {
        const struct hsp_node *node = &g->nodes[n];
        bool any = false;
        for (uint8_t i = 0; i < node->n_in; i++) {
            any = any || w->needed[node->in[i]];
        }
        for (uint8_t o = 0; o < node->n_out; o++) {
            if (node->out[o] != HSP_NONE) {
                w->needed[node->out[o]] = any;
            }
        }
    }
}

/* "x.grad", then "x.grad.2", ... */
static const char *part_name(struct walk *w, uint32_t t)
{
    const char *name = w->b.g->tensors[t].name;
    uint32_t k = ++w->parts[t];
    return k == 1 ? hsp_build_name(&w->b, "%s.grad", name)
                  : hsp_build_name(&w->b, "%s.grad.%u", name, k);
}

/* Adds @dt to the gradient of @t. */
static void contribute(struct walk *w, uint32_t t, uint32_t dt)
{
    struct hsp_graph *g = w->b.g;
    if (g->tensors[t].kind == HSP_TENSOR_PARAM) {
        struct hsp_param *p = &g->params[g->tensors[t].param];
        if (p->n_grads == HSP_ARRAY_LEN(p->grad)) {
            w->b.st = hsp_err_set(w->b.err, HSP_ELIMIT, 0, "%s: used more than %zu times",
                                  g->tensors[t].name, HSP_ARRAY_LEN(p->grad));
            return;
        }
        p->grad[p->n_grads++] = dt;
    } else if (w->grad[t] == HSP_NONE) {
        w->grad[t] = dt;
    } else {
        const char *name = part_name(w, t);
        w->grad[t] = hsp_build_op(&w->b, HSP_OP_ADD, NULL, (uint32_t[]){w->grad[t], dt}, name);
    }
}

static uint32_t operand(const struct walk *w, const struct hsp_node *n, uint8_t code)
{
    return code == DY ? w->grad[n->out[0]] : code >= OUT_ ? n->out[code - OUT_] : n->in[code];
}

static void apply(struct walk *w, const struct rule *r, const struct hsp_node *n)
{
    if (r->op == PASS) {
        if (w->needed[n->in[r->to[0]]]) {
            contribute(w, n->in[r->to[0]], w->grad[n->out[0]]);
        }
        return;
    }
    enum hsp_op op = (enum hsp_op)r->op;
    struct hsp_attrs at = n->at;
    uint32_t in[HSP_MAX_IN];
    const char *names[HSP_MAX_OUT] = {NULL};
    bool any = false;
    for (uint8_t i = 0; i < hsp_op_n_in(op); i++) {
        in[i] = operand(w, n, r->in[i]);
    }
    for (uint8_t o = 0; o < hsp_op_n_out(op); o++) {
        uint32_t t = n->in[r->to[o]];
        if (w->needed[t]) {
            names[o] = part_name(w, t);
            any = true;
        }
    }
    if (op == HSP_OP_EMBED_DW) {
        at.i[0] = w->b.g->tensors[n->in[1]].ext[0].k;
    }
    uint32_t d = any ? hsp_build_node(&w->b, op, &at, in, names) : HSP_NONE;
    for (uint8_t o = 0; d != HSP_NONE && o < hsp_op_n_out(op); o++) {
        if (names[o] != NULL) {
            contribute(w, n->in[r->to[o]], w->b.g->nodes[d].out[o]);
        }
    }
}

static void differentiate(struct walk *w, uint32_t node)
{
    struct hsp_node n = w->b.g->nodes[node]; /* a copy: the array grows */
    bool any = false, known = false;
    for (uint8_t o = 1; o < n.n_out; o++) {
        HSP_ASSERT(n.out[o] == HSP_NONE || w->grad[n.out[o]] == HSP_NONE); /* statistics */
    }
    for (uint8_t i = 0; i < n.n_in; i++) {
        any = any || w->needed[n.in[i]];
    }
    if (w->grad[n.out[0]] == HSP_NONE || !any) {
        return;
    }
    w->b.layer = n.layer;
    w->b.forward_of = node;
    for (size_t i = 0; i < HSP_ARRAY_LEN(rules) && w->b.st == HSP_OK; i++) {
        if (rules[i].of == n.op) {
            apply(w, &rules[i], &n);
            known = true;
        }
    }
    if (!known) {
        w->b.st = hsp_err_set(w->b.err, HSP_EUNSUPPORTED, 0, "no derivative rule for %s",
                              hsp_op_name((enum hsp_op)n.op));
    }
}

enum hsp_status hsp_graph_autodiff(struct hsp_graph *g, struct hsp_err *err)
{
    struct walk w = {.b = hsp_builder_of(g, err)};
    g->n_forward = g->n_nodes;
    g->seed = hsp_build_seed(&w.b, hsp_build_name(&w.b, "%s.grad", g->tensors[g->loss_sum].name));
    w.grad = hsp_arena_array(g->arena, g->n_tensors, sizeof *w.grad);
    w.parts = hsp_arena_array(g->arena, g->n_tensors, sizeof *w.parts);
    w.needed = hsp_arena_array(g->arena, g->n_tensors, sizeof *w.needed);
    if (w.b.st != HSP_OK || w.grad == NULL || w.parts == NULL || w.needed == NULL) {
        return hsp_err_nomem(err, "the backward graph");
    }
    mark_needed(&w, g);
    w.grad[g->loss_sum] = g->seed;
    for (uint32_t n = g->n_forward; n-- > 0 && w.b.st == HSP_OK;) {
        differentiate(&w, n);
    }
    return w.b.st;
}
