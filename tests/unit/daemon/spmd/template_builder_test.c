/* Templates that are kept from one compile to the next, and the keys they are found by. */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/plan/plan_yaml.h"
#include "daemon/spmd/codegen/template_builder.h"
#include "daemon/spmd/lower/lower_plan.h"
#include "proto/program/program_file.h"
#include "proto/program/template_codec.h"
#include "tests/lib/testlib.h"
#include "tests/unit/daemon/plan/plan_cases.h"
#include "tests/unit/daemon/spmd/plan_run.h"

/* ---- compiles ---- */

static void encode(struct hsp_program_file *f, const struct hsp_plan *total, struct hsp_buf *ret)
{
    hsp_buf_init(ret, (size_t)256 << 20);
    f->config_json = "{}";
    assert_int_equal(hsp_program_file_encode(f, ret), HSP_OK);
    hsp_plan_dump(total, ret);
    assert_false(ret->failed);
}

/* Programs and total plan as bytes. @k NULL: a cold compile. */
static void compile(const char *text, const struct plan_model *m, struct hsp_templates *k,
                    struct hsp_buf *ret)
{
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    struct hsp_plan total;
    struct hsp_err err = {0};
    assert_ok(hsp_compile_kept(m->g, plan_of_text(text, arena), &m->t, k, arena, &f, &total, &err),
              &err);
    encode(&f, &total, ret);
    hsp_arena_free(arena); /* nothing of it may be in @k */
}

static struct hsp_template_count same_as_cold(const char *text, const struct plan_model *m,
                                              struct hsp_templates *k)
{
    struct hsp_buf cold, warm;
    compile(text, m, NULL, &cold);
    compile(text, m, k, &warm);
    if (cold.len != warm.len || memcmp(cold.data, warm.data, cold.len) != 0) {
        fail_msg("another program than from a cold compile: %s", text);
    }
    hsp_buf_fini(&cold);
    hsp_buf_fini(&warm);
    return hsp_templates_count(k);
}

static struct plan_model random_model(uint64_t *draw, uint32_t *ret_layers)
{
    *ret_layers = hsp_plan_pick(draw, 1, 4);
    return plan_model("gpt", hsp_plan_pick(draw, 0, 1) == 1, *ret_layers,
                      hsp_plan_pick(draw, 0, 1) == 0 ? HSP_OPT_ADAMW : HSP_OPT_SGD);
}

static void random_text(uint64_t *draw, uint32_t layers, struct hsp_buf *b)
{
    hsp_buf_init(b, 1 << 16);
    if (hsp_plan_pick(draw, 0, 1) == 0) {
        hsp_random_plan(draw, layers, PLAN_BATCH, b);
    } else {
        hsp_random_groups(draw, layers, PLAN_BATCH, b);
    }
}

/* A plan that differs in one place from @text, where it has one of these. */
static void vary(uint64_t *draw, struct hsp_buf *text)
{
    static const char *const pairs[][2] = {{", saved: recompute", ""},
                                           {", sequence_parallel: true", ""},
                                           {", balance: work", ""},
                                           {"tensor: [1", "tensor: [3"},
                                           {"tensor: [0", "tensor: [2"},
                                           {"shares: [1", "shares: [2"},
                                           {"shares: [0", "shares: [1"},
                                           {"zero: 0", "zero: 1"},
                                           {"zero: 1\nzero_pattern: c", "zero: 0\nzero_pattern: c"},
                                           {"pattern: interleaved", "pattern: contiguous"},
                                           {"1f1b", "zero_bubble"},
                                           {"gpipe", "1f1b"}};
    const char *const *pair =
        pairs[hsp_plan_pick(draw, 0, (uint32_t)(sizeof pairs / sizeof pairs[0]) - 1)];
    const char *all = hsp_buf_cstr(text), *at = strstr(all, pair[0]);
    for (uint32_t i = hsp_plan_pick(draw, 0, 3); at != NULL && i > 0; i--) {
        const char *next = strstr(at + 1, pair[0]);
        at = next != NULL ? next : at;
    }
    if (at != NULL) {
        struct hsp_buf b;
        hsp_buf_init(&b, 1 << 16);
        hsp_buf_append(&b, all, (size_t)(at - all));
        hsp_buf_puts(&b, pair[1]);
        hsp_buf_puts(&b, at + strlen(pair[0]));
        hsp_buf_fini(text);
        *text = b;
    }
}

