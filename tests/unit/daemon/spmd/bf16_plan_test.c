/* Tests models that compute in bf16: the same step as the unsharded graph under every plan (the
 * machine keeps bf16 of programs in fp64, so a plan is right or wrong), and the places where the
 * types of programs change. */
#include <stdio.h>

#include "proto/layout/box.h"
#include "proto/program/program_check.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/plan_run.h"

static struct hsp_model_spec spec_of(const char *family, bool tied, int64_t layers)
{
    struct hsp_model_spec s = {.layers = layers,
                               .hidden = 12,
                               .heads = 6,
                               .kv_heads = 3,
                               .intermediate = 7,
                               .rope_theta = 100,
                               .rms_norm_eps = 1e-5,
                               .vocab = PLAN_VOCAB,
                               .sequence = PLAN_SEQUENCE,
                               .tied_head = tied,
                               .compute = HSP_COMPUTE_BF16};
    (void)snprintf(s.family, sizeof s.family, "%s", family);
    return s;
}

static struct plan_model model(const char *family, bool tied, int64_t layers)
{
    struct hsp_model_spec s = spec_of(family, tied, layers);
    return plan_model_of(&s, tied ? HSP_OPT_SGD : HSP_OPT_ADAMW);
}

/* ---- numbers ---- */

static void run_with_zero(const char *plan, uint32_t zero, const struct plan_model *m)
{
    struct hsp_buf b;
    hsp_buf_init(&b, 1 << 16);
    hsp_plan_with_zero(plan, zero, &b);
    plan_run(hsp_buf_cstr(&b), m, zero);
    hsp_buf_fini(&b);
}

static void test_plans(void **state)
{
    (void)state;
    struct plan_model llama = model("llama", false, 2), tied = model("gpt", true, 2),
                      mlp = model("mlp", false, 2);
    for (size_t i = 0; i < hsp_n_plan_cases; i++) {
        plan_run(hsp_plan_cases[i], i % 3 == 0 ? &llama : i % 3 == 1 ? &tied : &mlp, i);
        run_with_zero(hsp_plan_cases[i], 3, i % 2 == 0 ? &llama : &tied);
    }
    for (size_t i = 0; i < hsp_n_group_cases; i++) { /* rings, split batches */
        plan_run(hsp_group_cases[i], i % 2 == 0 ? &llama : &tied, i);
        run_with_zero(hsp_group_cases[i], i % 4 == 3 ? 1 : 3, i % 2 == 0 ? &tied : &llama);
    }
    hsp_graph_free(llama.g);
    hsp_graph_free(tied.g);
    hsp_graph_free(mlp.g);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < hsp_test_rounds(40); i++) {
        uint64_t draw = (i + 5000) << 16;
        uint32_t layers = hsp_plan_pick(&draw, 1, 3);
        struct plan_model m = model(i % 2 == 0 ? "gpt" : "llama", i % 3 == 0, layers);
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        if (i % 2 == 0) {
            hsp_random_plan(&draw, layers, PLAN_BATCH, &b);
        } else {
            hsp_random_groups(&draw, layers, PLAN_BATCH, &b);
        }
        if (hsp_plan_pick(&draw, 0, 1) == 0) {
            plan_run(hsp_buf_cstr(&b), &m, i);
        } else {
            run_with_zero(hsp_buf_cstr(&b), 3, &m);
        }
        hsp_buf_fini(&b);
        hsp_graph_free(m.g);
    }
}

/* ---- types ---- */

static uint8_t type_of(const struct hsp_program *p, uint32_t tensor)
{
    return p->tpl.tensors[tensor].dtype;
}

