/* Gradients of whole models against central differences, in fp64 with the oracle's formulas. */
#include "daemon/graph/autodiff.h"
#include "daemon/graph/builder.h"
#include "daemon/graph/graph_build.h"
#include "tests/lib/naive_graph.h"
#include "tests/lib/testlib.h"

#include <math.h>
#include <stdio.h> /* snprintf */

static double loss_of(struct hsp_naive_values *x)
{
    hsp_naive_run(x, 0, x->g->n_forward);
    return hsp_naive_get(&x->v[x->g->loss_sum], 0);
}

/* (f(a + h) - f(a - h)) / 2h */
static double slope(struct hsp_naive_values *x, uint32_t t, int64_t i, double h)
{
    double a = hsp_naive_get(&x->v[t], i);
    hsp_naive_put(&x->v[t], i, a + h);
    double up = loss_of(x);
    hsp_naive_put(&x->v[t], i, a - h);
    double down = loss_of(x);
    hsp_naive_put(&x->v[t], i, a);
    return (up - down) / (2 * h);
}

/* Computes the derivative by Ridders' method: it takes slopes over ever smaller h, extrapolates
 * them to higher orders, and returns the entry of the table that differs least from the two entries
 * it was made of. No single h is right for all tensors: the norm of a short vector already curves
 * over 1e-3. */
static double derivative(struct hsp_naive_values *x, uint32_t t, int64_t i)
{
    enum { LEVELS = 9 };
    double a[LEVELS][LEVELS], h = 2e-3, best = 0, least = HUGE_VAL;
    for (int k = 0; k < LEVELS; k++, h /= 2) {
        a[k][0] = slope(x, t, i, h);
        double power = 1;
        for (int j = 1; j <= k; j++) {
            power *= 4;
            a[k][j] = (power * a[k][j - 1] - a[k - 1][j - 1]) / (power - 1);
            double off = fmax(fabs(a[k][j] - a[k][j - 1]), fabs(a[k][j] - a[k - 1][j - 1]));
            if (off < least) {
                least = off;
                best = a[k][j];
            }
        }
    }
    return best;
}

enum { SAMPLES = 4 };

static void gradients_of_graph(const struct hsp_graph *g, double std)
{
    struct hsp_naive_values x;
    hsp_naive_values_init(&x, g, 3);
    hsp_naive_values_random(&x, hsp_test_seed(), std);
    hsp_naive_run(&x, 0, g->n_nodes);
    assert_true(hsp_naive_get(&x.v[g->n_valid], 0) > 0);
    uint32_t alive = 0;
    for (uint32_t p = 0; p < g->n_params; p++) {
        uint32_t t = g->params[p].tensor;
        int64_t n = hsp_naive_count(&x.v[t]);
        for (uint64_t s = 0; s < SAMPLES; s++) {
            int64_t i = hsp_test_range("sample", p * SAMPLES + s, 0, n - 1);
            double got = hsp_naive_grad(&x, p, i), want = derivative(&x, t, i);
            if (!(fabs(got - want) <= 1e-6 * fabs(want) + 2e-9)) {
                print_error("%s[%d]: gradient %.12g, difference %.12g\n", g->tensors[t].name,
                            (int)i, got, want);
                fail();
            }
            alive += fabs(want) > 1e-4;
        }
    }
    assert_true(alive > g->n_params); /* the comparison is not about zeros */
    hsp_naive_values_fini(&x);
}

static void gradients_match(const struct hsp_model_spec *spec)
{
    struct hsp_graph *g = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(spec, &g, &err), &err);
    gradients_of_graph(g, 0.3);
    hsp_graph_free(g);
}

static struct hsp_model_spec spec_of(const char *family, int64_t layers, bool tied)
{
    struct hsp_model_spec m = {.layers = layers,
                               .hidden = 6,
                               .heads = 2,
                               .vocab = 7,
                               .sequence = 4,
                               .tied_head = tied,
                               .dtype = HSP_F64};
    (void)snprintf(m.family, sizeof m.family, "%s", family);
    return m;
}

static void gpt_gradients(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        struct hsp_model_spec m = spec_of("gpt", 2, tied != 0);
        m.dropout = tied != 0 ? 0.25 : 0;
        m.packed = tied == 0;
        gradients_match(&m);
    }
}

