#include "daemon/graph/builder.h"

#include <stdarg.h>
#include <stdio.h>  /* vsnprintf */
#include <string.h> /* memcpy */

#include "proto/base/hash.h"

struct hsp_builder hsp_builder_of(struct hsp_graph *g, struct hsp_err *err)
{
    return (struct hsp_builder){.g = g,
                                .cap_tensors = g->n_tensors,
                                .cap_nodes = g->n_nodes,
                                .cap_params = g->n_params,
                                .forward_of = HSP_NONE,
                                .keys = HSP_NONE,
                                .starts = HSP_NONE,
                                .err = err};
}

static void fail(struct hsp_builder *b, enum hsp_status st, const char *what)
{
    if (b->st == HSP_OK) {
        b->st = hsp_err_about(b->err, st, "%s", what);
    }
}

const char *hsp_build_name(struct hsp_builder *b, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *s = hsp_arena_strdup(b->g->arena, text);
    if (s == NULL) {
        fail(b, HSP_ENOMEM, "names of the graph");
    }
    return s != NULL ? s : "";
}

/* Arrays double inside the arena; the old half stays there until the graph dies. */
static void *grown(struct hsp_builder *b, void *items, uint32_t n, uint32_t *cap, size_t elem,
                   uint32_t max, const char *what)
{
    if (b->st != HSP_OK || n < *cap) {
        return items;
    }
    if (n >= max) {
        fail(b, HSP_ELIMIT, what);
        return items;
    }
    uint32_t more = n < 32 ? 64 : (n > max / 2 ? max : 2 * n);
    void *p = hsp_arena_array(b->g->arena, more, elem);
    if (p == NULL) {
        fail(b, HSP_ENOMEM, what);
        return items;
    }
    if (n > 0) {
        memcpy(p, items, n * elem);
    }
    *cap = more;
    return p;
}

static uint32_t add_tensor(struct hsp_builder *b, const char *name, enum hsp_tensor_kind kind,
                           enum hsp_dtype dtype, uint8_t rank, const struct hsp_extent *ext)
{
    struct hsp_graph *g = b->g;
    const char *copy = hsp_build_name(b, "%s", name);
    g->tensors = grown(b, g->tensors, g->n_tensors, &b->cap_tensors, sizeof *g->tensors,
                       HSP_MAX_GRAPH_TENSORS, "tensors of the graph");
    if (b->st != HSP_OK) {
        return HSP_NONE;
    }
    struct hsp_tensor *t = &g->tensors[g->n_tensors];
    *t = (struct hsp_tensor){.name = copy,
                             .kind = (uint8_t)kind,
                             .dtype = (uint8_t)dtype,
                             .rank = rank,
                             .producer = HSP_NONE,
                             .param = HSP_NONE};
    for (uint8_t d = 0; d < rank; d++) {
        t->ext[d] = ext[d];
    }
    return g->n_tensors++;
}

uint32_t hsp_build_input(struct hsp_builder *b, const char *name, enum hsp_load load,
                         struct hsp_extent e0, struct hsp_extent e1)
{
    struct hsp_extent ext[2] = {e0, e1};
    uint32_t t = add_tensor(b, name, HSP_TENSOR_INPUT, HSP_I32, 2, ext);
    if (t != HSP_NONE) {
        b->g->tensors[t].load = (uint8_t)load;
    }
    return t;
}

uint32_t hsp_build_seed(struct hsp_builder *b, const char *name)
{
    return add_tensor(b, name, HSP_TENSOR_SEED, HSP_F64, 0, NULL);
}

struct hsp_param_def hsp_build_matrix(int64_t out, int64_t in, double std, int8_t tp_dim,
                                      int64_t grain, uint32_t family)
{
    return (struct hsp_param_def){.rank = 2,
                                  .d = {out, in},
                                  .init = HSP_INIT_NORMAL,
                                  .std = std,
                                  .tp_dim = tp_dim,
                                  .tp_grain = grain,
                                  .tp_family = family};
}

uint32_t hsp_build_param(struct hsp_builder *b, const char *name, const struct hsp_param_def *def)
{
    struct hsp_graph *g = b->g;
    struct hsp_extent ext[2] = {{HSP_EXT_CONST, def->d[0]}, {HSP_EXT_CONST, def->d[1]}};
    g->params = grown(b, g->params, g->n_params, &b->cap_params, sizeof *g->params,
                      HSP_MAX_GRAPH_TENSORS, "parameters of the graph");
    uint32_t t = add_tensor(b, name, HSP_TENSOR_PARAM, hsp_model_real(&g->spec), def->rank, ext);
    if (t == HSP_NONE) {
        return HSP_NONE;
    }
    g->tensors[t].param = g->n_params;
    g->params[g->n_params++] = (struct hsp_param){
        .tensor = t,
        .decay = def->rank >= 2,
        .init = (uint8_t)def->init,
        .init_std = def->init == HSP_INIT_NORMAL ? def->std : 0,
        .tp_dim = def->tp_dim,
        .tp_grain = def->tp_dim < 0 ? 1 : def->tp_grain,
        .tp_family = def->tp_dim < 0 ? HSP_NONE : def->tp_family,
    };
    return t;
}

