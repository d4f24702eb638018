/* Tests zero 3: parameters are stored cut, gathered where they are read, and gradients added up
 * where they are stored; the same step as the unsharded graph, in less memory. */
#include <stdio.h>

#include "proto/layout/box.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/plan_run.h"

static void run_cut(const char *plan, const struct plan_model *m, uint64_t seed)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 16);
    hsp_plan_with_zero(plan, 3, &b);
    plan_run(hsp_buf_cstr(&b), m, seed);
    hsp_buf_fini(&b);
}

static void run_table(const char *family, bool tied, uint8_t optimizer)
{
    struct plan_model m = plan_model(family, tied, 2, optimizer);
    for (size_t i = 0; i < hsp_n_plan_cases; i++) {
        run_cut(hsp_plan_cases[i], &m, i);
    }
    for (size_t i = 0; i < hsp_n_group_cases && strcmp(family, "gpt") == 0; i++) {
        run_cut(hsp_group_cases[i], &m, i);
    }
    hsp_graph_free(m.g);
}

static void test_gpt(void **state)
{
    (void)state;
    run_table("gpt", false, HSP_OPT_ADAMW);
    run_table("gpt", true, HSP_OPT_SGD);
}

static void test_mlp(void **state)
{
    (void)state;
    run_table("mlp", false, HSP_OPT_SGD);
    run_table("mlp", true, HSP_OPT_ADAMW);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < hsp_test_rounds(100); i++) {
        uint64_t draw = (i + 1000) << 16;
        uint32_t layers = hsp_plan_pick(&draw, 1, 4);
        struct plan_model m =
            plan_model("gpt", hsp_plan_pick(&draw, 0, 1) == 1, layers,
                       hsp_plan_pick(&draw, 0, 1) == 0 ? HSP_OPT_ADAMW : HSP_OPT_SGD);
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        if (i % 2 == 0) {
            hsp_random_plan(&draw, layers, PLAN_BATCH, &b);
        } else {
            hsp_random_groups(&draw, layers, PLAN_BATCH, &b);
        }
        run_cut(hsp_buf_cstr(&b), &m, i);
        hsp_buf_fini(&b);
        hsp_graph_free(m.g);
    }
}

/* Homes on ranks of other pipelines, and stored twice: then the gradient keeps the accumulator of
 * its use.
 */
static void test_homes(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "{name: \"h.0.mlp.fc.weight\", home: 3}", "{name: \"h.1.attn.*\", home: {dup: [1, 3]}}",
        "{name: \"wte.weight\", home: {split: 1, shares: [1, 1], of: [{dup: [0, 3]}, 2]}}",
        "{name: \"h.*.weight\", home: {split: 0, shares: [2, 1, 3], of: [3, 2, 0]}}"};
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        char plan[2048];
        snprintf(plan, sizeof plan,
                 HSP_PLAN_HEAD
                 "ranks: 4\nzero: 3\npipelines:\n"
                 "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: [0, 1]},"
                 " {layers: 1, ranks: [2], saved: recompute}]}\n"
                 "  - {sequences: 3, micro_batches: 3, stages: [{layers: 2, ranks: [3]}]}\n"
                 "parameters: [%s]\n",
                 rules[i]);
        plan_run(plan, &m, i);
    }
    hsp_graph_free(m.g);
}

/* ---- programs ---- */

#define UNLIKE_STREAMS                                                                        \
    HSP_PLAN_HEAD "ranks: 2\nzero: 3\npipelines:\n"                                           \
                  "  - {sequences: 5, micro_batches: 3, stages: [{layers: 2, ranks: [0]}]}\n" \
                  "  - {sequences: 2, micro_batches: 1, stages: [{layers: 2, ranks: [1]}]}\n"

static uint32_t count_entries(const struct hsp_sched *s, const struct hsp_template *t,
                              uint32_t piece)
{
    uint32_t n = 0, queue = t->pieces[piece].queue;
    for (uint32_t i = 0; i < s->n[queue]; i++) {
        n += s->e[queue][i].piece == piece ? 1 : 0;
    }
    return n;
}

