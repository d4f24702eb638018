/* Compiles many plans, runs their programs by the machine of the tests, and compares the results
 * with those of the unsharded graph. */
#include <stdio.h>

#include "proto/program/program_file.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/plan_run.h"

/* ---- cases ---- */

static void run_table(const char *family, bool tied, uint8_t optimizer)
{
    struct plan_model m = plan_model(family, tied, 2, optimizer);
    plan_run_all(hsp_plan_cases, hsp_n_plan_cases, &m);
    hsp_graph_free(m.g);
}

static void test_gpt(void **state)
{
    (void)state;
    run_table("gpt", false, HSP_OPT_ADAMW);
}

static void test_gpt_tied_sgd(void **state)
{
    (void)state;
    run_table("gpt", true, HSP_OPT_SGD);
}

static void test_mlp(void **state)
{
    (void)state;
    run_table("mlp", false, HSP_OPT_ADAMW);
}

static void test_mlp_tied(void **state)
{
    (void)state;
    run_table("mlp", true, HSP_OPT_SGD);
}

/* Compiles plans that state homes of parameters: on a rank that does not use the parameter, cut
 * otherwise than the use, and duplicated. */
static void test_homes(void **state)
{
    (void)state;
    static const char form[] =
        HSP_PLAN_HEAD "ranks: 4\npipelines:\n"
                      "  - {sequences: 4, micro_batches: 2, stages: [{layers: 1, ranks: [0, 1]},"
                      " {layers: 1, ranks: [2]}]}\n"
                      "  - {sequences: 3, micro_batches: 2, stages: [{layers: 2, ranks: [3]}]}\n"
                      "parameters: [%s]\n";
    static const char *const rules[] = {
        "{name: \"h.0.mlp.fc.weight\", home: 2}",
        "{name: \"h.0.mlp.*\", home: {split: 0, shares: [2, 1, 3], of: [3, 2, 0]}}",
        "{name: \"h.1.attn.*\", home: {dup: [1, 0]}}",
        "{name: \"wte.weight\", home: {split: 1, shares: [1, 1], of: [{dup: [0, 3]}, 2]}}",
        "{name: \"h.0.mlp.fc.weight\", home: 2}, {name: \"h.?.mlp.fc.*\", home: {split: 0, "
        "shares: [2, 1, 3], of: [3, 2, 0]}}, {name: \"w*\", home: {dup: [3, 1]}}",
    };
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        char plan[2048];
        snprintf(plan, sizeof plan, form, rules[i]);
        plan_run(plan, &m, i);
    }
    hsp_graph_free(m.g);
}

/* A vocabulary cut by tensor parallelism: partial embeddings, gathered logits, sliced gradients,
 * and tied weights whose two gradients meet in the layout of their use. The loss is the plain
 * xent, which needs whole logits; with vocab_chunks the families make the cut loss
 * (stage_groups_test). */
static void test_vocabulary_cut(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        struct plan_model m = plan_model("gpt", tied == 1, 2, HSP_OPT_ADAMW);
        for (uint32_t p = 0; p < m.g->n_params; p++) {
            const char *name = m.g->tensors[m.g->params[p].tensor].name;
            if (strcmp(name, "wte.weight") == 0 || strcmp(name, "lm_head.weight") == 0) {
                m.g->params[p].tp_dim = 0;
                m.g->params[p].tp_grain = 1;
                m.g->params[p].tp_family = 77;
            }
        }
        plan_run_all(hsp_plan_cases, hsp_n_plan_cases, &m);
        hsp_graph_free(m.g);
    }
}

/* ---- random plans ---- */

static void test_random(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < hsp_test_rounds(300); i++) {
        uint64_t draw = i << 16;
        bool gpt = hsp_plan_pick(&draw, 0, 2) > 0;
        uint32_t layers = hsp_plan_pick(&draw, 1, 4);
        struct plan_model m =
            plan_model(gpt ? "gpt" : "mlp", hsp_plan_pick(&draw, 0, 1) == 1, layers,
                       hsp_plan_pick(&draw, 0, 1) == 0 ? HSP_OPT_ADAMW : HSP_OPT_SGD);
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        hsp_random_plan(&draw, layers, PLAN_BATCH, &b);
        plan_run(hsp_buf_cstr(&b), &m, i);
        hsp_buf_fini(&b);
        hsp_graph_free(m.g);
    }
}

/* ---- templates ---- */