/* ---- shapes ---- */

/* The batch is open; the sequence is known, so a parameter's constant may meet it. */
static bool same_extent(const struct hsp_graph *g, struct hsp_extent a, struct hsp_extent b)
{
    int64_t x = a.sym == HSP_EXT_SEQ ? a.k * g->spec.sequence : a.k;
    int64_t y = b.sym == HSP_EXT_SEQ ? b.k * g->spec.sequence : b.k;
    return x == y && (a.sym == HSP_EXT_BATCH) == (b.sym == HSP_EXT_BATCH);
}

/* Symbolic extents of the axes from the inputs; false when two operands disagree. */
static bool axis_extents(const struct hsp_graph *g, const struct hsp_axes *ax,
                         const struct hsp_attrs *at, const uint32_t *in, struct hsp_extent *ret)
{
    bool known[HSP_MAX_AXES] = {false};
    for (uint8_t i = 0; i < ax->n_in; i++) {
        const struct hsp_tensor *t = &g->tensors[in[i]];
        if (t->rank != ax->in[i].rank) {
            return false;
        }
        for (uint8_t d = 0; d < t->rank; d++) {
            const struct hsp_dim_use *u = &ax->in[i].dim[d];
            struct hsp_extent e = {t->ext[d].sym, t->ext[d].k / u->unit};
            if (t->ext[d].k % u->unit != 0 ||
                (known[u->axis] && !same_extent(g, e, ret[u->axis]))) {
                return false;
            }
            ret[u->axis] = e;
            known[u->axis] = true;
        }
    }
    for (uint8_t a = 0; a < ax->n_axes; a++) {
        if (!known[a]) {
            ret[a] = (struct hsp_extent){HSP_EXT_CONST, ax->axis[a].name == 'o' ? 1 : at->i[0]};
        }
    }
    return true;
}

static bool types_fit(const struct hsp_graph *g, const struct hsp_node *n)
{
    enum hsp_dtype real = hsp_node_real(g, n);
    bool fit = true;
    for (uint8_t i = 0; i < n->n_in; i++) {
        fit = fit && g->tensors[n->in[i]].dtype == hsp_op_dtype((enum hsp_op)n->op, i, real);
    }
    return fit;
}

/* ---- nodes ---- */

static void add_outputs(struct hsp_builder *b, struct hsp_node *n, const struct hsp_axes *ax,
                        const struct hsp_extent *axis, const char *const *names)
{
    enum hsp_dtype real = hsp_node_real(b->g, n);
    enum hsp_tensor_kind kind = n->backward ? HSP_TENSOR_GRAD : HSP_TENSOR_ACT;
    for (uint8_t o = 0; o < ax->n_out; o++) {
        struct hsp_extent ext[HSP_MAX_RANK];
        for (uint8_t d = 0; d < ax->out[o].rank; d++) {
            const struct hsp_dim_use *u = &ax->out[o].dim[d];
            ext[d] = (struct hsp_extent){axis[u->axis].sym, axis[u->axis].k * u->unit};
        }
        n->out[o] = HSP_NONE;
        if (names[o] != NULL) {
            enum hsp_dtype dtype = hsp_op_dtype((enum hsp_op)n->op, (uint8_t)(n->n_in + o), real);
            n->out[o] = add_tensor(b, names[o], kind, dtype, ax->out[o].rank, ext);
        }
        if (n->out[o] != HSP_NONE) {
            b->g->tensors[n->out[o]].producer = b->g->n_nodes;
        }
    }
}

uint32_t hsp_build_node(struct hsp_builder *b, enum hsp_op op, const struct hsp_attrs *at,
                        const uint32_t *in, const char *const *names)
{
    struct hsp_graph *g = b->g;
    struct hsp_axes ax;
    struct hsp_extent axis[HSP_MAX_AXES];
    g->nodes = grown(b, g->nodes, g->n_nodes, &b->cap_nodes, sizeof *g->nodes, HSP_MAX_GRAPH_NODES,
                     "nodes of the graph");
    if (b->st != HSP_OK) {
        return HSP_NONE;
    }
    struct hsp_node n = {.op = (uint8_t)op,
                         .backward = b->forward_of != HSP_NONE,
                         .n_in = hsp_op_n_in(op),
                         .n_out = hsp_op_n_out(op),
                         .at = *at,
                         .layer = b->layer,
                         .forward_of = b->forward_of};
    memcpy(n.in, in, n.n_in * sizeof *in);
    b->st = hsp_node_axes(g, &n, &ax, b->err);
    if (b->st == HSP_OK && (!types_fit(g, &n) || !axis_extents(g, &ax, at, in, axis))) {
        b->st = hsp_err_set(b->err, HSP_EINVAL, 0, "%s %s: operands do not fit", hsp_op_name(op),
                            names[0] != NULL ? names[0] : "");
    }
    if (b->st != HSP_OK) {
        return HSP_NONE;
    }
    add_outputs(b, &n, &ax, axis, names);
    for (uint8_t i = 0; n.backward && i < n.n_in; i++) {
        struct hsp_tensor *t = &g->tensors[n.in[i]];
        t->saved = t->saved || t->kind == HSP_TENSOR_ACT || t->kind == HSP_TENSOR_INPUT;
    }
    if (b->st != HSP_OK) {
        return HSP_NONE;
    }
    g->nodes[g->n_nodes] = n;
    return g->n_nodes++;
}

