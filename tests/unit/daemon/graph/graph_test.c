#include "daemon/graph/graph.h"
#include "daemon/graph/graph_build.h"
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h> /* snprintf */

static struct hsp_model_spec gpt(int64_t layers, bool tied)
{
    return (struct hsp_model_spec){.family = "gpt",
                                   .layers = layers,
                                   .hidden = 12,
                                   .heads = 3,
                                   .vocab = 20,
                                   .sequence = 8,
                                   .tied_head = tied};
}

static struct hsp_graph *build(const struct hsp_model_spec *m)
{
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(m, &g, &err), &err);
    hsp_graph_check(g);
    return g;
}

static uint32_t count_op(const struct hsp_graph *g, enum hsp_op op, bool backward)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        n += g->nodes[i].op == op && g->nodes[i].backward == backward;
    }
    return n;
}

static const struct hsp_param *param(const struct hsp_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_params; i++) {
        if (strcmp(g->tensors[g->params[i].tensor].name, name) == 0) {
            return &g->params[i];
        }
    }
    print_error("no parameter %s\n", name);
    fail();
    return NULL;
}

static const struct hsp_tensor *tensor(const struct hsp_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (strcmp(g->tensors[i].name, name) == 0) {
            return &g->tensors[i];
        }
    }
    print_error("no tensor %s\n", name);
    fail();
    return NULL;
}

static void gpt_has_the_nodes_of_gpt(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(3, true);
    struct hsp_graph *g = build(&m);
    assert_int_equal(g->n_layers, 5);
    assert_int_equal(count_op(g, HSP_OP_LINEAR, false), 3 * 6 + 1);
    assert_int_equal(count_op(g, HSP_OP_BIAS_ADD, false), 3 * 6);
    assert_int_equal(count_op(g, HSP_OP_ATTENTION, false), 3);
    assert_int_equal(count_op(g, HSP_OP_LAYERNORM, false), 3 * 2 + 1);
    assert_int_equal(count_op(g, HSP_OP_ADD, false), 3 * 2 + 1);
    assert_int_equal(count_op(g, HSP_OP_EMBED, false), 2);
    assert_int_equal(count_op(g, HSP_OP_LINEAR_DX, true), 3 * 6 + 1);
    assert_int_equal(count_op(g, HSP_OP_LINEAR_DW, true), 3 * 6 + 1);
    assert_int_equal(count_op(g, HSP_OP_BIAS_DB, true), 3 * 6);
    assert_int_equal(count_op(g, HSP_OP_EMBED_DW, true), 2);
    /* sums of gradients: after q, k, v (2 adds) and at both residuals */
    assert_int_equal(count_op(g, HSP_OP_ADD, true), 3 * 4);
    assert_int_equal(g->n_params, 2 + 3 * 16 + 2);
    hsp_graph_free(g);
}

static void tied_weights_have_two_gradients(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(1, true);
    struct hsp_graph *g = build(&m);
    for (uint32_t i = 0; i < g->n_params; i++) {
        bool tied = strcmp(g->tensors[g->params[i].tensor].name, "wte.weight") == 0;
        assert_int_equal(g->params[i].n_grads, tied ? 2 : 1);
    }
    hsp_graph_free(g);
    m = gpt(1, false);
    g = build(&m);
    assert_int_equal(param(g, "wte.weight")->n_grads, 1);
    assert_int_equal(param(g, "lm_head.weight")->n_grads, 1);
    hsp_graph_free(g);
}

static void assert_cut(const struct hsp_graph *g, const char *name, int dim, int64_t grain,
                       uint32_t family)
{
    const struct hsp_param *p = param(g, name);
    assert_int_equal(p->tp_dim, dim);
    assert_int_equal(p->tp_grain, grain);
    assert_int_equal(p->tp_family, family);
}

static void gpt_parameters(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(2, false);
    struct hsp_graph *g = build(&m);
    int64_t ext[HSP_MAX_RANK];
    assert_cut(g, "h.1.attn.q.weight", 0, 4, 0);
    assert_cut(g, "h.0.attn.v.bias", 0, 4, 0);
    assert_cut(g, "h.0.attn.proj.weight", 1, 4, 0);
    assert_cut(g, "h.0.attn.proj.bias", -1, 1, HSP_NONE);
    assert_cut(g, "h.0.mlp.fc.weight", 0, 1, 1);
    assert_cut(g, "h.0.mlp.fc.bias", 0, 1, 1);
    assert_cut(g, "h.0.mlp.proj.weight", 1, 1, 1);
    assert_cut(g, "wte.weight", -1, 1, HSP_NONE);
    assert_cut(g, "lm_head.weight", -1, 1, HSP_NONE);
    assert_cut(g, "ln_f.weight", -1, 1, HSP_NONE);
    assert_near(param(g, "h.0.mlp.proj.weight")->init_std, 0.01, 1e-15); /* 0.02 / sqrt(2 * 2) */
    assert_near(param(g, "h.0.mlp.fc.weight")->init_std, 0.02, 0);
    assert_int_equal(param(g, "h.1.ln_2.weight")->init, HSP_INIT_ONE);
    assert_int_equal(param(g, "h.1.ln_2.bias")->init, HSP_INIT_ZERO);
    assert_true(param(g, "wpe.weight")->decay);
    assert_false(param(g, "h.0.mlp.fc.bias")->decay);
    hsp_tensor_extents(g, param(g, "h.0.mlp.fc.weight")->tensor, 7, ext);
    assert_int_equal(ext[0], 48);
    assert_int_equal(ext[1], 12);
    hsp_graph_free(g);
}