/* Other shares change bindings but not templates, and members of equal role share a template. */
static void test_templates(void **state)
{
    (void)state;
    static const char form[] = HSP_PLAN_HEAD
        "ranks: 5\nzero: %d\npipelines:\n"
        "  - {sequences: %d, micro_batches: 2, stages: [{layers: 1, ranks: [0, 1], tensor: "
        "[%d, %d]}, {layers: 1, ranks: [2]}]}\n"
        "  - {sequences: %d, micro_batches: 2, stages: [{layers: 2, ranks: [3, 4], tensor: [%d, "
        "%d]}]}\n";
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    for (int zero = 0; zero < 2; zero++) {
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file a, b;
        char text[1024];
        snprintf(text, sizeof text, form, zero, 4, 2, 1, 3, 1, 1);
        plan_compile(text, &m, arena, &a);
        snprintf(text, sizeof text, form, zero, 5, 1, 2, 2, 1, 3);
        plan_compile(text, &m, arena, &b);
        for (uint32_t i = 0; i < 5; i++) {
            assert_true(hsp_digest_equal(a.programs[i].tpl.digest, b.programs[i].tpl.digest));
        }
        assert_false(hsp_digest_equal(a.programs[0].tpl.digest, a.programs[2].tpl.digest));
        assert_true(
            hsp_digest_equal(a.programs[0].bind.plan_digest, a.programs[4].bind.plan_digest));
        assert_false(
            hsp_digest_equal(a.programs[0].bind.plan_digest, b.programs[0].bind.plan_digest));
        hsp_arena_free(arena);
    }
    hsp_graph_free(m.g);
}

/* With recomputation, the backward repeats the attention of each block, and micro-batches in flight
 * keep only the inputs of the blocks. */
static void test_recompute(void **state)
{
    (void)state;
    static const char form[] = HSP_PLAN_HEAD
        "ranks: 2\nzero: 0\npipelines:\n"
        "  - {sequences: 7, micro_batches: 7, schedule: gpipe, stages: [{layers: 4, ranks: [0, 1], "
        "tensor: [1, 1]%s}]}\n";
    struct plan_model m = plan_model("gpt", false, 4, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    int64_t micro[2] = {0}, attention[2] = {0};
    for (int again = 0; again < 2; again++) {
        struct hsp_program_file f;
        char text[1024];
        snprintf(text, sizeof text, form, again == 1 ? ", saved: recompute" : "");
        plan_compile(text, &m, arena, &f);
        const struct hsp_program *p = &f.programs[0];
        for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
            bool kept = p->tpl.tensors[i].cls == HSP_CLASS_MICRO;
            micro[again] += kept ? p->bind.tensor[i].slot_bytes : 0;
        }
        for (uint32_t i = 0; i < p->tpl.n_instrs; i++) {
            attention[again] +=
                p->tpl.instrs[i].kind == HSP_I_OP && p->tpl.instrs[i].op == HSP_OP_ATTENTION;
        }
    }
    assert_int_equal(attention[1] - attention[0], 4);
    assert_true(micro[1] * 4 < micro[0]);
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

/* Returns @plan with `keep` in place of each `offload`; the caller frees the text. */
static char *kept(const char *plan)
{
    char *text = strdup(plan);
    assert_non_null(text);
    for (char *at = text; (at = strstr(at, "offload")) != NULL;) {
        memcpy(at, "keep   ", 7);
    }
    return text;
}

/* Offload adds copies to a program, and no computation. */
static void test_offload_bits(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    uint32_t n = 0;
    for (size_t i = 0; i < hsp_n_plan_cases + hsp_n_group_cases; i++) {
        const char *plan =
            i < hsp_n_plan_cases ? hsp_plan_cases[i] : hsp_group_cases[i - hsp_n_plan_cases];
        if (strstr(plan, "offload") != NULL) {
            char *other = kept(plan);
            plan_same_bits(plan, other, &m, i);
            free(other);
            n++;
        }
    }
    assert_int_equal(n, 7);
    hsp_graph_free(m.g);
}

static int64_t class_bytes(const struct hsp_program *p, uint8_t cls)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < p->tpl.n_tensors; i++) {
        const struct hsp_tensor_bind *b = &p->bind.tensor[i];
        sum += p->tpl.tensors[i].cls == cls ? b->slot_bytes * b->n_slots : 0;
    }
    return sum;
}

/* A deep stage under 1F1B with three micro-batches in flight. Kept, they have 3 x 7 units
 * (embedding and six blocks) on the device; offloaded these are in the host's memory, and on the
 * device are no more than two units, and the tensors between them. */