uint32_t hsp_build_op(struct hsp_builder *b, enum hsp_op op, const struct hsp_attrs *at,
                      const uint32_t *in, const char *name)
{
    static const struct hsp_attrs none;
    const char *names[HSP_MAX_OUT] = {name};
    if (op == HSP_OP_LAYERNORM) {
        names[1] = hsp_build_name(b, "%s.mean", name);
        names[2] = hsp_build_name(b, "%s.rstd", name);
    } else if (op == HSP_OP_RMSNORM) {
        names[1] = hsp_build_name(b, "%s.rstd", name);
    } else if (op == HSP_OP_ATTENTION || op == HSP_OP_PACKED_ATTENTION || op == HSP_OP_XENT) {
        names[1] = hsp_build_name(b, "%s.lse", name);
    }
    uint32_t n = hsp_build_node(b, op, at != NULL ? at : &none, in, names);
    return n != HSP_NONE ? b->g->nodes[n].out[0] : HSP_NONE;
}

uint32_t hsp_build_linear(struct hsp_builder *b, uint32_t x, const char *name,
                          const struct hsp_param_def *weight)
{
    struct hsp_param_def bias = {.rank = 1,
                                 .d = {weight->d[0]},
                                 .init = HSP_INIT_ZERO,
                                 .tp_dim = weight->tp_dim == 0 ? 0 : -1,
                                 .tp_grain = weight->tp_grain,
                                 .tp_family = weight->tp_family};
    uint32_t w = hsp_build_param(b, hsp_build_name(b, "%s.weight", name), weight);
    uint32_t y = hsp_build_op(b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, w},
                              hsp_build_name(b, "%s.product", name));
    uint32_t v = hsp_build_param(b, hsp_build_name(b, "%s.bias", name), &bias);
    return hsp_build_op(b, HSP_OP_BIAS_ADD, NULL, (uint32_t[]){y, v}, name);
}

uint32_t hsp_build_attention(struct hsp_builder *b, const struct hsp_attrs *at,
                             const uint32_t qkv[3], const char *name)
{
    if (!b->g->spec.packed) {
        return hsp_build_op(b, HSP_OP_ATTENTION, at, qkv, name);
    }
    if (b->starts == HSP_NONE) {
        b->starts = hsp_build_input(b, "document_starts", HSP_LOAD_STARTS,
                                    (struct hsp_extent){HSP_EXT_BATCH, 1},
                                    (struct hsp_extent){HSP_EXT_SEQ, 1});
    }
    return hsp_build_op(b, HSP_OP_PACKED_ATTENTION, at,
                        (uint32_t[]){qkv[0], qkv[1], qkv[2], b->starts}, name);
}

/* The name is part of the key: every tensor has a mask of its own (decision D5). */
uint32_t hsp_build_dropout(struct hsp_builder *b, uint32_t x, const char *name)
{
    double p = b->g->spec.dropout;
    if (!(p > 0)) {
        return x;
    }
    if (b->keys == HSP_NONE) {
        b->keys =
            hsp_build_input(b, "sample_keys", HSP_LOAD_KEYS, (struct hsp_extent){HSP_EXT_BATCH, 1},
                            (struct hsp_extent){HSP_EXT_CONST, 2});
    }
    struct hsp_attrs at = {.i = {0, (int64_t)hsp_hash_str(name)}, .f = {p}};
    return hsp_build_op(b, HSP_OP_DROPOUT, &at, (uint32_t[]){b->keys, x}, name);
}

void hsp_build_loss(struct hsp_builder *b, uint32_t logits, struct hsp_extent width)
{
    struct hsp_extent batch = {HSP_EXT_BATCH, 1};
    uint32_t labels = hsp_build_input(b, "labels", HSP_LOAD_LABELS, batch, width);
    int64_t chunks = b->g->spec.vocab_chunks;
    uint32_t loss;
    if (chunks == 0) {
        loss = hsp_build_op(b, HSP_OP_XENT, NULL, (uint32_t[]){logits, labels}, "loss");
    } else { /* decision D2: local ops; few bytes are exchanged */
        struct hsp_attrs at = {.i = {b->g->spec.vocab / chunks}};
        uint32_t lse = hsp_build_op(b, HSP_OP_LSE_PARTS, &at, &logits, "loss.parts");
        lse = hsp_build_op(b, HSP_OP_LSE_MERGE, NULL, &lse, "loss.lse");
        at.i[0] = b->g->spec.vocab;
        loss = hsp_build_op(b, HSP_OP_XENT_PART, &at, (uint32_t[]){logits, labels, lse}, "loss");
    }
    b->g->loss_sum = hsp_build_op(b, HSP_OP_SUM, NULL, &loss, "loss_sum");
    b->g->n_valid = hsp_build_op(b, HSP_OP_COUNT, NULL, &labels, "n_valid");
}