static struct hsp_model_spec llama(int64_t layers, bool tied)
{
    struct hsp_model_spec m = gpt(layers, tied);
    (void)snprintf(m.family, sizeof m.family, "%s", "llama");
    m.hidden = 24;
    m.heads = 6;
    m.kv_heads = 2;
    m.intermediate = 20;
    m.rope_theta = 100;
    m.rms_norm_eps = 1e-5;
    return m;
}

static void llama_parameters(void **state)
{
    (void)state;
    struct hsp_model_spec m = llama(2, false);
    struct hsp_graph *g = build(&m);
    int64_t ext[HSP_MAX_RANK];
    assert_int_equal(g->n_params, 2 * 9 + 3);
    assert_cut(g, "model.layers.1.self_attn.q_proj.weight", 0, 12, 0); /* 3 heads of 4 */
    assert_cut(g, "model.layers.0.self_attn.k_proj.weight", 0, 4, 0);
    assert_cut(g, "model.layers.0.self_attn.v_proj.weight", 0, 4, 0);
    assert_cut(g, "model.layers.0.self_attn.o_proj.weight", 1, 12, 0);
    assert_cut(g, "model.layers.0.mlp.gate_proj.weight", 0, 1, 1);
    assert_cut(g, "model.layers.0.mlp.up_proj.weight", 0, 1, 1);
    assert_cut(g, "model.layers.0.mlp.down_proj.weight", 1, 1, 1);
    assert_cut(g, "model.layers.0.input_layernorm.weight", -1, 1, HSP_NONE);
    assert_int_equal(param(g, "model.norm.weight")->init, HSP_INIT_ONE);
    assert_int_equal(param(g, "model.embed_tokens.weight")->n_grads, 1);
    hsp_tensor_extents(g, param(g, "model.layers.0.self_attn.k_proj.weight")->tensor, 7, ext);
    assert_int_equal(ext[0], 8);
    assert_int_equal(ext[1], 24);
    hsp_graph_free(g);
    m.tied_head = true;
    m.vocab_chunks = 4;
    g = build(&m);
    assert_int_equal(param(g, "model.embed_tokens.weight")->n_grads, 2);
    assert_cut(g, "model.embed_tokens.weight", 0, 5, 2);
    hsp_graph_free(g);
}

static void every_dropout_has_a_mask_of_its_own(void **state)
{
    (void)state;
    static const char *const families[] = {"gpt", "llama", "mlp"};
    for (int f = 0; f < 3; f++) {
        struct hsp_model_spec m = llama(2, true);
        (void)snprintf(m.family, sizeof m.family, "%s", families[f]);
        m.dropout = 0.1;
        struct hsp_graph *g = build(&m);
        assert_int_equal(count_op(g, HSP_OP_DROPOUT, false), f < 2 ? 5 : 2);
        for (uint32_t i = 0; i < g->n_nodes; i++) {
            for (uint32_t j = 0; j < i && g->nodes[i].op == HSP_OP_DROPOUT; j++) {
                const struct hsp_node *a = &g->nodes[i], *b = &g->nodes[j];
                bool own = a->backward && a->forward_of == j;
                assert_true(b->op != HSP_OP_DROPOUT || own == (a->at.i[1] == b->at.i[1]) ||
                            (a->backward && b->backward));
            }
        }
        hsp_graph_free(g);
    }
}

static void saved_tensors_are_what_backward_reads(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(1, true);
    struct hsp_graph *g = build(&m);
    static const char *const saved[] = {
        "ids",           "positions",   "labels",         "h.0.ln_1",
        "h.0.ln_1.mean", "h.0.attn.q",  "h.0.attn.heads", "h.0.attn.heads.lse",
        "h.0.mlp.fc",    "h.0.mlp.act", "lm_head",        "loss.lse"};
    static const char *const dropped[] = {"h.0.attn.q.product", "wte",           "wpe",
                                          "h.0.mlp.proj",       "h.0.attn.proj", "n_valid",
                                          "wte.weight"};
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++) {
        assert_true(tensor(g, saved[i])->saved);
    }
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) {
        assert_false(tensor(g, dropped[i])->saved);
    }
    hsp_graph_free(g);
}