/* Chains of plans that differ in one place, with quite another one now and then. */
static void a_compile_with_kept_templates_is_a_cold_one_to_the_byte(void **state)
{
    (void)state;
    uint32_t made = 0, kept = 0;
    for (uint64_t i = 0; i < hsp_test_rounds(20); i++) {
        uint64_t draw = i << 16;
        uint32_t layers;
        struct plan_model m = random_model(&draw, &layers);
        struct hsp_templates *k = hsp_templates_new();
        struct hsp_buf text;
        random_text(&draw, layers, &text);
        for (int n = 0; n < 12; n++) {
            struct hsp_template_count c = same_as_cold(hsp_buf_cstr(&text), &m, k);
            made += c.made;
            kept += c.kept;
            if (n % 6 == 5) {
                hsp_buf_fini(&text);
                random_text(&draw, layers, &text);
            } else {
                vary(&draw, &text);
            }
        }
        hsp_buf_fini(&text);
        k = hsp_templates_free(k);
        hsp_graph_free(m.g);
    }
    assert_true(made > 5 * hsp_test_rounds(20) && kept > 5 * hsp_test_rounds(20));
}

static void cases_one_after_another_are_cold_ones_to_the_byte(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        struct plan_model m = plan_model("gpt", tied == 1, 2, HSP_OPT_ADAMW);
        struct hsp_templates *k = hsp_templates_new();
        for (size_t i = 0; i < hsp_n_plan_cases + hsp_n_group_cases; i++) {
            (void)same_as_cold(i < hsp_n_plan_cases ? hsp_plan_cases[i]
                                                    : hsp_group_cases[i - hsp_n_plan_cases],
                               &m, k);
        }
        k = hsp_templates_free(k);
        hsp_graph_free(m.g);
    }
}

#define TWO_STREAMS                                                                            \
    HSP_PLAN_HEAD "ranks: %d\npipelines:\n"                                                    \
                  "  - {sequences: %d, micro_batches: 2, stages: [{layers: 2, ranks: [0, 1], " \
                  "tensor: [%d, 1]}, {layers: 2, ranks: [2]}]}\n"                              \
                  "  - {sequences: %d, micro_batches: 2, stages: [{layers: 2, ranks: [%d]}, "  \
                  "{layers: 2, ranks: [%d]%s}]}\n"

static void a_switch_makes_the_templates_of_what_it_changes(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", false, 4, HSP_OPT_ADAMW);
    struct hsp_templates *k = hsp_templates_new();
    char text[1024];
    (void)snprintf(text, sizeof text, TWO_STREAMS, 5, 4, 2, 3, 3, 4, "");
    struct hsp_template_count c = same_as_cold(text, &m, k);
    assert_int_equal(c.made, 5); /* the first member of a group counts the loss */
    assert_int_equal(c.kept, 0);
    /* ranks, shares, and amounts of work: bindings only */
    (void)snprintf(text, sizeof text, TWO_STREAMS, 5, 5, 1, 2, 4, 3, "");
    c = same_as_cold(text, &m, k);
    assert_int_equal(c.made, 0);
    assert_int_equal(c.kept, 5);
    /* one stage */
    (void)snprintf(text, sizeof text, TWO_STREAMS, 5, 5, 1, 2, 4, 3, ", saved: recompute");
    c = same_as_cold(text, &m, k);
    assert_int_equal(c.made, 1);
    assert_int_equal(c.kept, 4);
    /* and back: those of the compile before the last are there */
    (void)snprintf(text, sizeof text, TWO_STREAMS, 5, 5, 1, 2, 4, 3, "");
    c = same_as_cold(text, &m, k);
    assert_int_equal(c.made, 0);
    k = hsp_templates_free(k);
    hsp_graph_free(m.g);
}

