#include "daemon/graph/graph.h"

#include <string.h> /* memcmp */

#include "proto/base/check.h"

struct hsp_graph *hsp_graph_free(struct hsp_graph *g)
{
    if (g != NULL) {
        hsp_arena_free(g->arena); /* g lives in it */
    }
    return NULL;
}

/* ---- types, extents and axes ---- */

enum hsp_dtype hsp_model_real(const struct hsp_model_spec *m)
{
    return m->compute == HSP_COMPUTE_BF16 ? HSP_BF16 : m->dtype;
}

const char *hsp_compute_name(const struct hsp_model_spec *m)
{
    switch (m->compute) {
    case HSP_COMPUTE_FULL: return hsp_dtype_name(m->dtype);
    case HSP_COMPUTE_TF32: return "tf32";
    case HSP_COMPUTE_BF16: return "bf16";
    }
    return "?";
}

enum hsp_dtype hsp_node_real(const struct hsp_graph *g, const struct hsp_node *n)
{
    enum hsp_dtype real = hsp_model_real(&g->spec);
    for (uint8_t i = 0; i < n->n_in; i++) {
        if (hsp_op_types((enum hsp_op)n->op)[i] == 't') {
            real = (enum hsp_dtype)g->tensors[n->in[i]].dtype;
        }
    }
    return real;
}

void hsp_tensor_extents(const struct hsp_graph *g, uint32_t tensor, int64_t b,
                        int64_t ret[HSP_MAX_RANK])
{
    const struct hsp_tensor *t = &g->tensors[tensor];
    for (uint8_t d = 0; d < HSP_MAX_RANK; d++) {
        int64_t unit = t->ext[d].sym == HSP_EXT_BATCH ? b
                       : t->ext[d].sym == HSP_EXT_SEQ ? g->spec.sequence
                                                      : 1;
        ret[d] = d < t->rank ? t->ext[d].k * unit : 0;
    }
}

/* "..." stands for as many dims as the largest operand has. */
static uint8_t dots_rank(const struct hsp_graph *g, uint8_t n_in, const uint32_t *in)
{
    uint8_t rank = 0;
    for (uint8_t i = 0; i < n_in; i++) {
        uint8_t r = g->tensors[in[i]].rank;
        rank = r > rank ? r : rank;
    }
    return rank;
}

enum hsp_status hsp_node_axes(const struct hsp_graph *g, const struct hsp_node *n,
                              struct hsp_axes *ret, struct hsp_err *err)
{
    return hsp_op_axes((enum hsp_op)n->op, &n->at, dots_rank(g, n->n_in, n->in), ret, err);
}

/* Extents of the node's axes, in units, for a batch of @b sequences. */
static void node_extents(const struct hsp_graph *g, uint32_t node, const struct hsp_axes *ax,
                         int64_t b, int64_t ret[HSP_MAX_AXES])
{
    const struct hsp_node *n = &g->nodes[node];
    int64_t in[HSP_MAX_IN][HSP_MAX_RANK];
    for (uint8_t i = 0; i < n->n_in; i++) {
        hsp_tensor_extents(g, n->in[i], b, in[i]);
    }
    enum hsp_status st = hsp_op_extents((enum hsp_op)n->op, &n->at, ax, in, ret, NULL);
    HSP_ASSERT(st == HSP_OK); /* the builder checked it symbolically */
}

/* ---- invariants ---- */

static void check_operand(const struct hsp_graph *g, uint32_t tensor,
                          const struct hsp_operand_use *u, const int64_t *axis)
{
    int64_t ext[HSP_MAX_RANK];
    hsp_tensor_extents(g, tensor, 3, ext);
    HSP_ASSERT(g->tensors[tensor].rank == u->rank);
    for (uint8_t d = 0; d < u->rank; d++) {
        HSP_ASSERT(ext[d] == axis[u->dim[d].axis] * u->dim[d].unit);
    }
}