/* A backward op is in the unit of its forward op, and a sum of gradients is in the unit of the ops
 * that consume the tensor. So one gradient crosses each boundary of units. */
static void backward_stays_in_its_unit(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(3, true);
    struct hsp_graph *g = build(&m);
    for (uint32_t i = g->n_forward; i < g->n_nodes; i++) {
        const struct hsp_node *n = &g->nodes[i];
        assert_int_equal(n->layer, g->nodes[n->forward_of].layer);
        for (uint8_t k = 0; k < n->n_in; k++) { /* gradients come from this unit or the next one */
            uint32_t from = g->tensors[n->in[k]].producer;
            if (from != HSP_NONE && g->nodes[from].backward) {
                assert_in_range(g->nodes[from].layer, n->layer, n->layer + 1);
            }
        }
    }
    for (uint32_t unit = 0; unit + 1 < g->n_layers;
         unit++) { /* one gradient crosses each boundary */
        uint32_t crossing = HSP_NONE;
        for (uint32_t i = g->n_forward; i < g->n_nodes; i++) {
            for (uint8_t k = 0; g->nodes[i].layer == unit && k < g->nodes[i].n_in; k++) {
                uint32_t t = g->nodes[i].in[k], from = g->tensors[t].producer;
                if (from != HSP_NONE && g->nodes[from].layer == unit + 1) {
                    assert_true(crossing == HSP_NONE || crossing == t);
                    crossing = t;
                }
            }
        }
        assert_int_not_equal(crossing, HSP_NONE);
    }
    hsp_graph_free(g);
}

static void every_node_serves_the_result(void **state)
{
    (void)state;
    static const char *const families[] = {"gpt", "mlp", "llama"};
    for (int k = 0; k < 6; k++) {
        struct hsp_model_spec m = llama(2, k % 2 != 0);
        (void)snprintf(m.family, sizeof m.family, "%s", families[k / 2]);
        struct hsp_graph *g = build(&m);
        bool *used = calloc(g->n_tensors, sizeof *used);
        assert_non_null(used);
        used[g->loss_sum] = used[g->n_valid] = true;
        for (uint32_t p = 0; p < g->n_params; p++) {
            for (uint32_t c = 0; c < g->params[p].n_grads; c++) {
                used[g->params[p].grad[c]] = true;
            }
        }
        for (uint32_t i = g->n_nodes; i-- > 0;) {
            const struct hsp_node *n = &g->nodes[i];
            bool any = false;
            for (uint8_t o = 0; o < n->n_out; o++) {
                any = any || (n->out[o] != HSP_NONE && used[n->out[o]]);
            }
            assert_true(any);
            for (uint8_t j = 0; j < n->n_in; j++) {
                used[n->in[j]] = true;
            }
        }
        free(used);
        hsp_graph_free(g);
    }
}

static void names_are_unique(void **state)
{
    (void)state;
    struct hsp_model_spec models[] = {gpt(2, true), llama(2, false)};
    for (int k = 0; k < 2; k++) {
        struct hsp_graph *g = build(&models[k]);
        for (uint32_t i = 0; i < g->n_tensors; i++) {
            for (uint32_t j = 0; j < i; j++) {
                assert_string_not_equal(g->tensors[i].name, g->tensors[j].name);
            }
        }
        hsp_graph_free(g);
    }
}

static void mlp_alternates_its_cuts(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(3, false);
    (void)snprintf(m.family, sizeof m.family, "%s", "mlp");
    struct hsp_graph *g = build(&m);
    int64_t ext[HSP_MAX_RANK];
    assert_cut(g, "layers.0.weight", 0, 1, 0);
    assert_cut(g, "layers.0.bias", 0, 1, 0);
    assert_cut(g, "layers.1.weight", 1, 1, 0);
    assert_cut(g, "layers.1.bias", -1, 1, HSP_NONE);
    assert_cut(g, "layers.2.weight", 0, 1, 0);
    assert_cut(g, "head.weight", 1, 1, 0); /* the row half of the last pair */
    hsp_tensor_extents(g, param(g, "layers.0.weight")->tensor, 7, ext);
    assert_int_equal(ext[0], 12);
    assert_int_equal(ext[1], 8 * 12);
    assert_int_equal(g->nodes[tensor(g, "layers.2")->producer].layer, 3);
    assert_int_equal(g->nodes[tensor(g, "head")->producer].layer, 4);
    hsp_graph_free(g);
    m.layers = 2;
    g = build(&m);
    assert_cut(g, "head.weight", -1, 1, HSP_NONE);
    hsp_graph_free(g);
    m.tied_head = true;
    g = build(&m);
    assert_int_equal(param(g, "embed.weight")->n_grads, 2);
    assert_cut(g, "embed.weight", -1, 1, HSP_NONE);
    hsp_graph_free(g);
}