#define POOL                                                                                       \
    "apiVersion: hspmd/v1\nkind: pool\nplans:\n"                                                   \
    "  - {max_length: 2, plan: {ranks: 2, pipelines: [{sequences: 4, stages: [{layers: 2, ranks: " \
    "[0]%s}]}, {sequences: 3, stages: [{layers: 2, ranks: [1]}]}]}}\n"                             \
    "  - {max_length: 4, plan: {ranks: 2, pipelines: [{sequences: 7, micro_batches: 7, stages: "   \
    "[{layers: 1, ranks: [1]}, {layers: 1, ranks: [0]}]}]}}\n"

static void plans_of_a_pool_are_told_apart(void **state)
{
    (void)state;
    struct hsp_model_spec s = {.family = "gpt",
                               .layers = 2,
                               .hidden = 6,
                               .heads = 3,
                               .vocab = PLAN_VOCAB,
                               .sequence = PLAN_SEQUENCE,
                               .packed = true,
                               .dtype = HSP_F64};
    struct plan_model m = plan_model_of(&s, HSP_OPT_ADAMW);
    struct hsp_templates *k = hsp_templates_new();
    char text[1024];
    m.t.data.samples = HSP_SAMPLES_DOCUMENTS;
    m.t.data.longest = PLAN_SEQUENCE;
    m.t.data.packing = HSP_PACKING_END;
    (void)snprintf(text, sizeof text, POOL, "");
    struct hsp_template_count c = same_as_cold(text, &m, k);
    uint32_t n = c.made;
    assert_true(n >= 3);
    assert_int_equal(c.kept, 0);
    (void)snprintf(text, sizeof text, POOL, ", saved: recompute");
    c = same_as_cold(text, &m, k);
    assert_int_equal(c.made, 1);
    assert_true(c.kept + 1 >= n);
    k = hsp_templates_free(k);
    hsp_graph_free(m.g);
}

static void a_plan_that_is_refused_changes_nothing(void **state)
{
    (void)state;
    struct plan_model m = plan_model("gpt", false, 2, HSP_OPT_ADAMW);
    struct hsp_templates *k = hsp_templates_new();
    struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
    struct hsp_program_file f;
    struct hsp_plan total;
    struct hsp_err err = {0};
    (void)same_as_cold(hsp_plan_cases[5], &m, k);
    m.t.data.sequence++; /* not the model's */
    assert_status(hsp_compile_kept(m.g, plan_of_text(hsp_plan_cases[0], arena), &m.t, k, arena, &f,
                                   &total, &err),
                  HSP_EINVAL);
    m.t.data.sequence--;
    struct hsp_template_count c = same_as_cold(hsp_plan_cases[5], &m, k);
    assert_int_equal(c.made, 0);
    assert_int_equal(c.kept, 2);
    hsp_arena_free(arena);
    k = hsp_templates_free(k);
    hsp_graph_free(m.g);
}

/* ---- keys ---- */

/* The code of a plan's stages, one field of which is changed at a time. */
struct code {
    struct hsp_compiler c;
    struct hsp_stagecode *s;
    uint32_t member;
    struct hsp_buf bytes; /* of the traced template before the change */
    struct hsp_digest key;
    uint32_t told; /* changes that made another traced template */
};

static void put_traced(const struct hsp_traced_template *m, struct hsp_buf *b)
{
    const struct hsp_template *t = &m->tpl;
    assert_int_equal(hsp_template_encode(t, b), HSP_OK);
    hsp_buf_append(b, m->value_of, t->n_tensors * sizeof *m->value_of);
    for (uint32_t i = 0; i < t->n_symbols; i++) {
        const struct hsp_symbol_from *f = &m->symbol_of[i];
        hsp_buf_printf(b, "%u %u %u %lld,", f->value, f->what, f->dim, (long long)f->unit);
    }
    assert_false(b->failed);
}

/* The traced template and the key as the code is now. False: no code for a template, as changes
 * go. */
static bool read_code(struct code *x, struct hsp_buf *ret, struct hsp_digest *ret_key)
{
    struct hsp_err err = {0};
    struct hsp_traced_template m;
    struct hsp_member_code code;
    struct hsp_arena_position mark = hsp_arena_mark(x->c.arena);
    hsp_buf_reset(ret);
    assert_ok(hsp_member_code_read(&x->c, x->s, x->member, &code, &err), &err);
    bool ok = hsp_traced_template_make(&x->c, &code, &m, &err) == HSP_OK;
    if (ok) {
        assert_int_equal(m.tpl.n_reshards, code.n_reshards);
        put_traced(&m, ret);
        *ret_key = code.key;
    }
    hsp_member_code_fini(&code);
    hsp_arena_rewind(x->c.arena, mark);
    return ok;
}