static void test_offload_memory(void **state)
{
    (void)state;
    static const char form[] = HSP_PLAN_HEAD "ranks: 3\npipelines:\n"
                                             "  - {sequences: 7, micro_batches: 7, stages: "
                                             "[{layers: 6, ranks: [0], saved: %s}, {layers: "
                                             "1, ranks: [1]}, {layers: 1, ranks: [2]}]}\n";
    struct plan_model m = plan_model("gpt", false, 8, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f[2];
    for (int k = 0; k < 2; k++) {
        char text[1024];
        snprintf(text, sizeof text, form, k == 0 ? "keep" : "offload");
        plan_compile(text, &m, arena, &f[k]);
    }
    const struct hsp_program *keep = &f[0].programs[0], *off = &f[1].programs[0];
    int64_t saved = class_bytes(keep, HSP_CLASS_MICRO), block = saved / (3 * 6);
    assert_int_equal(class_bytes(off, HSP_CLASS_MICRO), 0);
    assert_int_equal(class_bytes(off, HSP_CLASS_HOST), saved);
    assert_int_equal(off->bind.host_bytes, saved);
    assert_int_equal(keep->bind.host_bytes, 0);
    assert_true(off->bind.memory_bytes <= keep->bind.memory_bytes - saved + 2 * block + block / 2);
    assert_int_equal(f[0].programs[1].bind.memory_bytes, f[1].programs[1].bind.memory_bytes);
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

static uint32_t layer_of(const struct plan_model *m, const struct hsp_program *p, uint32_t instr)
{
    while (p->tpl.instrs[instr].kind != HSP_I_OP) {
        instr--;
    }
    return m->g->nodes[p->tpl.instrs[instr].node].layer;
}

static bool reads(const struct hsp_instr *i, uint32_t tensor)
{
    for (uint8_t k = 0; k < i->n_in; k++) {
        if (i->in[k] == tensor) {
            return true;
        }
    }
    return false;
}

/* The segment of @kind: instructions [*first, *end). */
static void segment_of(const struct hsp_program *p, uint8_t kind, uint32_t *first, uint32_t *end)
{
    uint32_t s = 0;
    while (p->tpl.segments[s].kind != kind) {
        s++;
    }
    const struct hsp_piece *q = &p->tpl.pieces[p->tpl.segments[s].first_piece];
    const struct hsp_piece *last = q + p->tpl.segments[s].n_pieces - 1;
    *first = q->first;
    *end = last->first + last->n;
}

/* An offloaded value is copied out after the unit that follows its last use, and copied in during
 * the unit before the one that needs it. Each copy so overlaps with the computation of one unit. */
static void test_offload_overlaps(void **state)
{
    (void)state;
    static const char plan[] = HSP_PLAN_HEAD
        "ranks: 1\npipelines: [{sequences: 7, micro_batches: 2, stages: [{layers: 4, ranks: [0], "
        "saved: offload}]}]";
    struct plan_model m = plan_model("gpt", false, 4, HSP_OPT_ADAMW);
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    uint32_t first, end, n = 0;
    plan_compile(plan, &m, arena, &f);
    const struct hsp_program *p = &f.programs[0];
    segment_of(p, HSP_SEG_FORWARD, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        uint32_t use = i;
        while (p->tpl.instrs[i].kind == HSP_I_COPY && use > first &&
               !reads(&p->tpl.instrs[use - 1], p->tpl.instrs[i].in[0])) {
            use--;
        }
        if (use < i && use > first && layer_of(&m, p, use - 1) < m.g->n_layers - 1) {
            assert_int_equal(layer_of(&m, p, i), layer_of(&m, p, use - 1) + 1);
            n++;
        }
    }
    assert_true(n > 20);
    segment_of(p, HSP_SEG_BACKWARD, &first, &end);
    for (uint32_t i = first, use; i < end; i++) {
        for (use = i + 1; p->tpl.instrs[i].kind == HSP_I_COPY &&
                          !reads(&p->tpl.instrs[use], p->tpl.instrs[i].out[0]);) {
            use++;
        }
        if (use > i + 1 && layer_of(&m, p, use) < m.g->n_layers - 1) {
            assert_int_equal(layer_of(&m, p, i), layer_of(&m, p, use) + 1);
            n++;
        }
    }
    assert_true(n > 40);
    hsp_arena_free(arena);
    hsp_graph_free(m.g);
}

/* Compiling the same input twice gives the same bytes. */
static void test_deterministic(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", true, 2, HSP_OPT_ADAMW);
    struct hsp_buf out[2];
    for (int i = 0; i < 2; i++) {
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        struct hsp_program_file f;
        plan_compile(hsp_plan_cases[10], &m, arena, &f);
        hsp_buf_init(&out[i], (size_t)64 << 20);
        assert_int_equal(hsp_program_file_encode(&f, &out[i]), HSP_OK);
        hsp_arena_free(arena);
    }
    assert_int_equal(out[0].len, out[1].len);
    assert_memory_equal(out[0].data, out[1].data, out[0].len);
    hsp_buf_fini(&out[0]);
    hsp_buf_fini(&out[1]);
    hsp_graph_free(m.g);
}

HSP_TEST_FILE(compile_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_gpt_tied_sgd),
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_mlp_tied),
        cmocka_unit_test(test_homes),
        cmocka_unit_test(test_vocabulary_cut),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_offload_bits),
        cmocka_unit_test(test_offload_memory),
        cmocka_unit_test(test_offload_overlaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