static void assert_refused(struct hsp_model_spec m, const char *want)
{
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_status(hsp_graph_build(&m, &g, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, want);
    assert_null(g);
}

static void impossible_models_are_refused(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(2, true);
    m.heads = 5;
    assert_refused(m, "model: heads 5 do not divide hidden 12");
    m = gpt(2, true);
    m.dropout = 1;
    assert_refused(m, "model: dropout 1 is not in [0, 1)");
    m.dropout = NAN;
    assert_refused(m, "model: dropout nan is not in [0, 1)");
    m = gpt(0, true);
    assert_refused(m, "model: layers 0 is outside 1 to 512");
    m = gpt(2, true);
    (void)snprintf(m.family, sizeof m.family, "%s", "bert");
    assert_refused(m, "model: unknown family \"bert\" (gpt, llama, mlp)");
    m = llama(2, true);
    m.vocab_chunks = 3;
    assert_refused(m, "model: llama cannot cut vocab 20 in 3 chunks");
    m = llama(2, true);
    m.kv_heads = 4;
    assert_refused(m, "model: kv_heads 4 do not divide heads 6");
    m.kv_heads = 0;
    assert_refused(m, "model: kv_heads 0 is outside 1 to 6");
    m = llama(2, true);
    m.heads = m.kv_heads = 8;
    assert_refused(m, "model: heads of 3: rotary positions take pairs");
    m = llama(2, true);
    m.intermediate = 0;
    assert_refused(m, "model: intermediate 0 is outside 1 to 1048576");
    m = llama(2, true);
    m.rms_norm_eps = 0;
    assert_refused(m, "model: rope_theta 100 or rms_norm_eps 0 out of range");
    m = gpt(2, true);
    m.dtype = HSP_I32;
    assert_refused(m, "model: dtype is neither fp32 nor fp64");
}

static void largest_models_fit_the_limits(void **state)
{
    (void)state;
    struct hsp_model_spec m = gpt(512, true);
    struct hsp_graph *g = build(&m);
    assert_true(g->n_nodes < HSP_MAX_GRAPH_NODES);
    hsp_graph_free(g);
}

/* Checks the whole text that a user reads, of a one-layer mlp. */
static void dump_reads_well(void **state)
{
    (void)state;
    static const char want[] =
        "model mlp: layers 1, hidden 4, heads 0, vocab 9, sequence 3, own head, fp32, 133 "
        "parameters\n"
        "parameters:\n"
        "  embed.weight [9, 4] init normal 1, decay, gradient embed.weight.grad\n"
        "  layers.0.weight [4, 12] init normal 0.408248, decay, cut dim 0 by 1, family 0, gradient "
        "layers.0.weight.grad\n"
        "  layers.0.bias [4] init zero, cut dim 0 by 1, family 0, gradient layers.0.bias.grad\n"
        "  head.weight [9, 4] init normal 0.02, decay, cut dim 1 by 1, family 0, gradient "
        "head.weight.grad\n"
        "  head.bias [9] init zero, gradient head.bias.grad\n"
        "forward:\n"
        "  0: embed [batch, sequence, 4] = embed(ids, embed.weight) unit 0\n"
        "  1: context [batch, 1, 4 sequence] = flatten(embed) unit 0\n";
    struct hsp_model_spec m = {
        .family = "mlp", .layers = 1, .hidden = 4, .vocab = 9, .sequence = 3};
    struct hsp_graph *g = build(&m);
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 20);
    hsp_graph_dump(g, &b);
    char *text = strdup(hsp_buf_cstr(&b));
    assert_non_null(text);
    assert_true(strlen(text) > strlen(want));
    text[strlen(want)] = '\0';
    assert_string_equal(text, want);
    free(text);
    hsp_buf_fini(&b);
    hsp_graph_free(g);
}

HSP_TEST_FILE(graph_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_has_the_nodes_of_gpt),
        cmocka_unit_test(tied_weights_have_two_gradients),
        cmocka_unit_test(gpt_parameters),
        cmocka_unit_test(llama_parameters),
        cmocka_unit_test(every_dropout_has_a_mask_of_its_own),
        cmocka_unit_test(saved_tensors_are_what_backward_reads),
        cmocka_unit_test(backward_stays_in_its_unit),
        cmocka_unit_test(every_node_serves_the_result),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(mlp_alternates_its_cuts),
        cmocka_unit_test(impossible_models_are_refused),
        cmocka_unit_test(largest_models_fit_the_limits),
        cmocka_unit_test(dump_reads_well),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