static void llama_gradients(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct hsp_model_spec m = spec_of("llama", 2, k % 2 != 0);
        m.hidden = 8;
        m.heads = 4;
        m.kv_heads = k < 2 ? 2 : 1;
        m.intermediate = 5;
        m.rope_theta = 50;
        m.rms_norm_eps = 1e-5;
        m.dropout = k == 1 ? 0.1 : 0;
        m.vocab_chunks = k < 2 ? 0 : m.vocab;
        m.packed = k % 2 == 0;
        gradients_match(&m);
    }
}

static void mlp_gradients(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        struct hsp_model_spec m = spec_of("mlp", 1 + k / 2, k % 2 != 0);
        gradients_match(&m);
    }
}

/* D4: the loss is a sum over labels, so the gradient of a batch is the sum over its sequences. */
static void gradients_add_up_over_the_batch(void **state)
{
    (void)state;
    struct hsp_model_spec m = spec_of("gpt", 1, true);
    struct hsp_graph *g = NULL;
    struct hsp_naive_values all, one;
    struct hsp_err err = {0};
    assert_ok(hsp_graph_build(&m, &g, &err), &err);
    hsp_naive_values_init(&all, g, 2);
    hsp_naive_values_random(&all, 5, 0.3);
    hsp_naive_run(&all, 0, g->n_nodes);
    double valid = 0, loss = 0, grad = 0;
    for (int64_t b = 0; b < 2; b++) {
        hsp_naive_values_init(&one, g, 1);
        for (uint32_t t = 0; t < g->n_tensors; t++) {
            bool input = g->tensors[t].kind == HSP_TENSOR_INPUT;
            int64_t n = hsp_naive_count(&one.v[t]), from = input ? b * n : 0;
            for (int64_t i = 0; i < n && (input || g->tensors[t].kind == HSP_TENSOR_PARAM); i++) {
                hsp_naive_put(&one.v[t], i, hsp_naive_get(&all.v[t], from + i));
            }
        }
        hsp_naive_run(&one, 0, g->n_nodes);
        valid += hsp_naive_get(&one.v[g->n_valid], 0);
        loss += hsp_naive_get(&one.v[g->loss_sum], 0);
        grad += hsp_naive_grad(&one, 0, 8);
        hsp_naive_values_fini(&one);
    }
    assert_near(valid, hsp_naive_get(&all.v[g->n_valid], 0), 0);
    assert_near(loss, hsp_naive_get(&all.v[g->loss_sum], 0), 1e-12);
    assert_near(grad, hsp_naive_grad(&all, 0, 8), 1e-12);
    assert_true(fabs(grad) > 1e-6);
    hsp_naive_values_fini(&all);
    hsp_graph_free(g);
}

static const struct hsp_extent BATCH = {HSP_EXT_BATCH, 1}, SEQ = {HSP_EXT_SEQ, 1};

/* An empty graph of three layers, to be built by hand. */
static struct hsp_graph *no_family(void)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 24);
    struct hsp_graph *g = hsp_arena_alloc(arena, sizeof *g);
    *g = (struct hsp_graph){.arena = arena, .spec = spec_of("gpt", 1, false), .n_layers = 3};
    return g;
}

/* Checks gradients of ops and uses that no model family has: broadcast of a scalar that depends on
 * no parameter, unflatten, a tensor added to itself, a weight used by three layers, and broadcast
 * of a scalar that was summed from a tensor. */