static void check_node(const struct hsp_graph *g, uint32_t i)
{
    const struct hsp_node *n = &g->nodes[i];
    struct hsp_axes ax;
    int64_t axis[HSP_MAX_AXES];
    HSP_ASSERT(n->backward == (i >= g->n_forward));
    HSP_ASSERT(n->backward == (n->forward_of != HSP_NONE));
    HSP_ASSERT(!n->backward || n->forward_of < g->n_forward);
    HSP_ASSERT(n->layer < g->n_layers);
    for (uint8_t k = 0; k < n->n_in; k++) { /* G1 */
        const struct hsp_tensor *t = &g->tensors[n->in[k]];
        HSP_ASSERT(n->in[k] < g->n_tensors);
        HSP_ASSERT(t->producer == HSP_NONE || t->producer < i);
        HSP_ASSERT(n->backward || (t->kind != HSP_TENSOR_GRAD && t->kind != HSP_TENSOR_SEED));
        bool forward = t->kind == HSP_TENSOR_ACT || t->kind == HSP_TENSOR_INPUT;
        HSP_ASSERT(!n->backward || !forward || t->saved);
    }
    enum hsp_status st = hsp_node_axes(g, n, &ax, NULL);
    HSP_ASSERT(st == HSP_OK); /* the builder asked the same before */
    node_extents(g, i, &ax, 3, axis);
    enum hsp_dtype real = hsp_node_real(g, n);
    for (uint8_t k = 0; k < n->n_in; k++) {
        check_operand(g, n->in[k], &ax.in[k], axis);
        HSP_ASSERT(g->tensors[n->in[k]].dtype == hsp_op_dtype((enum hsp_op)n->op, k, real));
    }
    for (uint8_t k = 0; k < n->n_out; k++) {
        if (n->out[k] != HSP_NONE) { /* G2, G3 */
            const struct hsp_tensor *t = &g->tensors[n->out[k]];
            HSP_ASSERT(t->producer == i);
            HSP_ASSERT(t->kind == (n->backward ? HSP_TENSOR_GRAD : HSP_TENSOR_ACT));
            check_operand(g, n->out[k], &ax.out[k], axis);
            HSP_ASSERT(t->dtype == hsp_op_dtype((enum hsp_op)n->op, (uint8_t)(n->n_in + k), real));
        }
    }
}

static void check_param(const struct hsp_graph *g, uint32_t i)
{
    const struct hsp_param *p = &g->params[i];
    int64_t ext[HSP_MAX_RANK], grad[HSP_MAX_RANK];
    HSP_ASSERT(g->tensors[p->tensor].kind == HSP_TENSOR_PARAM);
    HSP_ASSERT(g->tensors[p->tensor].param == i);
    hsp_tensor_extents(g, p->tensor, 3, ext);
    HSP_ASSERT(p->tp_dim < g->tensors[p->tensor].rank);
    HSP_ASSERT(p->tp_dim < 0 || ext[p->tp_dim] % p->tp_grain == 0);
    for (uint32_t k = 0; k < p->n_grads; k++) {
        hsp_tensor_extents(g, p->grad[k], 3, grad);
        HSP_ASSERT(memcmp(ext, grad, sizeof ext) == 0);
        HSP_ASSERT(g->tensors[p->grad[k]].kind == HSP_TENSOR_GRAD);
        HSP_ASSERT(g->tensors[p->grad[k]].dtype == g->spec.dtype);
    }
}

void hsp_graph_check(const struct hsp_graph *g)
{
    HSP_ASSERT(g->n_forward <= g->n_nodes);
    HSP_ASSERT(g->loss_sum < g->n_tensors);
    HSP_ASSERT(g->n_valid < g->n_tensors);
    for (uint32_t t = 0; t < g->n_tensors; t++) {
        const struct hsp_tensor *x = &g->tensors[t];
        bool made = x->kind == HSP_TENSOR_ACT || x->kind == HSP_TENSOR_GRAD;
        HSP_ASSERT(made == (x->producer != HSP_NONE)); /* G2 */
        HSP_ASSERT((x->kind == HSP_TENSOR_SEED) == (t == g->seed));
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        check_node(g, i);
    }
    for (uint32_t i = 0; i < g->n_params; i++) {
        check_param(g, i);
    }
}

/* ---- text ---- */

static void dump_shape(const struct hsp_tensor *t, struct hsp_buf *out)
{
    static const char *const symbols[] = {"", "batch", "sequence"};
    hsp_buf_puts(out, "[");
    for (uint8_t d = 0; d < t->rank; d++) {
        const struct hsp_extent *e = &t->ext[d];
        hsp_buf_puts(out, d > 0 ? ", " : "");
        if (e->sym == HSP_EXT_CONST || e->k != 1) {
            hsp_buf_printf(out, "%lld%s", (long long)e->k, e->sym != HSP_EXT_CONST ? " " : "");
        }
        hsp_buf_puts(out, symbols[e->sym]);
    }
    hsp_buf_puts(out, "]");
}