/* The code as it was but for one field: another traced template must have another key. */
static void look(struct code *x, const char *what)
{
    struct hsp_buf now;
    struct hsp_digest key;
    hsp_buf_init(&now, (size_t)64 << 20);
    if (read_code(x, &now, &key) &&
        (now.len != x->bytes.len || memcmp(now.data, x->bytes.data, now.len) != 0)) {
        x->told++;
        if (hsp_digest_equal(key, x->key)) {
            fail_msg("the key does not tell %s", what);
        }
    }
    hsp_buf_fini(&now);
}

#define CHANGE(x, field, to)              \
    do {                                  \
        __typeof__(field) was_ = (field); \
        (field) = (to);                   \
        look(x, #field " " #to);          \
        (field) = was_;                   \
    } while (0)

static void change_value(struct code *x, struct hsp_value *v, uint32_t other)
{
    uint32_t n = x->s->group->n;
    bool *some = hsp_arena_array(x->c.arena, n, sizeof *some);
    some[0] = x->member != 0 || v->present == NULL || !v->present[0];
    for (uint32_t j = 1; j < n; j++) {
        some[j] = v->present != NULL && !v->present[j];
    }
    CHANGE(x, v->name, "another");
    CHANGE(x, v->dtype, (uint8_t)(v->dtype + 1));
    CHANGE(x, v->cls, (uint8_t)((v->cls + 1) % (HSP_CLASS_HOST + 1)));
    CHANGE(x, v->state_kind, (uint8_t)(v->state_kind + 1));
    CHANGE(x, v->batch_dim0, !v->batch_dim0);
    CHANGE(x, v->batch_fixed, !v->batch_fixed);
    CHANGE(x, v->parts, v->parts == HSP_NONE ? 1 : HSP_NONE);
    CHANGE(x, v->present, some);
    for (uint8_t d = 0; d < v->at.rank; d++) {
        CHANGE(x, v->at.extent[d], v->at.extent[d] + 1);
        CHANGE(x, v->at.cut[d], v->at.cut[d] + 1);
        CHANGE(x, v->at.split[d], v->at.split[d] + 1);
    }
    if (v->at.rank > 0) {
        CHANGE(x, v->at.rank, (uint8_t)(v->at.rank - 1));
    }
    if (v->is_alias != NULL) {
        /* a value that serves for others has none itself */
        if (x->s->value[other].is_alias == NULL) {
            CHANGE(x, v->alias, other);
        }
        CHANGE(x, v->is_alias, NULL);
    }
}

static void change_step(struct code *x, struct hsp_step *st, uint32_t other)
{
    CHANGE(x, st->pass, false);
    if (st->pass) {
        return; /* the value it passes on is nobody else's: no code if another value stood there */
    }
    CHANGE(x, st->kind, (uint8_t)((st->kind + 1) % (HSP_I_COPY + 1)));
    CHANGE(x, st->op, (uint8_t)(st->op + 1));
    CHANGE(x, st->queue, (uint8_t)!st->queue);
    CHANGE(x, st->node, st->node + 1);
    CHANGE(x, st->arg, st->arg + 1);
    CHANGE(x, st->meets, st->meets + 1);
    CHANGE(x, st->only, st->only == HSP_NONE ? 0 : HSP_NONE);
    CHANGE(x, st->only, x->member);
    CHANGE(x, st->only, x->member + 1);
    for (int k = 0; k < HSP_N_ATTR_I; k++) {
        CHANGE(x, st->at.i[k], st->at.i[k] + 1);
    }
    for (int k = 0; k < 4; k++) {
        CHANGE(x, st->at.f[k], st->at.f[k] + 1);
    }
    for (uint8_t k = 0; k < st->n_in; k++) {
        CHANGE(x, st->in[k], other);
    }
    for (uint8_t k = 0; k < st->n_out; k++) {
        CHANGE(x, st->out[k], other);
    }
    for (int k = 0; k < 2; k++) {
        CHANGE(x, st->origin_value[k], other);
        CHANGE(x, st->origin_dim[k], (uint8_t)(st->origin_dim[k] + 1));
    }
    if (st->n_in > 0) {
        CHANGE(x, st->n_in, (uint8_t)(st->n_in - 1));
    }
    if (st->n_out > 1) {
        CHANGE(x, st->n_out, (uint8_t)(st->n_out - 1));
    }
}

/* A value that no step passes on: those have one step only. */
static uint32_t pick_value(const struct hsp_stagecode *s, uint64_t *draw)
{
    uint32_t v = hsp_plan_pick(draw, 0, (uint32_t)s->n_values - 1);
    for (uint32_t part = 0; part < s->n_parts; part++) {
        size_t at = hsp_step_after(s, part, v);
        if (at != SIZE_MAX && s->part[part].step[at - 1].pass) {
            return pick_value(s, draw);
        }
    }
    return v;
}

static void change_stage(struct code *x, uint64_t *draw)
{
    struct hsp_stagecode *s = x->s;
    hsp_buf_init(&x->bytes, (size_t)64 << 20);
    assert_true(read_code(x, &x->bytes, &x->key));
    CHANGE(x, s->split, !s->split);
    CHANGE(x, x->c.eval, !x->c.eval);
    for (int i = 0; i < 20; i++) {
        uint32_t at = hsp_plan_pick(draw, 0, (uint32_t)s->n_values - 1);
        uint32_t other = pick_value(s, draw);
        change_value(x, &s->value[at], other);
        struct hsp_code *p = &s->part[hsp_plan_pick(draw, 0, s->n_parts - 1)];
        if (p->n > 0) {
            change_step(x, &p->step[hsp_plan_pick(draw, 0, (uint32_t)p->n - 1)], other);
        }
    }
    hsp_buf_fini(&x->bytes);
}

/* Random plans, and cases, which have the parts that are not drawn. */
static void keys_tell_all_that_templates_are_made_of(void **state)
{
    (void)state;
    uint32_t told = 0;
    for (uint64_t i = 0; i < hsp_test_rounds(12); i++) {
        uint64_t draw = i << 16;
        uint32_t layers = 2;
        struct hsp_buf text;
        struct hsp_err err = {0};
        struct plan_model m = i % 2 == 0 ? random_model(&draw, &layers)
                                         : plan_model("gpt", true, layers, HSP_OPT_ADAMW);
        struct hsp_arena *arena = hsp_arena_new(PLAN_ARENA_BYTES);
        if (i % 2 == 0) {
            random_text(&draw, layers, &text);
        } else {
            hsp_buf_init(&text, 1 << 16);
            hsp_buf_puts(&text,
                         hsp_plan_cases[hsp_plan_pick(&draw, 0, (uint32_t)hsp_n_plan_cases - 1)]);
        }
        struct code x = {.c = {.g = m.g,
                               .p = plan_of_text(hsp_buf_cstr(&text), arena),
                               .t = &m.t,
                               .arena = arena}};
        assert_ok(hsp_layouts_make(&x.c, &err), &err);
        for (uint32_t k = 0; k < x.c.n_stages; k++) {
            x.s = &x.c.stage[k];
            x.member = hsp_plan_pick(&draw, 0, x.s->group->n - 1);
            change_stage(&x, &draw);
        }
        told += x.told;
        hsp_layouts_fini(&x.c);
        hsp_arena_free(arena);
        hsp_buf_fini(&text);
        hsp_graph_free(m.g);
    }
    assert_true(told > 20 * hsp_test_rounds(12)); /* the least of many draws was 137 each */
}

HSP_TEST_FILE(template_builder_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_compile_with_kept_templates_is_a_cold_one_to_the_byte),
        cmocka_unit_test(cases_one_after_another_are_cold_ones_to_the_byte),
        cmocka_unit_test(a_switch_makes_the_templates_of_what_it_changes),
        cmocka_unit_test(plans_of_a_pool_are_told_apart),
        cmocka_unit_test(a_plan_that_is_refused_changes_nothing),
        cmocka_unit_test(keys_tell_all_that_templates_are_made_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