static void gradients_of_odd_uses(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_graph *g = no_family();
    struct hsp_builder b = hsp_builder_of(g, &err);
    struct hsp_attrs at = {.i = {6}};
    struct hsp_param_def table = {.rank = 2, .d = {7, 6}, .init = HSP_INIT_NORMAL, .tp_dim = -1},
                         square = {.rank = 2, .d = {6, 6}, .init = HSP_INIT_NORMAL, .tp_dim = -1};
    uint32_t ids = hsp_build_input(&b, "ids", HSP_LOAD_IDS, BATCH, SEQ);
    uint32_t w = hsp_build_param(&b, "w", &table), v = hsp_build_param(&b, "v", &square);
    uint32_t x = hsp_build_op(&b, HSP_OP_EMBED, NULL, (uint32_t[]){ids, w}, "x");
    uint32_t n = hsp_build_op(&b, HSP_OP_COUNT, NULL, &ids, "n");
    uint32_t y = hsp_build_op(&b, HSP_OP_BROADCAST, NULL, (uint32_t[]){n, x}, "y");
    x = hsp_build_op(&b, HSP_OP_ADD, NULL, (uint32_t[]){x, y}, "xy");
    x = hsp_build_op(&b, HSP_OP_FLATTEN, &at, &x, "flat");
    x = hsp_build_op(&b, HSP_OP_UNFLATTEN, &at, &x, "back");
    for (int i = 0; i < 3; i++) {
        x = hsp_build_op(&b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, v}, hsp_build_name(&b, "l%d", i));
        x = hsp_build_op(&b, HSP_OP_GELU, NULL, &x, hsp_build_name(&b, "a%d", i));
    }
    x = hsp_build_op(&b, HSP_OP_ADD, NULL, (uint32_t[]){x, x}, "twice");
    uint32_t s = hsp_build_op(&b, HSP_OP_SUM, NULL, &x, "s");
    y = hsp_build_op(&b, HSP_OP_BROADCAST, NULL, (uint32_t[]){s, x}, "spread");
    x = hsp_build_op(&b, HSP_OP_ADD, NULL, (uint32_t[]){x, y}, "mix");
    x = hsp_build_op(&b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, w}, "logits");
    hsp_build_loss(&b, x, SEQ);
    assert_ok(b.st, &err);
    assert_ok(hsp_graph_autodiff(g, &err), &err);
    hsp_graph_check(g);
    assert_int_equal(g->params[1].n_grads, 3);
    for (uint32_t i = g->n_forward; i < g->n_nodes; i++) { /* none for n, none for ids */
        for (uint8_t k = 0; k < g->nodes[i].n_out; k++) {
            assert_string_not_equal(g->tensors[g->nodes[i].out[k]].name, "n.grad");
        }
    }
    gradients_of_graph(g, 0.1); /* larger numbers are too stiff for differences */
    hsp_graph_free(g);
}

static void a_weight_used_too_often_is_refused(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_graph *g = no_family();
    struct hsp_builder b = hsp_builder_of(g, &err);
    struct hsp_param_def square = {.rank = 2, .d = {7, 7}, .tp_dim = -1};
    uint32_t ids = hsp_build_input(&b, "ids", HSP_LOAD_IDS, BATCH, SEQ);
    uint32_t v = hsp_build_param(&b, "v", &square);
    uint32_t x = hsp_build_op(&b, HSP_OP_EMBED, NULL, (uint32_t[]){ids, v}, "x");
    for (int i = 0; i < 4; i++) {
        x = hsp_build_op(&b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, v}, hsp_build_name(&b, "l%d", i));
    }
    hsp_build_loss(&b, x, SEQ);
    assert_ok(b.st, &err);
    assert_status(hsp_graph_autodiff(g, &err), HSP_ELIMIT);
    assert_err(&err, HSP_ELIMIT, "v: used more than 4 times");
    hsp_graph_free(g);
}

/* The builder names an op whose operands do not fit, and stays failed. */
static void misfits_are_named(void **state)
{
    (void)state;
    struct hsp_err err = {0};
    struct hsp_graph *g = no_family();
    struct hsp_builder b = hsp_builder_of(g, &err);
    struct hsp_param_def w = {.rank = 2, .d = {7, 6}, .tp_dim = -1};
    uint32_t ids = hsp_build_input(&b, "ids", HSP_LOAD_IDS, BATCH, SEQ);
    uint32_t v = hsp_build_param(&b, "v", &w);
    uint32_t x = hsp_build_op(&b, HSP_OP_EMBED, NULL, (uint32_t[]){ids, v}, "x");
    w.d[1] = 5;
    uint32_t u = hsp_build_param(&b, "u", &w);
    assert_int_equal(hsp_build_op(&b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, u}, "y"), HSP_NONE);
    assert_err(&err, HSP_EINVAL, "linear y: operands do not fit");
    uint32_t nodes = g->n_nodes;
    assert_int_equal(hsp_build_op(&b, HSP_OP_LINEAR, NULL, (uint32_t[]){x, v}, "z"), HSP_NONE);
    assert_int_equal(g->n_nodes, nodes);
    hsp_graph_free(g);
}

HSP_TEST_FILE(autodiff_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_gradients),
        cmocka_unit_test(llama_gradients),
        cmocka_unit_test(mlp_gradients),
        cmocka_unit_test(gradients_of_odd_uses),
        cmocka_unit_test(gradients_add_up_over_the_batch),
        cmocka_unit_test(a_weight_used_too_often_is_refused),
        cmocka_unit_test(misfits_are_named),
    };
    return cmocka_run_group_tests_name("autodiff", tests, NULL, NULL);
}