static void dump_params(const struct hsp_graph *g, struct hsp_buf *out)
{
    static const char *const inits[] = {"zero", "one", "normal"};
    for (uint32_t i = 0; i < g->n_params; i++) {
        const struct hsp_param *p = &g->params[i];
        hsp_buf_printf(out, "  %s ", g->tensors[p->tensor].name);
        dump_shape(&g->tensors[p->tensor], out);
        hsp_buf_printf(out, " init %s", inits[p->init]);
        if (p->init == HSP_INIT_NORMAL) {
            hsp_buf_printf(out, " %.6g", p->init_std);
        }
        hsp_buf_puts(out, p->decay ? ", decay" : "");
        if (p->tp_dim >= 0) {
            hsp_buf_printf(out, ", cut dim %d by %lld, family %u", p->tp_dim,
                           (long long)p->tp_grain, p->tp_family);
        }
        hsp_buf_puts(out, ", gradient");
        for (uint32_t k = 0; k < p->n_grads; k++) {
            hsp_buf_printf(out, "%s %s", k > 0 ? " +" : "", g->tensors[p->grad[k]].name);
        }
        hsp_buf_puts(out, "\n");
    }
}

static void dump_node(const struct hsp_graph *g, uint32_t i, struct hsp_buf *out)
{
    const struct hsp_node *n = &g->nodes[i];
    hsp_buf_printf(out, "  %u: ", i);
    for (uint8_t k = 0; k < n->n_out; k++) {
        hsp_buf_puts(out, k > 0 ? ", " : "");
        if (n->out[k] == HSP_NONE) {
            hsp_buf_puts(out, "-");
            continue;
        }
        hsp_buf_printf(out, "%s ", g->tensors[n->out[k]].name);
        dump_shape(&g->tensors[n->out[k]], out);
    }
    hsp_buf_printf(out, " = %s(", hsp_op_name((enum hsp_op)n->op));
    for (uint8_t k = 0; k < n->n_in; k++) {
        hsp_buf_printf(out, "%s%s", k > 0 ? ", " : "", g->tensors[n->in[k]].name);
    }
    hsp_buf_printf(out, ") unit %u\n", n->layer);
}

void hsp_graph_dump(const struct hsp_graph *g, struct hsp_buf *out)
{
    const struct hsp_model_spec *m = &g->spec;
    int64_t n_params = 0;
    for (uint32_t i = 0; i < g->n_params; i++) {
        int64_t ext[HSP_MAX_RANK], n = 1;
        hsp_tensor_extents(g, g->params[i].tensor, 1, ext);
        for (uint8_t d = 0; d < g->tensors[g->params[i].tensor].rank; d++) {
            n *= ext[d];
        }
        n_params += n;
    }
    hsp_buf_printf(out,
                   "model %s: layers %lld, hidden %lld, heads %lld, vocab %lld, sequence %lld, ",
                   m->family, (long long)m->layers, (long long)m->hidden, (long long)m->heads,
                   (long long)m->vocab, (long long)m->sequence);
    if (m->kv_heads > 0) {
        hsp_buf_printf(out, "kv_heads %lld, intermediate %lld, rope_theta %g, rms_norm_eps %g, ",
                       (long long)m->kv_heads, (long long)m->intermediate, m->rope_theta,
                       m->rms_norm_eps);
    }
    if (m->vocab_chunks > 0) {
        hsp_buf_printf(out, "vocabulary in %lld chunks, ", (long long)m->vocab_chunks);
    }
    hsp_buf_puts(out, m->packed ? "packed documents, " : "");
    hsp_buf_printf(out, "%s head, %s, ", m->tied_head ? "tied" : "own", hsp_dtype_name(m->dtype));
    if (m->compute != HSP_COMPUTE_FULL) {
        hsp_buf_printf(out, "computed in %s, ", hsp_compute_name(m));
    }
    hsp_buf_printf(out, "%lld parameters\n", (long long)n_params);
    hsp_buf_puts(out, "parameters:\n");
    dump_params(g, out);
    hsp_buf_puts(out, "forward:\n");
    for (uint32_t i = 0; i < g->n_forward; i++) {
        dump_node(g, i, out);
    }
    hsp_buf_puts(out, "backward:\n");
    for (uint32_t i = g->n_forward; i < g->n_nodes; i++) {
        dump_node(g, i, out);
    }
    hsp_buf_puts(out, "saved for backward:\n");
    for (uint32_t t = 0; t < g->n_tensors; t++) {
        if (g->tensors[t].saved) {
            hsp_buf_printf(out, "  %s ", g->tensors[t].name);
            dump_shape(&g->tensors[t], out);
            hsp_buf_puts(out, "\n");
        }
    }
}