/* A rank serves as often as the other pipeline has micro-batches; a gathered tensor lives in one
 * segment.
 */
static void test_serve(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", false, 2, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    struct hsp_err err = {0};
    assert_ok(hsp_compile(m.g, plan_of_text(UNLIKE_STREAMS, arena), &m.t, arena, &f, &err), &err);
    for (uint32_t r = 0; r < 2; r++) {
        const struct hsp_template *t = &f.programs[r].tpl;
        const struct hsp_segment *s = &t->segments[t->n_segments - 1];
        uint32_t served = 0, uses = 0, other = f.programs[1 - r].bind.pipeline.n_micro;
        assert_int_equal(s->kind, HSP_SEG_SERVE);
        for (uint32_t k = s->first_piece; k < s->first_piece + s->n_pieces; k++) {
            uint32_t train = count_entries(&f.programs[r].bind.train, t, k);
            uint32_t eval = count_entries(&f.programs[r].bind.eval, t, k);
            assert_true(train == 0 ? eval == f.programs[1 - r].bind.pipeline.eval_n_micro
                                   : train == other && eval == 0);
            served += train > 0 ? 1 : 0;
        }
        for (uint32_t i = 0; i < t->n_tensors; i++) {
            if (strstr(t->tensors[i].name, "#use") != NULL) {
                assert_int_equal(t->tensors[i].cls, HSP_CLASS_SCRATCH);
                uses++;
            }
        }
        assert_true(served > 0 && uses > 0);
    }
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

/* Compute pieces of @s between the Reshard that makes @tensor and the piece that reads it first;
 * none does or makes it: UINT32_MAX. */
static uint32_t pieces_between(const struct hsp_template *t, const struct hsp_segment *s,
                               uint32_t tensor)
{
    uint32_t n = 0;
    bool made = false;
    for (uint32_t k = s->first_piece; k < s->first_piece + s->n_pieces; k++) {
        const struct hsp_piece *q = &t->pieces[k];
        for (uint32_t i = q->first; i < q->first + q->n; i++) {
            const struct hsp_instr *in = &t->instrs[i];
            for (uint8_t o = 0; o < in->n_in && made && q->queue == HSP_QUEUE_COMPUTE; o++) {
                if (in->in[o] == tensor) {
                    return n;
                }
            }
            made = made || (in->kind == HSP_I_RESHARD && in->out[0] == tensor);
        }
        n += made && q->queue == HSP_QUEUE_COMPUTE ? 1 : 0;
    }
    return UINT32_MAX;
}

/* A unit computes while the next one's parameters are gathered, and while the gradients of the one
 * before are reduced; only the first gather of a segment and its last sum have nothing to hide
 * behind. */
static void test_ahead(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", false, 4, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    char plan[1024];
    snprintf(plan, sizeof plan,
             HSP_PLAN_HEAD
             "ranks: 2\nzero: 3\npipelines:\n"
             "  - {sequences: 4, micro_batches: 2, stages: [{layers: 4, ranks: [0]}]}\n"
             "  - {sequences: 3, micro_batches: 2, stages: [{layers: 4, ranks: [1]}]}\n");
    plan_compile(plan, &m, arena, &f);
    const struct hsp_template *t = &f.programs[0].tpl;
    uint32_t uses = 0, parts = 0, first = 0, last = 0;
    for (uint32_t k = 0; k < t->n_segments; k++) {
        const struct hsp_segment *s = &t->segments[k];
        for (uint32_t i = 0; i < t->n_tensors && s->kind != HSP_SEG_SERVE; i++) {
            bool use = strstr(t->tensors[i].name, "#use") != NULL;
            bool part = strstr(t->tensors[i].name, "#part") != NULL;
            uint32_t n = use || part ? pieces_between(t, s, i) : UINT32_MAX;
            if (n == UINT32_MAX) {
                continue;
            }
            uses += use ? 1 : 0;
            parts += part ? 1 : 0;
            first += use && n == 0 ? 1 : 0;
            last += part && n == 0 ? 1 : 0;
        }
    }
    /* first: wte and wpe forward and in Eval, two of the head backward; last: wte, of which this
     * rank stores some */
    assert_true(uses > 150 && parts > 30);
    assert_int_equal(first, 6);
    assert_int_equal(last, 1);
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

static void test_documents(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", false, 2, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    struct hsp_err err = {0};
    m.t.data.samples = HSP_SAMPLES_DOCUMENTS;
    assert_status(hsp_compile(m.g, plan_of_text(UNLIKE_STREAMS, arena), &m.t, arena, &f, &err),
                  HSP_EINVAL);
    assert_string_equal(err.msg,
                        "zero 3 with 2 pipelines needs micro-batches that are never empty, "
                        "with data.samples: documents a step has as many sequences as it "
                        "fills");
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

/* ---- memory ---- */

static int64_t memory_of(const char *plan, const struct plan_model *m, uint32_t rank)
{
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    plan_compile(plan, m, arena, &f);
    int64_t bytes = f.programs[rank].bind.memory_bytes;
    hsp_arena_free(arena);
    return bytes;
}

/* Bytes of all parameters, and of those of the largest unit. */
static int64_t parameter_bytes(const struct hsp_graph *g, int64_t *ret_unit)
{
    int64_t all = 0, ext[HSP_MAX_RANK];
    *ret_unit = 0;
    int64_t *unit = calloc(g->n_layers, sizeof *unit);
    assert_non_null(unit);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct hsp_node *n = &g->nodes[i];
        for (uint8_t k = 0; k < n->n_in && !n->backward; k++) {
            const struct hsp_tensor *t = &g->tensors[n->in[k]];
            if (t->kind == HSP_TENSOR_PARAM) {
                hsp_tensor_extents(g, n->in[k], 1, ext);
                struct hsp_box b = hsp_box_whole(t->rank, ext);
                int64_t bytes = (hsp_box_count(&b) * 8 + 63) / 64 * 64;
                all += bytes;
                unit[n->layer] += bytes;
                *ret_unit = unit[n->layer] > *ret_unit ? unit[n->layer] : *ret_unit;
            }
        }
    }
    free(unit);
    return all;
}

/* Three ranks that hold the whole model each keep with zero 1 the parameters in use and their
 * gradient; with zero 3 a third of the gradient, the parameters of two units, the gradients of one,
 * and thirds that are not added up yet. */
static void test_memory(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", false, 24, HSP_OPT_ADAMW);
    int64_t unit, all = parameter_bytes(m.g, &unit);
    for (int again = 0; again < 2; again++) {
        int64_t bytes[2];
        for (int cut = 0; cut < 2; cut++) {
            char plan[1024];
            snprintf(plan, sizeof plan,
                     HSP_PLAN_HEAD "ranks: 3\nzero: %d\npipelines:\n"
                                   "  - {sequences: 3, micro_batches: 2, stages: [{layers: 24, "
                                   "ranks: [0]%s}]}\n"
                                   "  - {sequences: 2, micro_batches: 2, stages: [{layers: 24, "
                                   "ranks: [1]}]}\n"
                                   "  - {sequences: 2, micro_batches: 1, stages: [{layers: 24, "
                                   "ranks: [2]}]}\n",
                     cut == 0 ? 1 : 3, again == 1 ? ", saved: recompute" : "");
            bytes[cut] = memory_of(plan, &m, 0);
        }
        assert_true(bytes[0] > 2 * all);
        assert_true(bytes[1] < bytes[0] - 2 * all + all / 3 + 4 * unit);
    }
    hsp_graph_free(m.g);
}

HSP_TEST_FILE(zero3_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),    cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_homes),  cmocka_unit_test(test_random),
        cmocka_unit_test(test_serve),  cmocka_unit_test(test_documents),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