/* An instruction of a segment of @kind. */
static void check_instr(const struct hsp_program *p, uint8_t kind, const struct hsp_instr *i,
                        uint32_t *n_casts)
{
    bool cast = i->kind == HSP_I_OP && i->op == HSP_OP_NARROW;
    *n_casts += cast ? 1 : 0;
    assert_true(!cast || kind == HSP_SEG_PRE); /* once per step */
    assert_true(!cast || p->tpl.tensors[i->in[0]].cls == HSP_CLASS_STATE);
    if (i->kind == HSP_I_RESHARD && kind == HSP_SEG_PRE) { /* parameters travel as bf16 */
        assert_int_equal(type_of(p, i->n_out > 0 ? i->out[0] : i->in[0]), HSP_BF16);
    }
    if (i->kind == HSP_I_ACC) { /* gradients are added in fp32 */
        assert_int_equal(type_of(p, i->in[0]), HSP_F32);
        assert_int_equal(type_of(p, i->out[0]), HSP_F32);
    }
    for (uint8_t k = 0; kind == HSP_SEG_POST && k < i->n_in + i->n_out; k++) { /* and reduced */
        assert_int_not_equal(type_of(p, k < i->n_in ? i->in[k] : i->out[k - i->n_in]), HSP_BF16);
    }
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static void check_tensor(const struct hsp_ptensor *t)
{
    bool wide = t->cls == HSP_CLASS_STATE || ends_in(t->name, "#acc") ||
                ends_in(t->name, "#grad") || ends_in(t->name, ".mean") ||
                ends_in(t->name, ".rstd") || ends_in(t->name, ".lse") ||
                strcmp(t->name, "loss") == 0;
    if (wide) {
        assert_int_equal(t->dtype, HSP_F32);
    } else if (ends_in(t->name, "#use") || ends_in(t->name, "#copy") ||
               ends_in(t->name, ".product") || strcmp(t->name, "embed") == 0 ||
               strcmp(t->name, "lm_head") == 0) {
        assert_int_equal(t->dtype, HSP_BF16);
    }
}

static void check_types(const char *plan, const struct plan_model *m)
{
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    struct hsp_err err = {0};
    plan_compile(plan, m, arena, &f);
    for (uint32_t r = 0; r < f.n; r++) {
        const struct hsp_program *p = &f.programs[r];
        uint32_t n_casts = 0, n_params = 0;
        assert_ok(hsp_program_check(p, &err), &err);
        for (uint32_t t = 0; t < p->tpl.n_tensors; t++) {
            check_tensor(&p->tpl.tensors[t]);
        }
        for (uint32_t s = 0; s < p->tpl.n_segments; s++) {
            const struct hsp_segment *g = &p->tpl.segments[s];
            for (uint32_t q = g->first_piece; q < g->first_piece + g->n_pieces; q++) {
                const struct hsp_piece *x = &p->tpl.pieces[q];
                for (uint32_t i = x->first; i < x->first + x->n; i++) {
                    check_instr(p, g->kind, &p->tpl.instrs[i], &n_casts);
                }
            }
        }
        for (uint32_t s = 0; s < p->bind.n_state; s++) {
            const struct hsp_ptensor *t = &p->tpl.tensors[p->bind.state[s].tensor];
            n_params += t->state_kind == HSP_STATE_PARAM ? 1 : 0;
        }
        assert_int_equal(n_casts, n_params); /* each box that is stored, where it is */
    }
    hsp_arena_free(arena);
}

static void test_types(void **state)
{
    (void)state;
    struct plan_model m = model("gpt", false, 2);
    for (size_t i = 0; i < hsp_n_plan_cases; i++) {
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        check_types(hsp_plan_cases[i], &m);
        hsp_plan_with_zero(hsp_plan_cases[i], 3, &b);
        check_types(hsp_buf_cstr(&b), &m);
        hsp_buf_fini(&b);
    }
    hsp_graph_free(m.g);
}

/* State and its updates are those of the fp32 job: segments, checkpoints and switches do not
 * change. */
static void test_state_as_in_fp32(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("llama", false, 2);
    struct plan_model low = plan_model_of(&s, HSP_OPT_ADAMW);
    s.compute = HSP_COMPUTE_FULL;
    struct plan_model full = plan_model_of(&s, HSP_OPT_ADAMW);
    for (size_t i = 0; i < hsp_n_plan_cases; i++) {
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file f, g;
        plan_compile(hsp_plan_cases[i], &low, arena, &f);
        plan_compile(hsp_plan_cases[i], &full, arena, &g);
        for (uint32_t r = 0; r < f.n; r++) {
            const struct hsp_binding *a = &f.programs[r].bind, *b = &g.programs[r].bind;
            assert_int_equal(a->state_bytes, b->state_bytes);
            assert_int_equal(a->n_state, b->n_state);
            for (uint32_t k = 0; k < a->n_state; k++) {
                const struct hsp_tensor_bind *x = &a->tensor[a->state[k].tensor];
                const struct hsp_tensor_bind *y = &b->tensor[b->state[k].tensor];
                assert_int_equal(a->state[k].tensor_id, b->state[k].tensor_id);
                assert_int_equal(x->offset, y->offset);
                assert_true(hsp_box_equal(&x->box, &y->box));
            }
        }
        hsp_arena_free(arena);
    }
    hsp_graph_free(low.g);
    hsp_graph_free(full.g);
}

/* With activations that outweigh all else, memory is about half that of fp32. */
static void test_memory(void **state)
{
    (void)state;
    static const char plan[] = HSP_PLAN_HEAD "ranks: 1\npipelines: [{sequences: 7, micro_batches: "
                                             "1, stages: [{layers: 2, ranks: [0]}]}]";
    struct hsp_model_spec s = spec_of("gpt", false, 2);
    int64_t bytes[2];
    s.hidden = 96;
    s.sequence = 128;
    for (int i = 0; i < 2; i++) {
        s.compute = i == 0 ? HSP_COMPUTE_FULL : HSP_COMPUTE_BF16;
        struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file f;
        m.t.data.sequence = (uint32_t)s.sequence;
        plan_compile(plan, &m, arena, &f);
        bytes[i] = f.programs[0].bind.memory_bytes;
        hsp_arena_free(arena);
        hsp_graph_free(m.g);
    }
    assert_true(bytes[1] < bytes[0] * 65 / 100);
}

/* tf32 is an arithmetic: the same tensors as fp32, and a word to the executors. */
static void test_tf32(void **state)
{
    (void)state;
    struct hsp_model_spec s = spec_of("gpt", false, 1);
    s.compute = HSP_COMPUTE_TF32;
    struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    plan_compile(HSP_PLAN_HEAD "ranks: 1\npipelines: [{sequences: 7, micro_batches: 1, stages: "
                               "[{layers: 1, ranks: [0]}]}]",
                 &m, arena, &f);
    assert_true(f.programs[0].bind.hyper.tf32);
    for (uint32_t t = 0; t < f.programs[0].tpl.n_tensors; t++) {
        assert_int_not_equal(f.programs[0].tpl.tensors[t].dtype, HSP_BF16);
    }
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

HSP_TEST_FILE(bf16_plan_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans),  cmocka_unit_test(test_random),
        cmocka_unit_test(test_types),  cmocka_unit_test(test_state_as_in_fp32),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_tf32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
